"""Holding back while submissions go unanswered.

Each unanswered submission is uncertain, and may be paid for again. A service that answers nothing for an hour must not
make all queued jobs uncertain until they are out of tries; so after `MANY` in a row there are growing pauses, and then
one submission at a time, until one is answered. Times are microseconds UTC.
"""

from typing import Final

_SECOND: Final = 1_000_000

MANY: Final = 10
"""So many unanswered submissions in a row are no chance: where every fifth goes unanswered, one run of ten in a million
submissions.
"""

PAUSE_US_MIN: Final = 1 * _SECOND
PAUSE_US_MAX: Final = 60 * _SECOND


class Silence:
    """How many submissions in a row went unanswered, and until when to hold back."""

    def __init__(self) -> None:
        self._unanswered = 0
        self._pause_us = 0
        self._until = 0

    @property
    def is_long(self) -> bool:
        """Whether only one submission at a time may leave."""
        return self._unanswered >= MANY

    def answered(self) -> None:
        """A submission was answered, in whatever way."""
        self._unanswered = self._pause_us = self._until = 0

    def unanswered(self, *, sent_at: int, now: int) -> None:
        """No answer came to the submission sent at `sent_at`. Those sent before the pause do not make it longer."""
        self._unanswered += 1
        if self.is_long and sent_at >= self._until:
            self._pause_us = min(max(2 * self._pause_us, PAUSE_US_MIN), PAUSE_US_MAX)
            self._until = now + self._pause_us

    def room(self, now: int, *, in_flight: int) -> int | None:
        """How many submissions may leave beside the `in_flight` ones; None where silence sets no bound."""
        if not self.is_long:
            return None
        return 0 if now < self._until else max(0, 1 - in_flight)
