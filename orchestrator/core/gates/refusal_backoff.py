"""Going on, with growing pauses (backoff), while the service refuses everything: a key that is being replaced (401), a
gateway that starts, a moment's mood.

An unattended run must not end because of a second. So after the first refusal single requests go, at pauses of some
seconds; one that is answered otherwise ends it, and only a minute of nothing but refusals makes going on pointless.
Times are microseconds UTC.
"""

from typing import Final

from orchestrator.core.jobs.retry import spread_out
from orchestrator.units import SECOND_US

LASTING_US: Final = 60 * SECOND_US
"""For so long nothing but refusals must have come."""

PAUSE_US_MIN: Final = 1 * SECOND_US
PAUSE_US_MAX: Final = 5 * SECOND_US
"""As long as it takes to notice, at the worst, that it is over."""


class Refusals:
    """Whether requests of a kind are refused, and when the next one may be tried all the same."""

    def __init__(self) -> None:
        self._since: int | None = None
        self._latest_at = 0
        self._pause_us = 0
        self._paused_at = 0
        self._until = 0

    @property
    def are_on(self) -> bool:
        """Whether requests go singly."""
        return self._since is not None

    def refused(self, *, sent_at: int, now: int) -> bool:
        """What was sent at `sent_at` was refused; returns whether it begins with that."""
        began = self._since is None
        if self._since is None:
            self._since = sent_at
        self._latest_at = max(self._latest_at, sent_at)
        if began or sent_at >= self._paused_at:  # what left before the pause does not make it longer
            self._paused_at = now
            self._pause_us = min(max(2 * self._pause_us, PAUSE_US_MIN), PAUSE_US_MAX)
            self.asked(now)
        return began

    def over(self, *, sent_at: int) -> bool:
        """What was sent at `sent_at` was not refused; returns whether that ends it. What left before says nothing."""
        if self._since is None or sent_at < self._since:
            return False
        self._since, self._pause_us, self._until = None, 0, 0
        return True

    @property
    def are_lasting(self) -> bool:
        """Whether going on is pointless."""
        return self._since is not None and self._latest_at >= self._since + LASTING_US

    @property
    def until(self) -> int | None:
        """When a single request may be tried; None while they are not refused."""
        return None if self._since is None else self._until

    def try_again(self, now: int) -> None:
        """They may be over, as something else tells: a single request finds out, and the minute begins anew."""
        if self._since is not None:
            self._since = self._latest_at = self._paused_at = now
            self._pause_us = self._until = 0

    def asked(self, now: int) -> None:
        """Something is tried at `now`: the next one waits."""
        if self._since is not None:
            self._until = now + spread_out(self._pause_us, now)

    def wait_us(self, now: int) -> int:
        """How long until something may be tried again."""
        return max(0, self._until - now)
