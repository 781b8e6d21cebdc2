"""The program's clock on virtual time: a fixed epoch plus the loop's time, so that a seed gives the same times."""

import asyncio
from collections.abc import Callable

from orchestrator.clock import SystemClock
from orchestrator.units import SECOND_US

EPOCH_AT = 1_767_225_600 * SECOND_US
"""2026-01-01T00:00:00Z, the wall time at which the loop's time is zero."""

STILL = 1 << 62
"""When a process ends that has not ended yet."""


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
        self._latest_at = max(self._latest_at, self._epoch_at + round(loop_s * SECOND_US))
        return self._latest_at

    def jump(self, by_us: int) -> None:
        """Set the wall clock by so many microseconds; set back, it stands still until the loop has caught up."""
        self._epoch_at += by_us


class ProcessClock:
    """The clock of one process: the program's own, on a machine whose wall clock is wrong by `offset_us(now)`.

    `moments` keeps the true time of every time that it told.
    """

    def __init__(self, true: VirtualClock, offset_us: Callable[[int], int], moments: dict[int, int]) -> None:
        self._true = true
        self._offset_us = offset_us
        self._moments = moments
        self._clock = SystemClock(wall_ns=self._wall_ns, monotonic_ns=lambda: 1_000 * true.now())

    def _wall_ns(self) -> int:
        now = self._true.now()
        return 1_000 * (now + self._offset_us(now))

    def now(self) -> int:
        at = self._clock.now()
        self._moments[at] = self._true.now()
        return at
