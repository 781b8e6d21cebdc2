"""How close together samples for charts are kept, and for how long: a coarser one is simply one that is kept longer.

Nothing is averaged. What grows says the same of an hour in two samples as in three hundred, and what stands says how it
stood at a moment.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from orchestrator.units import DAY_US, HOUR_US, SECOND_US

SAMPLE_S: Final = 10
"""How often how all stands is written down, aligned to the clock."""

KEPT_FOR_US: Final = {10: 6 * HOUR_US, 60: 7 * DAY_US, 600: 400 * DAY_US}
"""For how long samples are kept that are so many seconds apart."""

STEPS_S: Final = tuple(KEPT_FOR_US)
COARSEST_S: Final = STEPS_S[-1]
POINTS_MAX: Final = 240
"""A line of a chart has no more points: two or three pixels each. With 300 a page took an eighth longer (measured)."""

GAP_STEPS: Final = 2
"""So many steps without a sample are a gap. One that is late by less than a step is none."""

Sample = TypeVar("Sample")


def longest_step(before: int, due: int) -> int:
    """The longest step, in seconds, that has begun after the moment `before` and until `due`: where nobody looked as it
    began, who looks next stands for it.
    """
    begun = (step for step in reversed(STEPS_S) if due // (step * SECOND_US) > before // (step * SECOND_US))
    return next(begun, SAMPLE_S)


def aligned(now: int) -> int:
    """The last moment at which a sample was due."""
    return now - now % (SAMPLE_S * SECOND_US)


def step_for(since: int, until: int) -> int:
    """The shortest step by which the time between has no more than `POINTS_MAX` points, or else the coarsest one."""
    fits = (step for step in STEPS_S if (until - since) <= step * SECOND_US * POINTS_MAX)
    return next(fits, COARSEST_S)


def spacing_for(since: int, until: int) -> int:
    """How far apart the points are, in seconds, at which the time between has no more than `POINTS_MAX`: a whole number
    of the steps of `step_for`.
    """
    step = step_for(since, until)
    return step * max(1, -(-(until - since) // (step * SECOND_US * POINTS_MAX)))


def thinned(samples: Sequence[Sample], at: Callable[[Sample], int], spacing_s: int) -> list[Sample]:
    """Of samples, oldest first, the last one of each stretch of `spacing_s`, and the very last.

    The stretches are those of the calendar, so the same points stay while a window moves on.
    """
    width = spacing_s * SECOND_US
    last_of = {-(-at(sample) // width): sample for sample in samples}
    return list(last_of.values())


def stretches(since: int, until: int, spacing_s: int) -> list[tuple[int, int]]:
    """The stretches of `thinned` of the time after `since` and until `until`, each as the moment after which it begins
    and the one until which it lasts.
    """
    width = spacing_s * SECOND_US
    ends = range((since // width + 1) * width, until + width, width)
    return [(max(end - width, since), min(end, until)) for end in ends]


def expired_before(step_s: int, now: int) -> int:
    """Samples of this step that are older are deleted."""
    return now - KEPT_FOR_US[step_s]
