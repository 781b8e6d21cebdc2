"""By when which jobs must have been asked for."""

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from orchestrator.units import SECOND_US

RECOUNT_SECONDS_MAX: Final = 100
"""A calendar of so few seconds is counted anew whenever its first job is taken; a fuller one once a second."""


class Respite(NamedTuple):
    """How long all questions can wait. Times are microseconds UTC; infinity where nothing is to be asked for."""

    urgent_at: float
    """From when on questions go to the earliest deadlines, so that none is missed."""

    until: float
    """If all waited until then and went at full speed, the last moment of no result would be missed."""

    lost_at: int | None
    """The next time at which a result may be gone; None where none is to come."""


class Calendar:
    """The jobs by the second in which each must have been asked for, at the latest, where so many questions a second
    are for them.
    """

    def __init__(self, per_s: float) -> None:
        self.per_s = per_s
        """Questions that are for them."""

        self._numbers: dict[int, int] = {}
        self._queues: dict[int, deque[int]] = {}
        self._urgent_at = math.inf
        self._counted_at: int | None = None

    def allow(self, per_s: float) -> None:
        """So many questions a second are for them from now on."""
        self.per_s = per_s

    def add(self, second: int, job: int) -> None:
        """Puts `job` behind the others of `second`."""
        self._numbers[second] = self._numbers.get(second, 0) + 1
        if (queue := self._queues.get(second)) is None:
            queue = self._queues[second] = deque()
        queue.append(job)
        self._urgent_at = min(self._urgent_at, second + 1 - 1 / self.per_s)

    def remove(self, second: int) -> None:
        """One job fewer is in `second`. Which one the caller knows: `first` asks it."""
        if (left := self._numbers[second] - 1) > 0:
            self._numbers[second] = left
        else:
            del self._numbers[second], self._queues[second]

    def urgent_us(self, now: int) -> float:
        """From when on questions go to the earliest deadline. Counted anew each second: that looks at all seconds."""
        if self._counted_at is None or not self._counted_at <= now < self._counted_at + SECOND_US:
            self._counted_at, self._urgent_at = now, latest_start(self._numbers, self.per_s)
        return self._urgent_at * SECOND_US

    def first(self, is_in: Callable[[int, int], bool]) -> int | None:
        """The first job of the earliest second of which `is_in(second, job)` still holds. It is asked for."""
        if not self._numbers:
            self._urgent_at = math.inf
            return None
        second = min(self._numbers)
        queue = self._queues[second]
        while not is_in(second, job := queue.popleft()):
            pass  # it left that second since; `remove` has seen to it that one is left who did not
        self._urgent_at += 1 / self.per_s  # one fewer before every deadline
        if len(self._numbers) <= RECOUNT_SECONDS_MAX:
            self._counted_at = None
        return job


def latest_start(numbers: Mapping[int, int], per_s: float) -> float:
    """The last time, in seconds, at which one can begin to ask `per_s` times a second and be in time for all, of whom
    there are so many in each second. Infinity where there are none.
    """
    latest, ahead = math.inf, 0
    for second in sorted(numbers):
        ahead += numbers[second]
        latest = min(latest, second + 1 - ahead / per_s)
    return latest
