"""What grew, as so much a second between two samples; what stood, as it stood; and a gap where nobody looked."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from orchestrator.core.samples.sample_spacing import GAP_STEPS, SAMPLE_S
from orchestrator.units import MINUTE_US, SECOND_US

Point = tuple[int, float | None]

OF_LATE_US: Final = MINUTE_US
"""Jobs a second are those of this time, or of that since the run was made, if it is less."""


class Timed(Protocol):
    """What was sampled at a moment."""

    @property
    def at(self) -> int:
        """Microseconds UTC."""


Looked = TypeVar("Looked", bound=Timed)


def is_gap(before: int, after: int, spacing_s: float) -> bool:
    """Whether nobody looked between these two moments, for points that are `spacing_s` apart."""
    return after - before > GAP_STEPS * spacing_s * SECOND_US


def gauged(samples: Sequence[Looked], value: Callable[[Looked], float | None], spacing_s: float) -> list[Point]:
    """The points of what stood at `value`; a gap is a point without one, in its middle."""
    return list(_gauged(samples, value, spacing_s))


def _gauged(samples: Sequence[Looked], value: Callable[[Looked], float | None], spacing_s: float) -> Iterator[Point]:
    for before, after in zip([None, *samples], samples, strict=False):
        if before is not None and is_gap(before.at, after.at, spacing_s):
            yield (before.at + after.at) // 2, None
        yield after.at, value(after)


def grown(samples: Sequence[Looked], count: Callable[[Looked], float], spacing_s: float) -> list[Point]:
    """By how much a second `count` has grown until each sample but the first. Over a gap it is not said, and where it
    fell it has begun anew at 0.
    """
    return list(_grown(samples, count, spacing_s))


def _grown(samples: Sequence[Looked], count: Callable[[Looked], float], spacing_s: float) -> Iterator[Point]:
    for before, after in pairwise(samples):
        if is_gap(before.at, after.at, spacing_s):
            yield (before.at + after.at) // 2, None
        elif after.at > before.at:
            more = count(after) - count(before)
            yield after.at, (more if more >= 0 else count(after)) * SECOND_US / (after.at - before.at)


class EndsOfRun(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a run had ended by a moment, as a sample has it."""

    at: int
    ends: int
    """How often one has, which only grows."""

    ended: int
    """How many jobs had an outcome: fewer than that once some are opened again."""


class EndsOfLate(NamedTuple):
    """So many jobs have ended in the last so many microseconds."""

    ends: int
    within_us: int

    @property
    def per_s(self) -> float:
        """How many that is in a second."""
        return self.ends * SECOND_US / max(self.within_us, SECOND_US)


def ends_of_late(
    latest: EndsOfRun | None, before: EndsOfRun | None, *, ended: int, created_at: int, now: int
) -> EndsOfLate | None:
    """Jobs of a run that have ended of late; None where nothing tells, or none has.

    `latest` is its last sample, and `before` the last one that is not of late, as far as there are any. `ended` jobs
    have an outcome now: so it is also told what has ended since the last sample.
    """
    if latest is not None:
        ends = latest.ends - (0 if before is None else before.ends) + max(0, ended - latest.ended)
    elif now - created_at <= OF_LATE_US:
        ends = ended
    else:
        return None
    # Where nobody worked for a while nothing has ended meanwhile.
    within_us = min(now - (created_at if before is None else before.at), OF_LATE_US + SAMPLE_S * SECOND_US)
    return EndsOfLate(ends, within_us) if ends > 0 else None


def rate_together(parts: Iterable[EndsOfLate]) -> float:
    """How many jobs of several runs ended in a second, of late, whichever of them have begun and ended meanwhile."""
    found = [*parts]
    return EndsOfLate(sum(each.ends for each in found), max((each.within_us for each in found), default=0)).per_s
