"""Whether requests get through to the service, and for how long they have not. Times are microseconds UTC."""

from typing import Final

from orchestrator.units import SECOND_US

SHOWN_AFTER_US: Final = 3 * SECOND_US
"""A request that does not get through while others do is nothing to speak of; the next one tells."""

STALE_US: Final = 120 * SECOND_US
"""What was found out longer ago says nothing: nobody has asked since. Whoever has to, does so every minute."""


class Reach:
    """What the requests of a process tell about the way to the service."""

    def __init__(self) -> None:
        self._first_at: int | None = None
        self._last_at = 0
        self._answered_at = 0

    def failed(self, sent_at: int, now: int) -> None:
        """A request did not get through, or its answer did not. A time-out tells of the time since it was sent."""
        if self._first_at is None:
            self._first_at = max(sent_at, self._answered_at)
        self._last_at = now

    def answered(self, now: int) -> None:
        """A request was answered, in whatever way."""
        self._first_at, self._answered_at = None, now

    def unreachable_us(self, now: int) -> int | None:
        """For how long nothing has got through; None while something does, and when nobody has tried of late."""
        if self._first_at is None or now > self._last_at + STALE_US:
            return None
        return None if now < self._first_at + SHOWN_AFTER_US else now - self._first_at
