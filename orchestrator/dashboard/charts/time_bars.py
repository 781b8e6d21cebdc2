"""Bars on one axis of time: the stages of a flow, and when each worked."""

from collections.abc import Sequence
from datetime import UTC, tzinfo

import msgspec
from markupsafe import Markup

from orchestrator.dashboard.charts.axes import TimeAxis, TimeLabel, lasted_text, time_axis
from orchestrator.dashboard.charts.svg import element, percent_text
from orchestrator.views.series import TimeBar

_LEAST_WIDTH = 0.004


class TimeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One bar with what is said of it."""

    name: str
    state: str
    text: str
    when: str
    svg: Markup


class TimeChart(msgspec.Struct, frozen=True, kw_only=True):
    """Bars, one below the other."""

    rows: tuple[TimeRow, ...]
    times: tuple[TimeLabel, ...] = ()
    """Labels of the axis below, evenly apart; none where nothing has begun."""


def time_bars(bars: Sequence[TimeBar], *, now: int, zone: tzinfo = UTC) -> TimeChart:
    """The bars, of which those that have not ended go on until `now`. One that ends before it began is a moment."""
    begun = [(bar.since, _end(bar, now)) for bar in bars if bar.since is not None]
    if not begun:
        return TimeChart(rows=tuple(_row(bar, None, now, zone) for bar in bars))
    axis = time_axis(min(since for since, _ in begun), max(until for _, until in begun), zone)
    return TimeChart(rows=tuple(_row(bar, axis, now, zone) for bar in bars), times=axis.labels)


def _end(bar: TimeBar, now: int) -> int:
    until = now if bar.until is None else bar.until
    return max(until, bar.since or 0)


def _row(bar: TimeBar, axis: TimeAxis | None, now: int, zone: tzinfo) -> TimeRow:
    if bar.since is None or axis is None:
        return TimeRow(name=bar.name, state=bar.state, text=bar.text, when="not begun", svg=Markup())
    left, right = axis.share(bar.since), axis.share(_end(bar, now))
    columns = len(axis.labels) - 1
    grid = [
        element("line", x1=percent_text(at / columns), x2=percent_text(at / columns), y2="100%", class_="grid")
        for at in range(columns + 1)
    ]
    width = max(right - left, _LEAST_WIDTH)
    rectangle = element(
        "rect", x=percent_text(left), width=percent_text(width), y="15%", height="70%", class_=f"part {bar.state}"
    )
    return TimeRow(
        name=bar.name,
        state=bar.state,
        text=bar.text,
        when=lasted_text(bar.since, None if bar.until is None else _end(bar, now), zone),
        svg=element("svg", *grid, rectangle, class_="bar", aria_hidden="true"),
    )
