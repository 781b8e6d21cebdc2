"""How long things took, as a histogram whose buckets only grow, and what lies between two looks at them.

Since they only grow, two samples say all of the time between them, whatever was thrown away in between.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import sub
from typing import Final

import msgspec

MARGIN_BOUNDS_S: Final = (0.0, 15.0, 60.0, 150.0, 300.0, 600.0, 900.0, 1200.0, 1500.0, 1700.0)
"""How long a result would still have been there when it was collected."""

TIME_BOUNDS_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 150.0, 300.0, 600.0, 1800.0, 3600.0)
"""How long a job waits in the service's queue, and how long a worker has it."""

REQUEST_BOUNDS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
COMMIT_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
LAG_BOUNDS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Histogram(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How many values lie in each bucket, and what they come to together."""

    counts: tuple[int, ...] = ()
    """Of each bucket alone, from the lowest one on: the first `n` buckets end at the first `n` bounds, bound included,
    and one more has no end. Those that are missing at the end hold nothing.
    """

    sum_s: float = 0.0

    @property
    def total(self) -> int:
        """How many values there are."""
        return sum(self.counts)

    def plus(self, other: "Histogram") -> "Histogram":
        """All values of both."""
        longer, shorter = sorted((self.counts, other.counts), key=len, reverse=True)
        padded = shorter + (0,) * (len(longer) - len(shorter))
        together = tuple(one + two for one, two in zip(longer, padded, strict=True))
        return Histogram(together, self.sum_s + other.sum_s)

    def since(self, before: "Histogram") -> "Histogram":
        """What has come since it was `before`. Where it was more then, it has begun at 0 again."""
        if len(before.counts) > len(self.counts):
            return self
        grown = (*map(sub, self.counts, before.counts), *self.counts[len(before.counts) :])
        return self if min(grown, default=0) < 0 else Histogram(grown, max(0.0, self.sum_s - before.sum_s))


NO_VALUES: Final = Histogram()


def quantile(values: Histogram, bounds: Sequence[float], share: float) -> float | None:
    """The value that `share` of all values do not exceed, in seconds; None where there is no value.

    Within its bucket values are taken to lie evenly; of the last one only its beginning is known, and the first begins
    at 0.
    """
    ends = list(accumulate(values.counts))
    if not ends or not ends[-1]:
        return None
    rank = share * ends[-1]
    position = bisect_left(ends, rank) if rank else bisect_right(ends, 0)
    if position >= len(bounds):
        return bounds[-1]
    low, high = (bounds[position - 1] if position else 0.0), bounds[position]
    inside = rank - (ends[position] - values.counts[position])
    return low + (high - low) * max(0.0, inside) / values.counts[position]


class GrowingHistogram:
    """Values as they come. `bounds` are those of its buckets, in seconds."""

    __slots__ = ("_bounds", "_counts", "_sum_s")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum_s = 0.0

    def add(self, seconds: float) -> None:
        """One more value. One below nothing, of a clock that was set, is nothing."""
        seconds = max(seconds, 0.0)
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum_s += seconds

    def add_all(self, values: list[int], per_s: int) -> None:
        """Many values at once, of which so many are a second: a fifth of what they cost one by one."""
        values.sort()
        before = 0
        for position, bound in enumerate(self._bounds):
            upto = bisect_right(values, bound * per_s)
            self._counts[position] += upto - before
            before = upto
        self._counts[-1] += len(values) - before
        self._sum_s += max(0, sum(values)) / per_s

    @property
    def values(self) -> Histogram:
        """As it stands."""
        filled = len(self._counts)
        while filled and not self._counts[filled - 1]:
            filled -= 1
        return Histogram(tuple(self._counts[:filled]), round(self._sum_s, 3))
