"""A trial after 429s: whether refusals end, or go on, at a lower rate. Those that end came of the rate."""

from math import log, sqrt
from typing import Final

import msgspec

from orchestrator.core.limits.rate_sample import RateSample

CUT: Final = 1.5
"""A trial's cut, as a multiple of the share that was refused: deep enough to tell, also where a neighbour's requests
are refused as well as ours."""

CUTS_MAX: Final = 2
"""So often it is cut again before the service has forgotten what was sent before."""

FURTHER_CUT_SHARE: Final = 0.07
"""For which so many more than the stray ones have to be refused still."""

ROUNDS_MAX: Final = 3
"""So often a trial is repeated at a still lower rate, since the share that was refused had become another."""

SURE: Final = 3.5
SURE_VERIFIED: Final = 5.0
"""How sure it has to be that a cut has ended the refusals (a logarithm); surer where they were stray so far."""

JUDGED_REQUESTS: Final = 250
JUDGED_REQUESTS_MIN: Final = 60
"""A trial is judged by so many requests, in half a window at least; by fewer after two windows."""

LEAST_VERIFIED: Final = 20
"""A trial that verifies needs a rate that was measured."""


class Trial(msgspec.Struct, kw_only=True):
    """What a cut is to tell."""

    share: float
    """The share of the rate before the cut."""

    refused: float
    """Which share of the requests was refused in the window before it."""

    refused_late: float
    """Which was at least, at the end of it."""

    began_at: int
    sure: float = SURE
    """How sure it has to be that the refusals have ended."""

    rounds: int = 0
    """How often it was repeated, since the share that was refused had become another."""

    cuts: int = 0
    """How often it was cut again before the service had forgotten what was sent before."""

    ended: float = 0.0
    """How sure it is by now."""

    is_settled: bool = False
    """Whether the service has forgotten what was sent before the cut."""

    def weigh(self, stray: float, *, refused: bool) -> bool:
        """One more answer after the cut: whether the refusals have ended for sure."""
        few = stray * 0.5 + 0.004
        many = min(0.95, max(0.7 * max(self.refused, self.refused_late), few + 0.015, 2 * few))
        self.ended += log(few / many) if refused else log((1 - few) / (1 - many))
        return self.ended > self.sure

    def settle(self) -> None:
        """The service has forgotten what was sent before the cut: what is refused from now on is of the lower rate."""
        self.is_settled, self.ended = True, 0.0

    def cut_again(self, now: int, refused_late: float) -> "Trial":
        """The trial that follows where so many are refused still."""
        return Trial(
            share=self.share,
            refused=self.refused,
            refused_late=max(self.refused_late, refused_late),
            began_at=now,
            rounds=self.rounds,
            cuts=self.cuts + 1,
        )

    def repeated(self, now: int, seen: float) -> "Trial":
        """The trial that follows where the share that is refused has become `seen`."""
        return Trial(
            share=self.share, refused=seen, refused_late=seen, began_at=now, rounds=self.rounds + 1, cuts=self.cuts
        )

    def is_to_be_judged(self, now: int, sample: RateSample) -> bool:
        """Whether there are requests enough to tell."""
        took_us = now - sample.since
        enough = JUDGED_REQUESTS if took_us <= 2 * sample.window_us else JUDGED_REQUESTS_MIN
        return sample.requests >= enough and took_us > sample.window_us // 2

    def is_to_be_repeated(self, seen: float, deviation: float, stray: float) -> bool:
        """Whether the share that is refused has become another than before the cut, and not a small one."""
        was_steady = self.rounds > 0 or self.refused_late < CUT * self.refused + 0.02
        is_same = was_steady and abs(seen - self.refused) <= max(self.refused / 4, deviation) + 0.005
        return seen > stray + 0.025 and not is_same and self.rounds < ROUNDS_MAX

    def shows_strays(self, seen: float, deviation: float) -> bool:
        """Whether as many are refused as before the cut."""
        return seen + deviation >= 0.75 * self.refused


def deviation_of(sample: RateSample) -> float:
    """By how much the share that was refused may be wrong."""
    seen = sample.refused_share
    return sqrt(max(seen, 1 / sample.requests) * (1 - seen) / sample.requests)
