"""Whether a service keeps results for as long as was agreed.

Jobs that it loses are of two kinds. One that was never executed, or vanished at random, is missing whenever it is asked
for. A result that is forgotten too early is missing when it is asked for late, while those that were asked for sooner
were there. So only questions count that came long after the job had probably finished: if a good part of those find
nothing, results are counted on for as long as they have been seen there, and no longer. That only grows less: what
would show the contrary are results that are collected late, and from then on none is. Times are microseconds.
"""

from collections import deque
from typing import Final

from orchestrator.units import SECOND_US

LEAST_SHARE: Final = 1 / 12
LEAST_US: Final = 5 * SECOND_US
"""At least this share of what was agreed is counted on, and so long, whatever is missing: asking more often for jobs
that were lost for other reasons would not bring them back.
"""


class RetentionEstimate:
    """How long the results of one endpoint are kept, as far as this process has found out."""

    ENOUGH = 3
    """So many results have to be gone."""

    SHARE_MIN = 0.25
    """Of the questions as late as half of those that found nothing, so many must have."""

    LAST = 100
    """So many late questions count."""

    def __init__(self) -> None:
        self.counted_on_us: int | None = None
        """For no longer results are counted on, whatever was agreed."""

        self._late: deque[tuple[int, bool]] = deque(maxlen=self.LAST)
        """How long after its probable finish a job was asked for, and whether its result was there."""

    def retention_us(self, agreed_us: int) -> int:
        """For how long results may be counted on where `agreed_us` is agreed."""
        return believed_us(agreed_us, self.counted_on_us)

    def there(self, after_us: int, agreed_us: int) -> None:
        """A result was there so long after its job had finished."""
        if after_us >= least_us(agreed_us):
            self._late.append((after_us, True))

    def gone(self, after_us: int, agreed_us: int) -> int | None:
        """The service has forgotten a job which was asked for so long after it had probably finished.

        Returns how long after that the first results were gone if, from now on, they are counted on for less.
        """
        if not least_us(agreed_us) <= after_us < self.retention_us(agreed_us):
            return None  # nothing to be learned, or known: even by what is counted on, it was asked for too late
        self._late.append((after_us, False))
        gone = sorted(after for after, is_there in self._late if not is_there)
        if len(gone) < self.ENOUGH:
            return None
        later = [is_there for after, is_there in self._late if after >= gone[len(gone) // 2]]
        if later.count(False) < self.SHARE_MIN * len(later):
            return None
        self.counted_on_us = max((after for after, is_there in self._late if is_there and after < gone[0]), default=0)
        self._late.clear()
        return gone[0]


def believed_us(agreed_us: int, counted_on_us: int | None) -> int:
    """What is counted on where `agreed_us` is agreed, and no more than `counted_on_us` was found (None: no less)."""
    return agreed_us if counted_on_us is None else min(agreed_us, max(counted_on_us, least_us(agreed_us)))


def least_us(agreed_us: int) -> int:
    """No less is counted on where `agreed_us` is agreed."""
    return min(agreed_us, max(int(agreed_us * LEAST_SHARE), LEAST_US))
