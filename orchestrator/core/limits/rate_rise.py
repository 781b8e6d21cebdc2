"""The rises of the rate: up to a ceiling, and now and then above, to see whether it is one still.

A ceiling is what the service took in the window before it refused. The rate stays a little below, and now and then
something more is tried, which costs a handful of refusals: after a quarter of the time for which the ceiling has stood,
so soon where it moves, as a neighbour comes and goes, and seldom where it stays.
"""

from typing import Final

from orchestrator.core.limits.rate_sample import RateSample
from orchestrator.core.limits.stray_refusals import TRIED_AGAIN

BELOW: Final = 0.98
"""How far below a ceiling the rate stays."""

CEILING_MAX: Final = 0.966
"""One that is higher is not gone up to at once: there is too little between it and the full rate."""

MOVED: Final = (0.88, 1.4)
"""A ceiling that has become less, or more, than this of itself has moved."""

RISE_STEP: Final = 0.15
RISE_STEP_MAX: Final = 0.3
RISE_REQUESTS: Final = 4
"""By how much more is tried at first, doubled while nothing is refused; more where the rate is so low that it would be
fewer requests than these."""

RISE_WINDOWS: Final = 0.7
"""For how many windows it is tried at first; half of it with each step."""

RISE_REQUESTS_MAX: Final = 80
"""So many requests at the higher rate are enough, whatever the step."""


class Ceiling:
    """What the service takes of the full rate, as the window before the last refusals has it."""

    def __init__(self) -> None:
        self.share = 1.0
        """The share of the full rate; 1: none is known."""

        self.rise_at = 0
        """When it is time to try more."""

        self._stood_share, self._stood_since = 1.0, 0

    @property
    def below(self) -> float:
        """Where the rate stays."""
        return BELOW * self.share

    def is_well_above(self, share: float) -> bool:
        """Whether so much more than `share` seems to be taken that it is gone up to at once."""
        return self.share < CEILING_MAX and share < 0.95 * BELOW * self.share

    def is_in_reach(self, share: float, step: float) -> bool:
        """Whether a ceiling is known, and a step up from `share` would be above it."""
        return self.share < 1 and share < self.below < share * (1 + step)

    def hold(self, now: int, share: float, window_us: int) -> None:
        """The rate stays at `share`, until it is time to try more."""
        least, most = MOVED
        if self._stood_share == 1 or not least < share / self._stood_share < most:
            self._stood_share, self._stood_since = share, now
        self.rise_at = now + max(round(RISE_WINDOWS * window_us), (now - self._stood_since) // TRIED_AGAIN)

    def end(self, now: int) -> None:
        """There is none: the full rate is taken."""
        self._stood_share, self._stood_since = 1.0, now


class Rise:
    """Steps up from a rate that was well, to see what more is taken."""

    def __init__(self, share: float, window_us: int, *, is_from_hold: bool) -> None:
        """From `share`; `is_from_hold`: where it had stayed, below a ceiling."""
        self.floor = share
        """Where it began."""

        self.base = share
        """The rate that was well."""

        self.is_from_hold = is_from_hold
        self.step = RISE_STEP
        self._step_us = round(RISE_WINDOWS * window_us)
        self._until = 0
        self._requests = 0.0

    def share_after(self, share: float, sample: RateSample) -> float:
        """The share one step up from `share`."""
        in_step = self.base * sample.per_window * self._step_us / sample.window_us
        return min(1.0, share * (1 + max(self.step, min(RISE_STEP_MAX, RISE_REQUESTS / in_step))))

    def begin_step(self, now: int, share: float, window_us: int) -> None:
        """`share` is tried from now on."""
        more = max(0.01, share - self.base)
        self._until = now + (self._step_us if share < 1 else round(RISE_WINDOWS * window_us))
        self._requests = min(RISE_REQUESTS_MAX, RISE_REQUESTS * share / more)

    def is_step_over(self, now: int, requests: int) -> bool:
        """Whether the step was tried for long enough, by so many requests."""
        return now >= self._until and requests >= self._requests

    def end_step(self, share: float) -> None:
        """`share` was well: the next step is larger, and shorter."""
        self.base = share
        self.step *= 2
        self._step_us //= 2

    def share_refused(self, by_count: float, by_share: float) -> float:
        """More is refused again: the share to go on at, of what was taken in the last window, and of what was sent."""
        if self.is_from_hold:  # a bucket that had filled meanwhile lets more through for a moment
            share = min(BELOW * by_count, self.base * (1.01 if self.base == self.floor else 1.05))
        else:
            share = BELOW * by_share
        return max(share, 0.93 * self.floor)
