"""Whether more requests are refused (429) than is tolerated: told after as few of them as chance allows."""

from math import log, sqrt
from typing import Final

CLUMP_SHARE: Final = 0.6
CLUMP_REQUESTS_MAX: Final = 10
"""While more than this share of so few requests was refused, all at once, it is not yet told: if that goes on, the
service takes nothing for now, and what it has taken until then says more than a share of so few."""

SURENESS: Final = 1.5
"""By how many standard deviations `share_least` may be wrong."""


class RefusalAlarm:
    """Weighs every answer (a CUSUM test): the score rises with each refusal and falls with each other answer, to 0.

    `tolerated` and `alarming` are shares of refused requests, between which it tells; at `alarm` it is sure enough.
    """

    __slots__ = ("_alarm", "_refused", "_score", "_taken", "refusals", "requests")

    def __init__(self, tolerated: float, alarming: float, alarm: float) -> None:
        self._refused = log(alarming / tolerated)
        self._taken = log((1 - alarming) / (1 - tolerated))
        self._alarm = alarm
        self._score = 0.0
        self.requests = self.refusals = 0
        """Since the score was 0."""

    def rings(self, *, refused: bool) -> bool:
        """One more answer: whether too many are refused by now."""
        self._score += self._refused if refused else self._taken
        if self._score <= 0:
            self._score = 0.0
            self.requests = self.refusals = 0
            return False
        self.requests += 1
        self.refusals += refused
        if self.requests < CLUMP_REQUESTS_MAX and self.refusals > CLUMP_SHARE * self.requests:
            return False
        return self._score > self._alarm

    @property
    def share(self) -> float:
        """The share that was refused since the score was 0. It is large, or the score would not have risen."""
        return (self.refusals - 0.5) / self.requests

    @property
    def share_least(self) -> float:
        """The share that it is at least, by Wilson's bound."""
        count, share, z2 = self.requests, self.refusals / self.requests, SURENESS * SURENESS
        middle = share + z2 / (2 * count)
        return (middle - SURENESS * sqrt(share * (1 - share) / count + z2 / (4 * count * count))) / (1 + z2 / count)
