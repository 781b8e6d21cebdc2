"""The one place that asks the system for the time: the wall clock with its jumps, and the monotonic one.

Times are INTEGER microseconds UTC everywhere in the program. Everything else takes the time as an argument or holds
a `Clock`, so that a simulation can bring its own. What a process whose clock was ahead has left in a ledger is brought
back by `ledger.runs.clock_repair`.
"""

import logging
import os
import time
from collections.abc import Callable
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from orchestrator.units import SECOND_US

log = logging.getLogger(__name__)

JUMP_US_MIN = 1 * SECOND_US
"""Wall and monotonic clock that part by more than this are worth a line in the log."""


class Clock(Protocol):
    """What tells the time."""

    def now(self) -> int:
        """Microseconds since the epoch, UTC. Never goes back within a process."""


LOCAL_TIME: Final = Path("/etc/localtime")


def local_zone() -> tzinfo:
    """The time zone of this machine, or of `TZ`; UTC where neither is known."""
    try:
        if name := os.environ.get("TZ", "").removeprefix(":"):
            return ZoneInfo(name)
        with LOCAL_TIME.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError, KeyError):
        return UTC


def elapsed_us() -> int:
    """Microseconds since some moment, by no wall clock; those in which the machine was asleep are among them."""
    return time.clock_gettime_ns(_ELAPSED) // 1000


_ELAPSED: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has a clock of its own for that; the monotonic one of macOS goes on while it sleeps."""


class SystemClock:
    """Wall time at start plus the monotonic clock's advance, and whatever the wall jumped forward meanwhile.

    A wall clock set back must not make deadlines late, and a machine that slept (its monotonic clock stood still)
    must not believe that no time has passed. So every error is an early one: a result is asked for too soon, never too
    late.
    """

    def __init__(
        self,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        elapsed: Callable[[], int] = elapsed_us,
    ) -> None:
        self._wall_ns, self._monotonic_ns = wall_ns, monotonic_ns
        self.elapsed = elapsed
        """Tells microseconds since some moment, whatever becomes of the wall clock."""

        self._wall_start = wall_ns() // 1000
        self._monotonic_start = monotonic_ns() // 1000
        self._latest = self._wall_start
        self._skew = 0
        self._ahead = 0

    def now(self) -> int:
        """Microseconds since the epoch, UTC. Never goes back."""
        wall = self._wall_ns() // 1000 - self._wall_start
        monotonic = self._monotonic_ns() // 1000 - self._monotonic_start
        if not -JUMP_US_MIN <= (jump := wall - monotonic - self._skew) <= JUMP_US_MIN:
            log.warning("the wall clock jumped by %+.1f s", jump / SECOND_US)
            self._skew += jump
            # A jump back is not followed, one forward is, and stays: a clock that stood still until the wall had caught
            # up would let results expire meanwhile.
            self._ahead += max(jump, 0)
        now = self._wall_start + monotonic + self._ahead
        if now > self._latest:  # noqa: PLR1730  `max` would cost a third of it all, some ten times for each job
            self._latest = now
        return self._latest


class WaryElapsedClock:
    """What has elapsed, for whoever must have stopped before others go on: where the wall clock has advanced further,
    by that. A machine that is moved to another host, or wakes from a snapshot, may not have counted what passed
    meanwhile.
    """

    def __init__(self, *, elapsed: Callable[[], int] = elapsed_us, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._elapsed, self._wall_ns = elapsed, wall_ns
        self._elapsed_before, self._wall_before = elapsed(), wall_ns() // 1000
        self._ahead = 0

    def now(self) -> int:
        """Microseconds since some beginning. Never goes back."""
        elapsed, wall = self._elapsed(), self._wall_ns() // 1000
        self._ahead += max(0, (wall - self._wall_before) - (elapsed - self._elapsed_before))
        self._elapsed_before, self._wall_before = elapsed, wall
        return elapsed + self._ahead
