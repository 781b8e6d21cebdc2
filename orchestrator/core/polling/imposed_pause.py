"""How far a pause is obeyed that somebody else imposes on questions: the service by a `Retry-After` or a `RateLimit`
header, or whoever refuses the key.

A result is there for half an hour, and a service may want an hour of rest. So its pause is obeyed as long as no result
is lost by that. From then on single questions go all the same, each for the job whose time is up first, at a pace that
grows towards the next loss. Once one is answered, the others follow at once, for as long as deadlines press. Times are
microseconds UTC.
"""

import math
from typing import Final

from orchestrator.core.polling.poll_deadlines import Respite
from orchestrator.units import MINUTE_US, SECOND_US

GAP_US_MIN: Final = SECOND_US // 4
GAP_US_MAX: Final = MINUTE_US
"""Gaps between single questions double up to this."""

LEFT_PARTS: Final = 8
"""No gap is longer than this part of the time to the next loss."""


class ImposedPause:
    """Of the questions of one endpoint."""

    def __init__(self) -> None:
        self._next_at = 0
        self._gap_us = 0
        self._is_answered = False
        self.is_passed = False
        """Whether questions go all the same, since it began."""

    def over(self) -> None:
        """Nobody wants a pause."""
        self._next_at = self._gap_us = 0
        self.is_passed = self._is_answered = False

    def wait_us(self, now: int, *, until: float, respite: Respite) -> int | None:
        """How long no question may go, where none is wanted before `until`; None for as long as nothing changes."""
        at = until if until <= respite.until else max(self._next_at, min(respite.urgent_at, respite.until))
        return None if at == math.inf else max(0, round(at) - now)

    def asked(self, now: int, respite: Respite) -> bool:
        """A question goes all the same, and unless such are answered the next one waits; returns whether it is the
        first.
        """
        is_first, self.is_passed = not self.is_passed, True
        if not self._is_answered:
            gap_us = self._gap_us = min(max(2 * self._gap_us, GAP_US_MIN), GAP_US_MAX)
            if respite.lost_at is not None:
                gap_us = min(gap_us, max((respite.lost_at - now) // LEFT_PARTS, GAP_US_MIN))
            self._next_at = now + gap_us
        return is_first

    def answered(self) -> None:
        """One was answered as if no pause were wanted."""
        self._next_at, self._is_answered = 0, True

    def refused(self) -> None:
        """One was not."""
        self._is_answered = False
