"""Five ways of counting, and a sender that always has something to send: the limiter measured without waiting.

The servers are written a second time here, and not taken from the emulator, so that one misreading cannot hide in both.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from orchestrator.core.limits.rate_pacer import Limit, Pacer

MILLISECOND = 1_000
SECOND = 1_000_000
START = 1_700_000_000 * SECOND

# --- five servers ----------------------------------------------------------------------------------------------------


class Server(Protocol):
    """A way of counting. `allows` is asked in the order of the stamps."""

    def allows(self, at: int) -> bool: ...


class SlidingLog:
    def __init__(self, limit: int, window: int) -> None:
        self.limit, self.window = limit, window
        self.log: deque[int] = deque()

    def allows(self, at: int) -> bool:
        while self.log and self.log[0] <= at - self.window:
            self.log.popleft()
        if len(self.log) >= self.limit:
            return False
        self.log.append(at)
        return True


class FixedWindow:
    def __init__(self, limit: int, window: int) -> None:
        self.limit, self.window = limit, window
        self.number, self.count = -1, 0

    def allows(self, at: int) -> bool:
        if (number := at // self.window) != self.number:
            self.number, self.count = number, 0
        if self.count >= self.limit:
            return False
        self.count += 1
        return True


class WeightedCounter:
    def __init__(self, limit: int, window: int) -> None:
        self.limit, self.window = limit, window
        self.number, self.count, self.before = -1, 0, 0

    def allows(self, at: int) -> bool:
        if (number := at // self.window) != self.number:
            self.before = self.count if number == self.number + 1 else 0
            self.number, self.count = number, 0
        left = 1 - (at % self.window) / self.window
        if self.before * left + self.count >= self.limit:
            return False
        self.count += 1
        return True


class TokenBucket:
    def __init__(self, limit: int, window: int, *, size: int) -> None:
        self.size, self.rate = size, limit / window
        self.tokens, self.at = float(size), 0

    def allows(self, at: int) -> bool:
        self.tokens = min(self.size, self.tokens + (at - self.at) * self.rate)
        self.at = at
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


def servers(limit: Limit) -> dict[str, Server]:
    window = round(limit.window_s * SECOND)
    return {
        "sliding log": SlidingLog(limit.requests, window),
        "fixed window": FixedWindow(limit.requests, window),
        "weighted counter": WeightedCounter(limit.requests, window),
        "bucket of N": TokenBucket(limit.requests, window, size=limit.requests),
        "bucket of N/10": TokenBucket(limit.requests, window, size=max(1, limit.requests // 10)),
    }


# --- a sender that always has something to send ----------------------------------------------------------------------


class Traffic(msgspec.Struct, frozen=True):
    """What happened: when the server stamped each request, and how many were sent in the measured time."""

    stamps: tuple[int, ...]
    per_window: float


def saturate(
    pacer: Pacer,
    *,
    windows: int,
    round_trip: Callable[[], int],
    late: Callable[[], int],
    chance: random.Random,
    start: int = START,
) -> Traffic:
    """Sends from `start` on for `windows` windows as fast as `pacer` allows; timers fire `late()` µs too late."""
    window = round(pacer.limit.window_s * SECOND)
    end = start + windows * window
    answers: list[tuple[int, int]] = []
    stamps = []
    now, sent = start, 0
    wake: int | None = start
    while now < end:
        if wake is None or (answers and answers[0][0] <= wake):
            now, sent_at = heapq.heappop(answers)
            pacer.answered(now, sent_at, 200)
        else:
            now = wake
        while pacer.wait_us(now) == 0:
            pacer.take(now)
            sent += 1
            answer = now + round_trip()
            heapq.heappush(answers, (answer, now))
            stamps.append(chance.randint(now, answer))
        if wake is None or wake <= now:
            wait = pacer.wait_us(now)
            wake = None if wait is None else now + wait + late()
    return Traffic(tuple(sorted(stamps)), sent / windows)


def refused(limit: Limit, stamps: Sequence[int]) -> dict[str, int]:
    counted = {name: sum(not server.allows(at) for at in stamps) for name, server in servers(limit).items()}
    return {name: count for name, count in counted.items() if count}
