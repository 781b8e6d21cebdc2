"""How many requests are under way at once: which hold a slot of a limit, those on their way, and those that were
answered less than a window ago.

The guard of `core.limits.rate_pacer`. Those that were given up on hold a place in the concurrency as well: the service
may still be at them. Times are microseconds, and arguments.
"""

from collections import deque
from collections.abc import Iterable

import msgspec


class SlotsLeft(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is held, for a process that goes on in the place of this one."""

    answered: list[int] = []
    """How long ago each of those was answered, or given up, that hold a slot; the earliest first."""

    given_up: list[int] = []
    """Of which these hold a place among those at once as well."""


class PacerLeft(msgspec.Struct, frozen=True, omit_defaults=True):
    """The same of all that keeps to the limit (`core.limits.rate_pacer`): times are from then on."""

    slots: SlotsLeft
    next_in_ns: int
    trip: float
    even_for: int = 0
    paused_for: int = 0
    share: float = 1.0
    stray: float = 0.0


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
        self.reserved = 0
        """How many of another process hold a slot each."""

        self._reserved_places = self._reserved_until = 0

    def resize(self, requests: int, concurrent: int | None, window_us: int) -> None:
        """The limit is that from now on; what is held stays held."""
        self.requests, self._concurrent, self.window_us = requests, concurrent, window_us

    @property
    def used(self) -> int:
        """How many are held, as far as those that are over were freed."""
        return self.in_flight + len(self._answered) + self.reserved

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
        if self.reserved and now >= self._reserved_until:
            self.reserved = self._reserved_places = 0

    def free_at(self) -> int | None:
        """When one is free, which may be over; None where an answer has to come first."""
        at: int | None = 0
        taken = self.used - self.requests
        if taken >= 0:
            at = self._let_go_at(self._answered, self.reserved, taken)
        if self._concurrent is None or at is None:
            return at
        excess = self.in_flight + len(self._given_up) + self._reserved_places - self._concurrent
        if excess < 0:
            return at
        place_at = self._let_go_at(self._given_up, self._reserved_places, excess)
        return None if place_at is None else max(at, place_at)

    def _let_go_at(self, times: deque[int], reserved: int, before: int) -> int | None:
        """When the next one is let go of after so many of those that are held since `times`, or `reserved`."""
        if reserved:
            early = len(times) - _later_than(times, self._reserved_until - self.window_us)
            if early <= before < early + reserved:
                return self._reserved_until
            if before >= early:
                before -= reserved
        return times[before] + self.window_us if before < len(times) else None

    def free_until(self, until: int) -> int:
        """How many are free by then, if no answer comes."""
        horizon = until - self.window_us
        is_reserved = until < self._reserved_until
        free = self.requests - self.in_flight - _later_than(self._answered, horizon) - is_reserved * self.reserved
        if self._concurrent is None:
            return free
        places = self._concurrent - self.in_flight - _later_than(self._given_up, horizon)
        return min(free, places - is_reserved * self._reserved_places)

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

    def left(self, now: int) -> SlotsLeft:
        """What is held at `now`. What is on its way counts as given up then: this process will not hear of it."""
        late = [0] * self.in_flight
        return SlotsLeft(
            [*(now - at for at in self._answered), *late],
            [*(now - at for at in self._given_up), *late],
        )

    def go_on(self, left: SlotsLeft, now: int) -> None:
        """What another process held at `now` is held here from now on."""
        self._answered = deque(now - ago for ago in left.answered)
        self._given_up = deque(now - ago for ago in left.given_up)

    def reserve(self, number: int, places: int, until: int) -> None:
        """So many of another process, which may still arrive, hold a slot each until then, and so many of them a place
        among those at once. Nobody ends them; what was reserved before is not any more.
        """
        self.reserved, self._reserved_places, self._reserved_until = number, min(number, places), until


def _later_than(times: deque[int], horizon: int) -> int:
    """How many of the ascending `times` lie after `horizon`; cheap where few do not."""
    early = 0
    for at in times:
        if at > horizon:
            break
        early += 1
    return len(times) - early
