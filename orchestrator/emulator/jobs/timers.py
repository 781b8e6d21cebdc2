"""One alarm per key, earliest first; setting it again moves it.

A heap whose outdated entries are skipped when they come up. A job's first alarm is its TTL, a day away, and most jobs
are gone within the hour: without the sweep below the heap would hold a day of them.
"""

import heapq

STALE_MIN = 1_000
"""The heap is not swept for fewer outdated entries than this, nor before they are the larger half."""


class Timers:
    """Alarms by key. Every operation is O(log n), amortised over the sweeps."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._at)

    def set(self, key: str, at: int) -> None:
        """Ring for `key` at `at` (µs), and no longer at the time set before."""
        if self._at.get(key) != at:
            self._at[key] = at
            heapq.heappush(self._heap, (at, key))
            self._sweep()

    def drop(self, key: str) -> None:
        """Do not ring for `key`; unknown keys are fine."""
        self._at.pop(key, None)

    def next_at(self) -> int | None:
        """When the next alarm rings (µs), or None without any."""
        while self._heap:
            at, key = self._heap[0]
            if self._at.get(key) == at:
                return at
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: int) -> str | None:
        """One key whose alarm is due, earliest first, its alarm taken off; None if none is due."""
        at = self.next_at()
        if at is None or at > now:
            return None
        _, key = heapq.heappop(self._heap)
        del self._at[key]
        return key

    def _sweep(self) -> None:
        stale = len(self._heap) - len(self._at)
        if stale > STALE_MIN and stale > len(self._at):
            self._heap = [(at, key) for key, at in self._at.items()]
            heapq.heapify(self._heap)
