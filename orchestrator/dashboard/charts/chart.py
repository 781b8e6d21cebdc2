"""A chart as its template shows it: a drawing that may be stretched, and in HTML around it all that is text."""

import msgspec
from markupsafe import Markup

from orchestrator.dashboard.charts.axes import TimeLabel


class ChartLine(msgspec.Struct, frozen=True, kw_only=True):
    """What the legend says of one line."""

    css: str
    """The classes of its colour and its dashes."""

    name: str
    last: str
    """Its last value with its unit; "": its last point is a gap, or it has none."""

    key: Markup
    """A piece of the line."""


class BandNote(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a band below the chart."""

    mark: str
    """The number by which it is marked in the drawing."""

    kind: str
    when: str
    text: str


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Values over time, or by size."""

    title: str
    summary: str
    """What the drawing shows, in words."""

    svg: Markup
    """"": there is nothing to draw, and `summary` says so."""

    values: tuple[str, ...] = ()
    """Labels of the axis at the left, from the top down, evenly apart."""

    times: tuple[TimeLabel, ...] = ()
    """Labels of the axis below, evenly apart; a histogram has `bounds` instead."""

    bounds: tuple[str, ...] = ()
    """Labels between the bars of a histogram."""

    lines: tuple[ChartLine, ...] = ()
    bands: tuple[BandNote, ...] = ()
    more_bands: int = 0
    """How many further bands are drawn, without a note."""


class BarPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a bar."""

    kind: str
    """The word of its state or kind, which is its class too."""

    text: str
    """How much it is: a count, or how long it took."""

    share: str = ""
    """Of the whole, where that says something."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a whole, side by side."""

    summary: str
    svg: Markup
    parts: tuple[BarPart, ...]
