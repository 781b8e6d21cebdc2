"""What grew, as so much a second between two samples; what stood, as it stood; and a gap where nobody looked."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from orchestrator.core.samples.steps import GAP_STEPS
from orchestrator.units import SECOND_US

Point = tuple[int, float | None]


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
