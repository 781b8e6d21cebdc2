"""How many requests are under way at once: which hold a slot of a limit, those on their way, and those that were
answered less than a window ago.

The guard of `core.limits.rate_pacer`. Those that were given up on hold a place in the concurrency as well: the service
may still be at them. Times are microseconds, and arguments.
"""

from collections import deque
from collections.abc import Iterable


class RequestSlots:
    """Of one operation at one endpoint: at most `requests` in any window, `concurrent` of them at once."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.requests = 1
        self.window_us = 1
        self._concurrent: int | None = None
        self._answered: deque[int] = deque()  # when each was answered or given up; ascending
        self._refused: deque[int] = deque()  # of these, the 429s
        self._given_up: deque[int] = deque()  # the times of those that still hold a place in the concurrency

    def resize(self, requests: int, concurrent: int | None, window_us: int) -> None:
        """The limit is that from now on; what is held stays held."""
        self.requests, self._concurrent, self.window_us = requests, concurrent, window_us

    @property
    def used(self) -> int:
        """How many are held, as far as those that are over were freed."""
        return self.in_flight + len(self._answered)

    @property
    def answered(self) -> int:
        """How many of them were answered, or given up, in the last window."""
        return len(self._answered)

    def free(self, now: int) -> None:
        """Frees what was held long enough."""
        horizon = now - self.window_us
        while self._answered and self._answered[0] <= horizon:
            self._answered.popleft()
        while self._given_up and self._given_up[0] <= horizon:
            self._given_up.popleft()

    def free_at(self) -> int | None:
        """When one is free, which may be over; None where an answer has to come first."""
        at = 0
        taken = self.used - self.requests
        if taken >= 0:
            if taken >= len(self._answered):
                return None
            at = self._answered[taken] + self.window_us
        if self._concurrent is not None:
            excess = self.in_flight + len(self._given_up) - self._concurrent
            if excess >= 0:
                if excess >= len(self._given_up):
                    return None
                at = max(at, self._given_up[excess] + self.window_us)
        return at

    def free_until(self, until: int) -> int:
        """How many are free by then, if no answer comes."""
        horizon = until - self.window_us
        free = self.requests - self.in_flight - _later_than(self._answered, horizon)
        if self._concurrent is None:
            return free
        return min(free, self._concurrent - self.in_flight - _later_than(self._given_up, horizon))

    def taken(self, now: int) -> int:
        """How many were taken in the last window. Those given up are among them: nobody knows."""
        while self._refused and self._refused[0] <= now - self.window_us:
            self._refused.popleft()
        return len(self._answered) - len(self._refused)

    def on_refused(self, now: int) -> None:
        """One of those on their way is answered 429; `on_answered` follows."""
        self._refused.append(now)

    def on_answered(self, now: int) -> None:
        """One of those on their way is answered."""
        self.in_flight -= 1
        self._answered.append(max(now, self._answered[-1]) if self._answered else now)

    def on_given_up(self, now: int) -> None:
        """Nobody waits for the answer to one of them any more."""
        self.on_answered(now)
        self._given_up.append(now)

    def hold(self, answered: Iterable[int], given_up: Iterable[int]) -> None:
        """Those of an earlier process, by the times at which they were answered, or can have been given up."""
        left = list(given_up)
        self._answered = deque(sorted([*self._answered, *answered, *left]))
        self._given_up = deque(sorted([*self._given_up, *left]))


def _later_than(times: deque[int], horizon: int) -> int:
    """How many of the ascending `times` lie after `horizon`; cheap where few do not."""
    early = 0
    for at in times:
        if at > horizon:
            break
        early += 1
    return len(times) - early
