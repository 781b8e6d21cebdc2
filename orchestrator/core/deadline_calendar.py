"""By when which jobs must have been asked for."""

import math
from collections import deque
from collections.abc import Callable


class Calendar:
    """The jobs by the second in which each must have been asked for, at the latest."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._queues: dict[int, deque[int]] = {}

    def add(self, second: int, job: int) -> None:
        """Puts `job` behind the others of `second`."""
        self._numbers[second] = self._numbers.get(second, 0) + 1
        if (queue := self._queues.get(second)) is None:
            queue = self._queues[second] = deque()
        queue.append(job)

    def remove(self, second: int) -> None:
        """One job fewer is in `second`. Which one the caller knows: `first` asks it."""
        if (left := self._numbers[second] - 1) > 0:
            self._numbers[second] = left
        else:
            del self._numbers[second], self._queues[second]

    def first(self, is_in: Callable[[int, int], bool]) -> int | None:
        """The first job of the earliest second of which `is_in(second, job)` still holds."""
        if not self._numbers:
            return None
        second = min(self._numbers)
        queue = self._queues[second]
        while not is_in(second, job := queue.popleft()):
            pass  # it left that second since; `remove` has seen to it that one is left who did not
        return job

    def __len__(self) -> int:
        return len(self._numbers)

    def latest_start(self, per_s: float) -> float:
        """The last time, in seconds, at which one can begin to ask `per_s` times a second and be in time for all.

        Infinity where there are none.
        """
        latest, ahead = math.inf, 0
        for second in sorted(self._numbers):
            ahead += self._numbers[second]
            latest = min(latest, second + 1 - ahead / per_s)
        return latest
