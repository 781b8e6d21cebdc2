"""Holding back while submissions go unanswered.

Each unanswered submission is uncertain, and may be paid for again. A service that answers nothing for an hour must not
make all queued jobs uncertain until they are out of tries; so after `MANY` in a row there are growing pauses, and then
one submission at a time, until one is answered. Those that never left, or were refused without effect, cost nothing:
the pauses stay short then, but the queue is not sent to nobody, a hundred jobs a second. Times are microseconds UTC.
"""

from typing import Final

from orchestrator.core.retry import spread_out
from orchestrator.units import SECOND_US

MANY: Final = 10
"""So many unanswered submissions in a row are no chance: where every fifth goes unanswered, one run of ten in a million
submissions.
"""

PAUSE_US_MIN: Final = 1 * SECOND_US
PAUSE_US_MAX: Final = 60 * SECOND_US
"""After submissions that may have to be paid twice."""

FREE_PAUSE_US_MAX: Final = 3 * SECOND_US
"""After what cost nothing: as long as it takes to notice, at the worst, that the service is back."""


class Silence:
    """How many submissions in a row went unanswered, and until when to hold back."""

    def __init__(self) -> None:
        self._unanswered = 0
        self._pause_us = 0
        self._free_pause_us = 0
        self._until = 0
        self.is_costly = False
        """Whether one of them may have taken effect."""

    @property
    def is_long(self) -> bool:
        """Whether only one submission at a time may leave."""
        return self._unanswered >= MANY

    def answered(self) -> None:
        """A submission was answered, in whatever way."""
        self._unanswered = self._pause_us = self._free_pause_us = self._until = 0
        self.is_costly = False

    def unanswered(self, *, sent_at: int, now: int, is_costly: bool = True) -> None:
        """No answer came to what was sent at `sent_at`. What was sent before the pause does not make it longer.

        `is_costly` is False for what cannot have taken effect.
        """
        self._unanswered += 1
        self.is_costly |= is_costly
        if not self.is_long or sent_at < self._until:
            return
        if is_costly:
            self._pause_us = pause_us = _longer(self._pause_us, PAUSE_US_MAX)
        else:
            self._free_pause_us = pause_us = _longer(self._free_pause_us, FREE_PAUSE_US_MAX)
        self._until = now + spread_out(pause_us, now)

    def wait_us(self, now: int) -> int:
        """How long until something may be tried again."""
        return max(0, self._until - now)

    def available(self, now: int, *, in_flight: int) -> int | None:
        """How many submissions may leave beside the `in_flight` ones; None where silence sets no bound."""
        if not self.is_long:
            return None
        return 0 if self.wait_us(now) else max(0, 1 - in_flight)


def _longer(pause_us: int, most_us: int) -> int:
    return min(max(2 * pause_us, PAUSE_US_MIN), most_us)
