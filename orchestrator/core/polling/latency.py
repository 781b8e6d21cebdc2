"""What has been learned of an endpoint's times, as percentiles: in the queue, in execution, and both together.

Histograms that forget: what the last few thousand jobs did counts, what yesterday's did does not.
"""

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Final

from orchestrator.units import SECOND_US

FEW_OBSERVED: Final = 4
"""Who is doubtful concludes nothing from so few durations; of twice as many a sixteenth of the doubt is left."""


class DurationHistogram:
    """Durations that were observed, as a decaying histogram: 32 steps to the octave, from 1 ms to 12 days.

    Without observations it knows nothing and says so. Quantiles are rounded up to a quarter of an octave: who asks for
    a job once wants nearly all of its like to have finished.
    """

    STEPS_PER_OCTAVE = 32
    STEPS = 30 * STEPS_PER_OCTAVE
    STEPS_PER_QUARTER = STEPS_PER_OCTAVE // 4
    WEIGHT_MAX = 2_000.0
    """Beyond so many observations all of them lose half of their weight."""

    NEWS_SHARE = 1 / 32
    """A quantile that was asked for is remembered until this share of the weight is newer than it."""

    def __init__(self) -> None:
        self._counts = [0.0] * self.STEPS
        self._total = 0.0
        self._news = 0.0
        self._known: dict[float, int] = {}
        self._within: list[float] | None = None
        self._fresh: dict[tuple[float, bool], int] = {}
        """What `over_by_us` says of durations that have just begun, remembered as long as the quantiles."""

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
            self._fresh.clear()
            self._within = None
        if self._total > self.WEIGHT_MAX:
            self._counts = [count / 2 for count in self._counts]
            self._total /= 2

    def quantile_us(self, share: float) -> int | None:
        """The time within which `share` (0-1) of the durations lay, rounded up; None before the first."""
        if not self._total:
            return None
        if (known := self._known.get(share)) is None:
            known = self._known[share] = self._quantile_us(share)
        return known

    def over_by_us(self, share: float, after_us: int, *, doubtful: bool) -> int:
        """The time by which a duration that is longer than `after_us` will be over with the probability `share` (0-1).

        Where few observations were longer, or none, it may be anything: as likely within each octave from a second on.
        Who is not `doubtful` believes them, though, that it will be no shorter than all of them.
        """
        if after_us:
            return self._over_by_us(share, after_us, doubtful=doubtful)
        if (known := self._fresh.get((share, doubtful))) is None:
            known = self._fresh[share, doubtful] = self._over_by_us(share, 0, doubtful=doubtful)
        return known

    def _over_by_us(self, share: float, after_us: int, *, doubtful: bool) -> int:
        within = self._accumulated()
        step = self._step(after_us // 1_000)
        longer = within[-1] - (within[step - 1] if step else 0.0)
        doubt = 1.0 if longer < 1 else min(1.0, (FEW_OBSERVED / longer) ** 4)
        if longer == within[-1] and longer and not doubtful:
            doubt = 0.0
        first, last = step, self.STEPS - 1
        while first < last:
            middle = (first + last) // 2
            over_us = self._upper_us(middle)
            left = (within[-1] - within[middle]) / longer if longer >= 1 else 1.0
            if left * ((after_us + SECOND_US) / (over_us + SECOND_US)) ** doubt <= 1 - share:
                last = middle
            else:
                first = middle + 1
        return self._upper_us(first)

    def _accumulated(self) -> list[float]:
        """How much weight lies within each step and those before it."""
        if self._within is None:
            self._within = list(accumulate(self._counts))
        return self._within

    def _quantile_us(self, share: float) -> int:
        within = self._accumulated()
        step = max(bisect_left(within, share * within[-1]), bisect_right(within, 0.0))
        return self._upper_us(step // self.STEPS_PER_QUARTER * self.STEPS_PER_QUARTER + self.STEPS_PER_QUARTER - 1)

    def _upper_us(self, step: int) -> int:
        """The upper end of a step."""
        octaves, parts = divmod(step, self.STEPS_PER_OCTAVE)
        return (1 << octaves) * 1_000 * (self.STEPS_PER_OCTAVE + parts + 1) // self.STEPS_PER_OCTAVE

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


class Durations:
    """The times of an endpoint's finished jobs."""

    def __init__(self) -> None:
        self.queue = DurationHistogram()
        self.execution = DurationHistogram()
        self.whole = DurationHistogram()
        """From submission to finish."""

    def observe(self, delay_ms: int | None, execution_ms: int | None) -> None:
        """Takes in one finished job's times, in milliseconds; what the service left out is not counted."""
        if delay_ms is not None:
            self.queue.observe(delay_ms)
        if execution_ms is not None:
            self.execution.observe(execution_ms)
        if delay_ms is not None or execution_ms is not None:
            self.whole.observe((delay_ms or 0) + (execution_ms or 0))
