"""Asking on while no question is answered.

A service that is gone for an hour must not be asked a hundred times a second all that time, and must be noticed at once
when it is back. So after `MANY` questions in a row without an answer single ones go, at pauses that grow to some
seconds, until one is answered; which question goes is for the plan to say, and it says the one with the earliest
deadline. Times are microseconds UTC.
"""

from typing import Final

from orchestrator.core.retry import spread_out
from orchestrator.units import SECOND_US

MANY: Final = 10
"""Fewer questions than this in a row without an answer say nothing of the service."""

LASTING_US: Final = 1 * SECOND_US
"""They must have been put over this time: at full speed ten in a row are a moment, and where four of five answers are
errors, the fifth still brings results that may be urgent.
"""

PAUSE_US_MIN: Final = SECOND_US // 2
PAUSE_US_MAX: Final = 3 * SECOND_US
"""As long as it takes to notice, at the worst, that the service is back. Shorter than the wait of a single job that
could not be asked for, so that one whose question fails for ever does not take all the turns.
"""


class Outage:
    """Whether questions go unanswered, and when the next one may be put all the same."""

    def __init__(self) -> None:
        self._missed = 0
        self._first_at = 0
        self._heard_at = 0
        self._pause_us = 0
        self._until = 0
        self.is_on = False
        """Whether questions are put singly."""

    def heard(self, now: int) -> bool:
        """A question was answered at `now`, in whatever way; returns whether that ends an outage."""
        was_on, self.is_on = self.is_on, False
        self._heard_at = now
        self._missed = self._pause_us = self._until = 0
        return was_on

    def missed(self, *, sent_at: int, now: int) -> bool:
        """No answer came, by `now`, to the question put at `sent_at`; returns whether an outage begins with it.

        One that was put before the latest answer came says nothing of the time after it.
        """
        if sent_at < self._heard_at:
            return False
        self._first_at = min(self._first_at, sent_at) if self._missed else sent_at
        self._missed += 1
        if self.is_on or self._missed < MANY or now < self._first_at + LASTING_US:
            return False
        self.is_on = True
        self.asked(now, left_us=None)
        return True

    def wait_us(self, now: int) -> int:
        """How long to wait before the next question."""
        return max(0, self._until - now)

    def asked(self, now: int, *, left_us: int | None) -> None:
        """A question leaves at `now`; in an outage the next one waits.

        `left_us` is the time to the first moment at which a result may be lost (None: none may be, or it has passed):
        the pauses take no more than half of it, so that they get shorter towards it.
        """
        if not self.is_on:
            return
        self._pause_us = min(max(2 * self._pause_us, PAUSE_US_MIN), PAUSE_US_MAX)
        pause_us = self._pause_us if left_us is None else max(min(self._pause_us, left_us // 2), PAUSE_US_MIN)
        self._until = now + spread_out(pause_us, now)
