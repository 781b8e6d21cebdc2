"""When what a batch has not executed must leave by `/run`, so that a run is finished in time.

The service promises no time at which it begins with a batch. So what is left is given up to `/run` at the latest moment
at which that would end all of it in time, and not before.
"""

from typing import Final

import msgspec

from orchestrator.units import MINUTE_US, SECOND_US

EXECUTION_US_UNKNOWN: Final = MINUTE_US
"""What an execution is taken to last where none is known."""

RESERVE_US: Final = 4 * MINUTE_US
"""To ask how a batch stands, to cancel it, to see that it is, and to begin."""

RESERVE_SHARE: Final = 0.1
"""Of the time that all of it takes: what is known of executions is of the past."""

RATED_FROM: Final = 20
"""From so many ends on it is told how fast a batch goes."""


class BatchPace(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a batch goes. Times are microseconds UTC."""

    left: int
    ended: int
    since: int | None
    """When it had not begun yet, as far as was asked; None before it has."""


def needed_us(left: int, *, execution_us: int | None, workers: int) -> int:
    """How long `/run` takes for so many jobs, once what their batches execute has ended, with a reserve."""
    each_us = EXECUTION_US_UNKNOWN if execution_us is None else execution_us
    rounds = -(-left // max(1, workers))
    return each_us + round(rounds * each_us * (1 + RESERVE_SHARE)) + RESERVE_US


def leaves_at(finish_by: int, left: int, *, execution_us: int | None, workers: int) -> int:
    """The latest moment at which so many jobs have to leave by `/run` to be finished then."""
    return finish_by - needed_us(left, execution_us=execution_us, workers=workers)


def ends_at(pace: BatchPace, now: int) -> int | None:
    """When the batch will end at the pace that it has shown; None where it has shown none."""
    if pace.since is None or pace.ended < RATED_FROM or now <= pace.since:
        return None
    return now + round(pace.left * max(now - pace.since, SECOND_US) / pace.ended)


def is_in_time(pace: BatchPace, finish_by: int, now: int) -> bool:
    """Whether the batch will end in time at the pace that it has shown."""
    end = ends_at(pace, now)
    return end is not None and end <= finish_by
