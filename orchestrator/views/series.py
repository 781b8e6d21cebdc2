"""What charts are drawn of, as plain values. Times are microseconds UTC."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class Unit(StrEnum):
    """What the values of a line count; it chooses round steps and words for the axis."""

    NUMBER = ""
    PER_SECOND = "/s"
    SECONDS = "s"
    SHARE = "%"
    """Of one: 0.031 is shown as 3.1 %."""

    BYTES = "B"
    MONEY = "money"


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a chart."""

    name: str
    unit: Unit = Unit.NUMBER
    points: Sequence[tuple[int, float | None]]
    """Moments and values, oldest first. None is a gap, and stays one: nothing is drawn over it."""

    state: str = ""
    """The word of a state whose colour the line has (`succeeded`, `failed` …); "": that of its place."""


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which something held that a chart is read with: a pause, a hold, a change of limits."""

    kind: str
    """A word: `pause`, `hold`, `limit` …"""

    since: int
    until: int | None
    """None: it still holds. The same as `since`: a moment."""

    text: str
    """What it was, for people."""


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """One bar of a histogram."""

    up_to: float | None
    """Its upper bound in the histogram's unit; None: there is none."""

    count: float


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A part of one attempt of a job."""

    kind: str
    """`waiting`, `queue` or `execution`."""

    seconds: float | None
    """None: nobody knows how long it took."""


class TimeBar(msgspec.Struct, frozen=True, kw_only=True):
    """Something that lasted, beside others on one axis of time: a stage of a flow."""

    name: str
    since: int | None
    """None: it has not begun."""

    until: int | None
    """None: it has not ended."""

    state: str
    """The word of its state, whose colour it has."""

    text: str = ""
    """What came of it, for people."""


class FireSign(msgspec.Struct, frozen=True, kw_only=True):
    """One of the last fires of a pipeline, or anything else of which one looks at many."""

    state: str
    text: str
    """When it was, and what came of it."""

    href: str = ""
    """Where it is told in full, as a path from the root of the pages; "": nowhere."""
