"""One look at a schedule: which of the fires since the last look are due, and which were missed (catch-up).

Of a schedule only the past is kept: a watermark, up to which each fire is recorded or stands in a gap. What lies ahead
is worked out anew each time, so that new rules of a zone move nothing that was. All of this goes by nominal times: the
jitter only puts off when a flow begins.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from orchestrator.core.pipelines.pipeline import Schedule
from orchestrator.core.pipelines.schedule_calendar import Fire, fires_between
from orchestrator.units import HOUR_US

COUNTED_MAX: Final = 10_000
"""Up to so many fires of a gap are counted."""

BEHIND_US_MAX: Final = HOUR_US
"""A clock that is further behind a watermark was set back, or was ahead before: nothing fires until it has come on."""


class GapKind(StrEnum):
    """Why nothing was done for some fires."""

    MISSED = "missed"
    """They were noticed later than `catch-up` allows."""

    PAUSED = "paused"
    """The schedule was paused."""


class Gap(NamedTuple):
    """The fires after `after_us` and until `until_us`, for which nothing was done."""

    kind: GapKind
    after_us: int
    until_us: int
    first_us: int
    """The first of them."""

    fires: int
    """How many they are; of `COUNTED_MAX` there may be more."""


class Look(NamedTuple):
    """What a look has found. The watermark moves to `until_us`."""

    gaps: tuple[Gap, ...]
    fires: tuple[Fire, ...]
    until_us: int
    is_all: bool
    """Whether nothing is left: else there were more fires than one look may take."""


class Watermark(NamedTuple):
    """Up to where everything is recorded, and whether the schedule is paused."""

    at_us: int
    paused_at: int | None = None
    paused_until: int | None = None

    def is_paused(self, now: int) -> bool:
        """Whether nothing fires now."""
        return self.paused_at is not None and (self.paused_until is None or now < self.paused_until)


def gap(kind: GapKind, schedule: Schedule, key: str, after_us: int, until_us: int) -> Gap | None:
    """The gap of the pipeline `key` in (`after_us`, `until_us`]; None where no fire is in it."""
    fires = fires_between(schedule, key, after_us, until_us, COUNTED_MAX)
    return Gap(kind, after_us, until_us, fires[0].at_us, len(fires)) if fires else None


def look(schedule: Schedule, key: str, watermark: Watermark, now: int, most: int) -> Look:
    """The fires of the pipeline `key` from its watermark to `now`, `most` of them at most.

    A pause that is over by itself is a gap up to its end. What is overdue for longer than `catch-up` was missed.
    """
    after, gaps = watermark.at_us, []
    if watermark.paused_at is not None and watermark.paused_until is not None:
        gaps.append(gap(GapKind.PAUSED, schedule, key, after, watermark.paused_until))
        after = max(after, watermark.paused_until)
    bygone = now - schedule.catch_up_us - 1
    if after < bygone:
        gaps.append(gap(GapKind.MISSED, schedule, key, after, bygone))
        after = bygone
    fires = fires_between(schedule, key, after, now, most + 1)
    is_all = len(fires) <= most
    until = max(now, after) if is_all else fires[most - 1].at_us
    return Look(tuple(each for each in gaps if each is not None), tuple(fires[:most]), until, is_all)


def is_set_back(watermark_us: int, now: int) -> bool:
    """Whether the clock is so far behind the watermark that a person has to know why nothing fires."""
    return watermark_us - now > BEHIND_US_MAX
