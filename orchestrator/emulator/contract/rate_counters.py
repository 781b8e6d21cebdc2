"""Five ways in which a service may count requests against "N per W seconds" (fixed window, sliding window, bucket ...).

The contract does not say which one is used, so the client has to live with each. All arithmetic is in whole
microseconds: no request is let in or turned away by a rounding error. A request that is turned away is not counted.
"""

from collections import deque
from enum import StrEnum, auto
from typing import Protocol, assert_never


class Algorithm(StrEnum):
    """The name of a way to count."""

    SLIDING_LOG = auto()
    """Exact: no window of W, wherever it begins, holds more than N."""
    FIXED_WINDOW = auto()
    """N in each window of W since the epoch; two windows' worth can come together at a seam."""
    WEIGHTED_COUNTER = auto()
    """This window's count plus the previous one's, weighted by how much of it the last W still covers."""
    TOKEN_BUCKET = auto()
    """A bucket of N that refills at N/W."""
    TOKEN_BUCKET_SMALL = auto()
    """A bucket of N/10 that refills at N/W: even pacing passes, bursts do not."""


class Counter(Protocol):
    """What decides whether one more request fits. `now` (µs) never goes back between calls."""

    def admit(self, now: int) -> bool:
        """Whether a request fits at `now`; if so it is counted."""
        ...

    def wait_us(self, now: int) -> int:
        """How long until the next request fits, if none is counted before: 0 if it fits now."""
        ...

    def allow(self, requests: int) -> None:
        """From now on, so many requests per window."""
        ...


class SlidingLog:
    """The times of the last N requests."""

    def __init__(self, requests: int, window_us: int) -> None:
        self._requests = requests
        self._window_us = window_us
        self._times: deque[int] = deque()

    def allow(self, requests: int) -> None:
        self._requests = requests

    def admit(self, now: int) -> bool:
        if self.wait_us(now):
            return False
        self._times.append(now)
        return True

    def wait_us(self, now: int) -> int:
        while self._times and self._times[0] <= now - self._window_us:
            self._times.popleft()
        if len(self._times) < self._requests:
            return 0
        return self._times[0] + self._window_us - now


class FixedWindow:
    """A count that begins anew at each multiple of W."""

    def __init__(self, requests: int, window_us: int) -> None:
        self._requests = requests
        self._window_us = window_us
        self._window = 0
        self._count = 0

    def allow(self, requests: int) -> None:
        self._requests = requests

    def admit(self, now: int) -> bool:
        if self.wait_us(now):
            return False
        self._count += 1
        return True

    def wait_us(self, now: int) -> int:
        window, elapsed = divmod(now, self._window_us)
        if window != self._window:
            self._window, self._count = window, 0
        return 0 if self._count < self._requests else self._window_us - elapsed


class WeightedCounter(FixedWindow):
    """Two of them, the older one fading out."""

    def __init__(self, requests: int, window_us: int) -> None:
        super().__init__(requests, window_us)
        self._previous = 0

    def wait_us(self, now: int) -> int:
        window, elapsed = divmod(now, self._window_us)
        if window != self._window:
            self._previous = self._count if window == self._window + 1 else 0
            self._window, self._count = window, 0
        opens = self._opens_at(self._previous, self._count)
        if opens >= self._window_us:
            opens = self._window_us + self._opens_at(self._count, 0)
        return max(0, opens - elapsed)

    def _opens_at(self, previous: int, count: int) -> int:
        """The first µs of a window at which previous * (W - elapsed) / W + count + 1 <= N holds."""
        room = (self._requests - count - 1) * self._window_us
        if room < 0:
            return self._window_us
        if previous == 0:
            return 0
        return max(0, self._window_us - room // previous)


class TokenBucket:
    """Tokens that trickle in at N per W, up to a capacity; it starts full."""

    def __init__(self, requests: int, window_us: int, capacity: int) -> None:
        self._requests = requests
        self._token = window_us
        """One token is W units and N units come in each µs, so that the level is a whole number."""
        self._full = capacity * window_us
        self._level = self._full
        self._filled_at = 0

    def allow(self, requests: int) -> None:
        self._full = self._full * requests // self._requests
        self._requests = requests

    def admit(self, now: int) -> bool:
        if self.wait_us(now):
            return False
        self._level -= self._token
        return True

    def wait_us(self, now: int) -> int:
        self._level = min(self._full, self._level + (now - self._filled_at) * self._requests)
        self._filled_at = now
        missing = self._token - self._level
        return 0 if missing <= 0 else -(-missing // self._requests)


def counter(algorithm: Algorithm, requests: int, window_us: int) -> Counter:
    """A fresh counter of `requests` (at least 1) per `window_us`."""
    match algorithm:
        case Algorithm.SLIDING_LOG:
            return SlidingLog(requests, window_us)
        case Algorithm.FIXED_WINDOW:
            return FixedWindow(requests, window_us)
        case Algorithm.WEIGHTED_COUNTER:
            return WeightedCounter(requests, window_us)
        case Algorithm.TOKEN_BUCKET:
            return TokenBucket(requests, window_us, requests)
        case Algorithm.TOKEN_BUCKET_SMALL:
            return TokenBucket(requests, window_us, max(1, requests // 10))
        case _:
            assert_never(algorithm)
