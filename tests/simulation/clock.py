"""The program's clock on virtual time: a fixed epoch plus the loop's time, so that a seed gives the same times."""

import asyncio

from orchestrator.clock import SECOND

EPOCH_AT = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z, the wall time at which the loop's time is zero."""


class VirtualClock:
    """An `orchestrator.clock.Clock` that follows the running loop, whichever that is, and can be made to jump.

    It never goes back, not even from one loop to the next: a world that follows a crashed one has a later time or
    the same. Outside any loop, time stands still.
    """

    def __init__(self, *, epoch_at: int = EPOCH_AT) -> None:
        self._epoch_at = epoch_at
        self._latest_at = epoch_at

    def now(self) -> int:
        """Microseconds since the epoch, UTC. Never goes back."""
        try:
            loop_s = asyncio.get_running_loop().time()
        except RuntimeError:
            return self._latest_at
        # Rounded, not cut: a timer set for a microsecond must find that microsecond on the clock when it fires.
        self._latest_at = max(self._latest_at, self._epoch_at + round(loop_s * SECOND))
        return self._latest_at

    def jump(self, by_us: int) -> None:
        """Set the wall clock by so many microseconds; set back, it stands still until the loop has caught up."""
        self._epoch_at += by_us
