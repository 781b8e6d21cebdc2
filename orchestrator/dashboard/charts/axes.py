"""The axes of charts: round values and round times, evenly apart, so that their labels need no places of their own."""

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta, tzinfo
from itertools import count
from typing import Final

import msgspec

from orchestrator.dashboard.charts.amounts import amount_text
from orchestrator.units import DAY_US, EPOCH, HOUR_US, MINUTE_US, SECOND_US
from orchestrator.views.series import Unit

VALUE_STEPS_MAX: Final = 4
TIME_STEPS_MAX: Final = 6

VALUE_MAX: Final = 1e300
"""Beyond it a range of two values is no number any more."""

_CLOCK_STEPS: Final = (
    *(n * SECOND_US for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE_US for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR_US for n in (1, 2, 3, 6, 12)),
)
_DAYS: Final = (1, 2, 4, 7, 14, 28, 56, 112)
_ROUND_SECONDS: Final = tuple(step / SECOND_US for step in _CLOCK_STEPS)
_YEAR_SHOWN_FROM: Final = 300 * DAY_US


class ValueAxis(msgspec.Struct, frozen=True, kw_only=True):
    """From `low` to `high` in even steps."""

    low: float
    high: float
    labels: tuple[str, ...]
    """From the top down."""

    def share(self, value: float) -> float:
        """Where `value` is, from 0 at the bottom to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


class TimeLabel(msgspec.Struct, frozen=True, kw_only=True):
    """A moment at an axis: for people, and for programs."""

    text: str
    iso: str


class TimeAxis(msgspec.Struct, frozen=True, kw_only=True):
    """From `since` to `until`, both round, in even steps."""

    since: int
    until: int
    labels: tuple[TimeLabel, ...]

    def share(self, at: int) -> float:
        """Where the moment is, from 0 at the left to 1."""
        return min(max((at - self.since) / (self.until - self.since), 0.0), 1.0)


def value_axis(values: Sequence[float], unit: Unit) -> ValueAxis:
    """The axis on which all `values` are. It begins at zero, or below where a value is negative.

    Raises ValueError for what is no number, or is beyond `VALUE_MAX`.
    """
    for value in values:
        if not abs(value) <= VALUE_MAX:
            raise ValueError(f"{value!r} cannot be drawn")
    lowest, highest = min((0.0, *values)), max((0.0, *values))
    if lowest == highest:
        highest = 0.01 if unit is Unit.SHARE else 1.0
    are_whole = unit is Unit.NUMBER and all(float(value).is_integer() for value in values)
    for step in _value_steps(highest - lowest, unit):
        below, above = math.floor(lowest / step), math.ceil(highest / step)
        if above - below <= VALUE_STEPS_MAX and (step >= 1 or not are_whole):
            labels = tuple(amount_text(n * step, unit) for n in range(above, below - 1, -1))
            return ValueAxis(low=below * step, high=above * step, labels=labels)
    raise AssertionError("steps grow without end")


def _value_steps(extent: float, unit: Unit) -> Iterator[float]:
    """Round steps, growing, from below those by which `extent` is cut into some."""
    if unit is Unit.SECONDS and VALUE_STEPS_MAX < extent <= VALUE_STEPS_MAX * _ROUND_SECONDS[-1]:
        yield from _ROUND_SECONDS
    factor = 1.0
    if unit is Unit.BYTES and extent >= 1024:  # noqa: PLR2004  a KiB
        factor = 1024.0 ** int(math.log2(extent) / 10)
    elif unit is Unit.SECONDS and extent > VALUE_STEPS_MAX * _ROUND_SECONDS[-1]:
        factor = 86_400.0
    for power in count(math.floor(math.log10(extent / factor)) - 1):
        for first in (1, 2, 5):
            yield first * 10.0**power * factor


def time_axis(since: int, until: int, zone: tzinfo) -> TimeAxis:
    """The axis that holds the window from `since` to `until`, from one round time of `zone` to another.

    Where the window is empty, or ends before it begins, it is of one second. Round times are those of the offset that
    the zone has when the window begins: where it changes within, the later ones are off by the change.
    """
    until = max(until, since + SECOND_US)
    local = EPOCH + timedelta(microseconds=since)
    offset = local.astimezone(zone).utcoffset() or timedelta(0)
    offset_us = offset // timedelta(microseconds=1)
    for step in _time_steps():
        first, last = (since + offset_us) // step, -(-(until + offset_us) // step)
        if last - first <= TIME_STEPS_MAX:
            times = [n * step - offset_us for n in range(first, last + 1)]
            labels = tuple(_time_label(at, step, times[-1] - times[0], zone) for at in times)
            return TimeAxis(since=times[0], until=times[-1], labels=labels)
    raise AssertionError("steps grow without end")


def _time_steps() -> Iterator[int]:
    yield from _CLOCK_STEPS
    for days in _DAYS:
        yield days * DAY_US
    for doubled in count(1):
        yield _DAYS[-1] * 2**doubled * DAY_US


def _time_label(at: int, step: int, extent: int, zone: tzinfo) -> TimeLabel:
    then = (EPOCH + timedelta(microseconds=at)).astimezone(zone)
    if extent >= _YEAR_SHOWN_FROM:
        text = f"{then.day} {then:%b %Y}"
    elif step >= DAY_US or (extent > DAY_US and then.hour == then.minute == 0):
        text = f"{then.day} {then:%b}"
    else:
        text = f"{then:%H:%M}" if step >= MINUTE_US else f"{then:%H:%M:%S}"
    return TimeLabel(text=text, iso=then.isoformat())


def clock_text(at: int, zone: tzinfo) -> str:
    """A moment in a sentence, to the minute: "24 Nov 21:30"."""
    then = (EPOCH + timedelta(microseconds=at)).astimezone(zone)
    return f"{then.day} {then:%b %H:%M}"


def lasted_text(since: int, until: int | None, zone: tzinfo) -> str:
    """From when to when: "24 Nov 21:30 to 22:15", "since 24 Nov 21:30", or one moment."""
    begun = clock_text(since, zone)
    if until is None:
        return f"since {begun}"
    ended = clock_text(until, zone)
    if ended == begun:
        return begun
    day, _, clock = ended.rpartition(" ")
    return f"{begun} to {clock if begun.startswith(f'{day} ') else ended}"
