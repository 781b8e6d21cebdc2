"""By when which jobs must have been asked for, and to whose deadline a question goes."""

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from orchestrator.core.jobs.deadlines import ASK_GAP_US_MIN, hard_deadline, safe_until
from orchestrator.core.jobs.job import Job
from orchestrator.core.polling.poll_plan_entry import Entry
from orchestrator.units import SECOND_US

RESERVE_SHARE: Final = 0.8
"""Deadlines may need this share of the questions; it must not be less than what outstanding jobs are admitted for."""

MISSING_TURNS: Final = 5
"""While the deadlines of others press, one question in so many is left to jobs that are missing: it is the one that
`RESERVE_SHARE` leaves."""

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


class Deadlines:
    """By when each of `entries`, the outstanding jobs of an endpoint, has to be asked for so that no result is lost."""

    __slots__ = ("_entries", "_known", "_missing", "_retention_of", "_safe", "_turns")

    def __init__(self, entries: Mapping[int, Entry], *, retention_of: Callable[[Job], int], per_s: float) -> None:
        self._entries = entries
        self._retention_of = retention_of
        self._known = Calendar(per_s * RESERVE_SHARE)
        self._missing = Calendar(per_s * RESERVE_SHARE)
        self._turns = 0
        self._safe: dict[int, int] = {}
        """How many results are safe until which second."""

    def allow(self, per_s: float) -> None:
        """So many questions a second there may be from now on."""
        self._known.allow(per_s * RESERVE_SHARE)
        self._missing.allow(per_s * RESERVE_SHARE)

    def measure(self, entry: Entry) -> None:
        """Notes by when `entry` has to be asked for."""
        retention_us = self._retention_of(entry.job)
        entry.deadline = hard_deadline(entry.job, retention_us)
        second = entry.safe_second = 0 if entry.is_unsure else safe_until(entry.job, retention_us) // SECOND_US
        self._safe[second] = self._safe.get(second, 0) + 1

    def long_past(self, entry: Entry) -> int:
        """A time that is over, the earlier the earlier the deadline of `entry` is."""
        return entry.deadline - self._retention_of(entry.job)

    def forget(self, entry: Entry) -> None:
        """What was measured of `entry` does not hold any more."""
        second = entry.safe_second
        if (left := self._safe[second] - 1) > 0:
            self._safe[second] = left
        else:
            del self._safe[second]

    def measure_all(self) -> None:
        """Results are kept for another time than was thought: all deadlines change."""
        for entry in self._entries.values():
            self.forget(entry)
            self.measure(entry)
            if entry.by_second is not None:
                self.put_in(entry, 0)

    def put_in(self, entry: Entry, not_before: int) -> None:
        """`entry` waits for its deadline, and is not asked for before `not_before`."""
        self.take_out(entry)
        earliest = not_before if entry.asked_at is None else max(not_before, entry.asked_at + ASK_GAP_US_MIN)
        # What is missing has had its question: to ask again and again is not to take those of others that had none.
        last_at = max(entry.deadline, entry.safe_second * SECOND_US) if entry.is_missing else entry.deadline
        second = entry.by_second = max((entry.deadline + last_at) // 2, earliest) // SECOND_US
        entry.is_among_missing = entry.is_missing
        (self._missing if entry.is_missing else self._known).add(second, entry.job.id)

    def take_out(self, entry: Entry) -> None:
        """`entry` does not wait for its deadline: it is asked for, or not outstanding any more."""
        if entry.by_second is not None:
            (self._missing if entry.is_among_missing else self._known).remove(entry.by_second)
            entry.by_second = None

    def urgent_us(self, now: int) -> float:
        """From when on questions go to the earliest deadline."""
        return min(self._known.urgent_us(now), self._missing.urgent_us(now))

    def pressing(self, now: int) -> Entry | None:
        """The job whose deadline the question goes to; None where the others may be asked for.

        Most questions go to those that were not found missing, and of what those leave, half to what else there is to
        ask. For 4,000 that are missing must not keep a hundred from being asked for at all.
        """
        presses, is_missing_urgent = now >= self._known.urgent_us(now), now >= self._missing.urgent_us(now)
        if not is_missing_urgent:
            return self._most_urgent(self._known, among_missing=False) if presses else None
        turn = self._turns
        self._turns += 1
        if presses and turn % MISSING_TURNS != MISSING_TURNS - 1:
            return self._most_urgent(self._known, among_missing=False)
        return self._most_urgent(self._missing, among_missing=True) if presses or turn % 2 == 0 else None

    def pressing_missing(self, now: int) -> Entry | None:
        """The missing job whose deadline presses, for whom there is a question that nobody else wants."""
        if now < self._missing.urgent_us(now):
            return None
        return self._most_urgent(self._missing, among_missing=True)

    def _most_urgent(self, calendar: Calendar, *, among_missing: bool) -> Entry | None:
        def is_in(second: int, job: int) -> bool:
            entry = self._entries.get(job)
            return entry is not None and entry.by_second == second and entry.is_among_missing is among_missing

        job = calendar.first(is_in)
        return None if job is None else self._entries[job]

    def respite(self, now: int) -> Respite:
        """How long all questions can wait."""
        urgent_us = self.urgent_us(now)
        lost_us = latest_start(self._safe, self._known.per_s) * SECOND_US
        return Respite(
            urgent_at=urgent_us,
            until=lost_us if lost_us <= urgent_us else (urgent_us + lost_us) / 2,
            lost_at=min((second * SECOND_US for second in self._safe if second * SECOND_US > now), default=None),
        )

    def soonest(self) -> int | None:
        """The earliest time at which a result may be lost if nobody asks, in microseconds UTC, to the second below."""
        return min(self._safe) * SECOND_US if self._safe else None
