"""The circuit breaker of an endpoint: going on singly while it answers nothing, and at full speed once it answers
again.

A service that is gone for an hour must not be asked a hundred times a second all that time, must not make all queued
jobs uncertain until they are out of tries, and must be noticed at once when it is back. So after `MANY` requests of a
kind in a row without an answer the breaker is tripped: single ones go, at growing pauses, until one is answered.

Submissions and questions each have one. What differs between them is in their `Rules`. Times are microseconds UTC.
"""

from dataclasses import dataclass
from typing import Final

from orchestrator.core.jobs.retry import spread_out
from orchestrator.units import SECOND_US

MANY: Final = 10
"""So many requests in a row without an answer are no chance: where every fifth goes unanswered, one run of ten in a
million requests.
"""

PAUSE_US_MAX: Final = 3 * SECOND_US
"""After what cost nothing: as long as it takes to notice, at the worst, that the service is back. Shorter than the wait
of a single job that could not be asked for, so that one whose question fails for ever does not take all the turns.
"""

COSTLY_PAUSE_US_MAX: Final = 60 * SECOND_US
"""After what may have taken effect, and have to be paid twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitRules:
    """What differs between requests of two kinds."""

    lasting_us: int
    """Over what time the failures must have been sent."""

    pause_us_min: int
    """The first pause; the next ones double."""

    is_one_at_a_time: bool
    """Whether the next request waits for the answer to the one before: then the pause begins with its failure, else as
    it leaves.
    """

    counts_overtaken: bool
    """Whether the failure of a request counts that was sent before the latest answer came."""


SUBMISSIONS: Final = CircuitRules(
    lasting_us=0,  # each of them may cost: there is nothing to wait for
    pause_us_min=SECOND_US,
    is_one_at_a_time=True,  # two that hang could both be paid twice
    counts_overtaken=True,  # it may be paid twice, whenever it was sent
)

QUESTIONS: Final = CircuitRules(
    lasting_us=SECOND_US,  # at full speed ten are a moment, and where four of five fail, the fifth may be urgent
    pause_us_min=SECOND_US // 2,
    is_one_at_a_time=False,  # one that hangs until its time-out must not hold up a result that is about to be lost
    counts_overtaken=False,  # what hung for 30 s tells of the time before the answer
)


class CircuitBreaker:
    """Whether requests of a kind go unanswered, and when the next one may be tried all the same."""

    def __init__(self, rules: CircuitRules) -> None:
        self._rules = rules
        self._failures = 0
        self._first_at = 0
        self._answered_at = 0
        self._pause_us = 0
        self._costly_pause_us = 0
        self._until = 0
        self.is_tripped = False
        """Whether requests go singly."""

        self.is_costly = False
        """Whether one of the failures in a row may have taken effect."""

    def record_success(self, now: int) -> bool:
        """A request was answered at `now`, in whatever way; returns whether that ends it: all may go again."""
        was_tripped, self.is_tripped, self.is_costly = self.is_tripped, False, False
        self._answered_at = now
        self._failures = self._pause_us = self._costly_pause_us = self._until = 0
        return was_tripped

    def record_failure(self, *, sent_at: int, now: int, is_costly: bool = False) -> bool:
        """No answer came, by `now`, to what was sent at `sent_at`; returns whether the breaker trips with it.

        `is_costly`: it may have taken effect.
        """
        if sent_at < self._answered_at and not self._rules.counts_overtaken:
            return False
        self._first_at = min(self._first_at, sent_at) if self._failures else sent_at
        self._failures += 1
        self.is_costly |= is_costly
        was_tripped = self.is_tripped
        self.is_tripped |= self._failures >= MANY and now >= self._first_at + self._rules.lasting_us
        trips = self.is_tripped and not was_tripped
        is_of_single = was_tripped and self._rules.is_one_at_a_time and sent_at >= self._until
        if trips or is_of_single:  # what was sent before the pause does not make it longer
            self._pause(now, self._longer_us(is_costly=is_costly))
        return trips

    def record_sent(self, now: int, *, left_us: int | None) -> None:
        """A request leaves at `now`, and the next one waits, where it does not wait for the answer.

        `left_us` is the time to the first moment at which a result may be lost (None: none may be, or it has passed):
        the pauses take no more than half of it, so that they get shorter towards it.
        """
        if not self.is_tripped or self._rules.is_one_at_a_time:
            return
        pause_us = self._longer_us(is_costly=False)
        self._pause(now, pause_us if left_us is None else max(min(pause_us, left_us // 2), self._rules.pause_us_min))

    def wait_us(self, now: int) -> int:
        """How long until something may be tried again."""
        return max(0, self._until - now)

    @property
    def until(self) -> int | None:
        """When a single request may be tried; None while the breaker is not tripped."""
        return self._until if self.is_tripped else None

    def _pause(self, now: int, pause_us: int) -> None:
        self._until = now + spread_out(pause_us, now)

    def _longer_us(self, *, is_costly: bool) -> int:
        """The next pause. Those after what cost nothing leave the ones after what may cost as they were."""
        if is_costly:
            self._costly_pause_us = self._doubled_us(self._costly_pause_us, COSTLY_PAUSE_US_MAX)
            return self._costly_pause_us
        self._pause_us = self._doubled_us(self._pause_us, PAUSE_US_MAX)
        return self._pause_us

    def _doubled_us(self, pause_us: int, most_us: int) -> int:
        return min(max(2 * pause_us, self._rules.pause_us_min), most_us)


SHOWN_AFTER_US: Final = 3 * SECOND_US
"""A request that does not get through while others do is nothing to speak of; the next one tells."""

STALE_US: Final = 120 * SECOND_US
"""What was found out longer ago says nothing: nobody has asked since. Whoever has to, does so every minute."""


class Connectivity:
    """What the requests of all kinds tell about the way to the service: for the display, and whether a member of a pool
    is well.
    """

    def __init__(self) -> None:
        self._first_at: int | None = None
        self._last_at = 0
        self.answered_at = 0
        """When the last answer of any kind came; 0: none has."""

    def record_failure(self, *, sent_at: int, now: int) -> None:
        """A request did not get through, or its answer did not. A time-out tells of the time since it was sent."""
        if self._first_at is None:
            self._first_at = max(sent_at, self.answered_at)
        self._last_at = now

    def record_success(self, now: int) -> None:
        """A request was answered, in whatever way."""
        self._first_at, self.answered_at = None, now

    def unreachable_us(self, now: int) -> int | None:
        """For how long nothing has got through; None while something does, and when nobody has tried of late."""
        if self._first_at is None or now > self._last_at + STALE_US:
            return None
        return None if now < self._first_at + SHOWN_AFTER_US else now - self._first_at
