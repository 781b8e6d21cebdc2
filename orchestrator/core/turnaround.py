"""What has been learned of an endpoint's times: in the queue, in execution, and both together.

Histograms that forget: what the last few thousand jobs did counts, what yesterday's did does not.
"""

from bisect import bisect_left, bisect_right
from itertools import accumulate


class Learned:
    """Durations that were observed, as a decaying histogram: 4 steps to the octave, from 1 ms to 12 days.

    Without observations it knows nothing and says so.
    """

    STEPS_PER_OCTAVE = 4
    STEPS = 120
    WEIGHT_MAX = 2_000.0
    """Beyond so many observations all of them lose half of their weight."""

    NEWS_SHARE = 1 / 32
    """A quantile that was asked for is remembered until this share of the weight is newer than it."""

    def __init__(self) -> None:
        self._counts = [0.0] * self.STEPS
        self._total = 0.0
        self._news = 0.0
        self._known: dict[float, int] = {}

    @property
    def weight(self) -> float:
        """How many observations the histogram stands on, old ones counting less."""
        return self._total

    def observe(self, milliseconds: int) -> None:
        """Takes in one duration."""
        self._counts[self._step(milliseconds)] += 1.0
        self._total += 1.0
        self._news += 1.0
        if self._news >= self._total * self.NEWS_SHARE:
            self._news = 0.0
            self._known.clear()
        if self._total > self.WEIGHT_MAX:
            self._counts = [count / 2 for count in self._counts]
            self._total /= 2

    def quantile_us(self, share: float) -> int | None:
        """The time within which `share` (0-1) of the durations lay, rounded up to a step; None before the first."""
        if not self._total:
            return None
        if (known := self._known.get(share)) is None:
            known = self._known[share] = self._quantile_us(share)
        return known

    def _quantile_us(self, share: float) -> int:
        within = list(accumulate(self._counts))
        step = max(bisect_left(within, share * within[-1]), bisect_right(within, 0.0))
        octaves, quarters = divmod(step, self.STEPS_PER_OCTAVE)
        return (1 << octaves) * 1_000 * (self.STEPS_PER_OCTAVE + quarters + 1) // self.STEPS_PER_OCTAVE

    @property
    def p50_us(self) -> int | None:
        """The median, in microseconds."""
        return self.quantile_us(0.5)

    @property
    def p95_us(self) -> int | None:
        """What 95 % lay within, in microseconds."""
        return self.quantile_us(0.95)

    @property
    def p999_us(self) -> int | None:
        """What 99.9 % lay within, in microseconds: of fewer than a thousand observations, the longest."""
        return self.quantile_us(0.999)

    def _step(self, milliseconds: int) -> int:
        octaves = max(milliseconds, 1).bit_length() - 1
        fraction = max(milliseconds, 1) / 2**octaves - 1
        return min(self.STEPS - 1, octaves * self.STEPS_PER_OCTAVE + int(fraction * self.STEPS_PER_OCTAVE))


class Turnaround:
    """The times of an endpoint's finished jobs."""

    def __init__(self) -> None:
        self.queue = Learned()
        self.execution = Learned()
        self.whole = Learned()
        """From submission to finish."""

    def observe(self, delay_ms: int | None, execution_ms: int | None) -> None:
        """Takes in one finished job's times, in milliseconds; what the service left out is not counted."""
        if delay_ms is not None:
            self.queue.observe(delay_ms)
        if execution_ms is not None:
            self.execution.observe(execution_ms)
        if delay_ms is not None or execution_ms is not None:
            self.whole.observe((delay_ms or 0) + (execution_ms or 0))
