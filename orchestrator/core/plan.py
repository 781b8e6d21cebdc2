"""Which outstanding job is asked for next.

Four lanes: close to its deadline; hinted at by a webhook; probably finished; the rest, at gaps that grow. Deadlines
stand in a calendar apart from the wishes: however scarce questions are, and whatever else they would be good for, the
calendar says from when on they go to the earliest deadline so that none is missed.
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable

from orchestrator.core.deadlines import ASK_GAP_US_MIN, LADDER, Times, hard_deadline, next_ask, safe_until
from orchestrator.core.job import Job
from orchestrator.core.remote_queue import Expected, RemoteQueue
from orchestrator.core.turnaround import Learned

SECOND_US = 1_000_000

SCOUTS_MAX = 8
"""So many jobs are asked for at gaps of their age while nothing is known of an endpoint's times; the others wait for
what these few tell.
"""

RESERVE_SHARE = 0.8
"""Deadlines may need this share of the questions; it must not be less than what outstanding jobs are admitted for."""

SCOUT_US = 60 * SECOND_US
"""A scout older than this, asked twice, gives its place to the next: it may be stuck."""

REPLAN_US_MIN = 60 * SECOND_US
"""All jobs are not planned anew more often than this."""

FASTER_SHARE = 0.7
"""Where jobs begin at gaps this much shorter than those that were planned for, all are planned anew."""

RECOUNT_SECONDS_MAX = 100
"""A calendar of so few seconds is counted anew whenever its first job is taken; a fuller one once a second."""

REPLANNED_MAX = 500
"""How many jobs get their new time at once, after something was learned that changes it for all."""


class Entry:
    """An outstanding job in the plan. All but `job` and `is_asked` is for the plan, or notes of the one who asks."""

    __slots__ = (
        "ask_at",
        "asked_at",
        "asks",
        "by_second",
        "deadline",
        "gone_at",
        "is_asked",
        "is_hinted",
        "job",
        "number",
        "safe_second",
        "troubles",
        "unanswered_retry",
    )

    def __init__(self, job: Job, *, unanswered_retry: bool = False) -> None:
        self.job = job
        self.ask_at: int | None = None
        self.asked_at: int | None = None
        self.asks = 0
        self.by_second: int | None = None
        self.deadline = 0
        self.gone_at: int | None = None
        self.is_asked = False
        """A question about it is on its way, or its answer is being dealt with."""

        self.is_hinted = False
        self.number = 0
        """Jobs are numbered in the order in which they came here, which is nearly that of the service's queue."""

        self.safe_second = 0
        self.troubles = 0
        self.unanswered_retry = unanswered_retry


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


class Plan:
    """The outstanding jobs of one endpoint.

    `learned` is of the times from submission to finish, `execution` of those in execution alone.
    Whoever asks takes a job by `next`, and hands it back by `schedule`, `refresh` or `drop`.
    """

    def __init__(
        self,
        *,
        learned: Learned,
        execution: Learned | None = None,
        retention_of: Callable[[Job], int],
        per_s: float,
        webhooks: bool,
    ) -> None:
        self._learned = learned
        self._execution = execution or Learned()
        self._queue = RemoteQueue()
        self._planned_gap_us = 0.0
        self._replan_after = 0
        self._numbers = itertools.count(1)
        self._retention_of = retention_of
        self._reserved_per_s = per_s * RESERVE_SHARE
        self.webhooks = webhooks
        """Whether a finished job is expected to tell of itself."""

        self._entries: dict[int, Entry] = {}
        self._calendar = Calendar()
        self._safe: dict[int, int] = {}
        self._urgent_at = math.inf
        self._counted_at: int | None = None
        self._hinted: deque[tuple[int, int]] = deque()
        self._likely: list[tuple[int, int]] = []
        self._others: list[tuple[int, int]] = []
        self._timeless: deque[int] = deque()
        self._scouts: set[int] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, job: int) -> Entry | None:
        """The entry of `job`, if it is outstanding."""
        return self._entries.get(job)

    def allow(self, per_s: float) -> None:
        """So many questions a second there may be from now on."""
        self._reserved_per_s = per_s * RESERVE_SHARE

    @property
    def has_news(self) -> bool:
        """Whether jobs wait for a time that can be told by now."""
        return bool(self._timeless) and self._learned.weight > 0

    # --- what happens to jobs

    def add(self, job: Job, *, at_once: bool = False, unanswered_retry: bool = False) -> Entry:
        """`job` is outstanding from now on. `at_once`: to be asked for now, the earliest deadline first."""
        self.drop(job.id)
        entry = self._entries[job.id] = Entry(job, unanswered_retry=unanswered_retry)
        entry.number = next(self._numbers)
        self._measure(entry)
        if at_once:
            self.schedule(entry, entry.deadline - self._retention_of(job))  # long ago
        else:
            self._schedule_first(entry)
        return entry

    def drop(self, job: int) -> None:
        """`job` is not outstanding any more."""
        entry = self._entries.pop(job, None)
        if entry is None:
            return
        self._take_out(entry)
        self._forget_safe(entry)
        if job in self._scouts:
            self._scouts.discard(job)
            self._promote()

    def began(self, entry: Entry, waited_us: int) -> None:
        """The service says how long a job that has finished waited in its queue: so long may others have to wait."""
        self._queue.began(entry.number, (entry.job.sent_at or 0) + waited_us, waited_us=waited_us)
        gap_us = self._queue.gap_us
        if gap_us >= FASTER_SHARE * self._planned_gap_us:
            self._planned_gap_us = max(self._planned_gap_us, gap_us)
        elif not self._timeless and (entry.asked_at or 0) >= self._replan_after:  # else the last time is not long ago
            self._planned_gap_us = gap_us
            self._replan_after = (entry.asked_at or 0) + REPLAN_US_MIN
            self.replan()

    def refresh(self, entry: Entry, job: Job, *, is_queued: bool = False) -> None:
        """The service answered at `entry.asked_at` that it has not finished. `job` says since when that is certain.

        `is_queued`: its execution has not begun.
        """
        entry.job = job
        if is_queued:
            self._queue.waits(entry.number, entry.asked_at or 0)
        age = (entry.asked_at or 0) - (job.sent_at or 0)
        if job.id in self._scouts and entry.asks > 1 and age >= SCOUT_US:
            self._scouts.discard(job.id)
            self._promote()
        self._forget_safe(entry)
        self._measure(entry)
        self._schedule_next(entry)

    def schedule(self, entry: Entry, ask_at: int, *, is_likely: bool = False, is_firm: bool = False) -> None:
        """Asks for it at `ask_at`, or earlier if its deadline wants it; not before, even so, if that is firm."""
        entry.is_asked = False
        if entry.is_hinted:
            self._put_in(entry, ask_at if is_firm else 0)
            self._hint(entry, (entry.asked_at or 0) + ASK_GAP_US_MIN)
            return
        entry.ask_at = ask_at
        self._put_in(entry, ask_at if is_firm else 0)
        heapq.heappush(self._likely if is_likely else self._others, (ask_at, entry.job.id))

    def hint(self, job: int, now: int) -> bool:
        """A webhook said something about `job` that has to be asked for; False if it is not outstanding."""
        entry = self._entries.get(job)
        if entry is None:
            return False
        entry.is_hinted = True
        if not entry.is_asked:
            self._hint(entry, now)
        return True

    def replan(self) -> None:
        """Webhooks have begun, or ceased, to arrive: everything is given its time anew, a few at each question."""
        self._timeless.extend(self._entries)

    # --- what to do now

    def next(self, now: int) -> Entry | None:
        """The job to ask for now, or None where nothing is due."""
        self._plan_timeless()
        if now >= self._urgent_us(now) and (entry := self._most_urgent()) is not None:
            return self._taken(entry)
        while self._hinted and self._hinted[0][0] <= now:
            if (entry := self._due(*self._hinted.popleft())) is not None:
                return self._taken(entry)
        for lane in (self._likely, self._others):
            while lane and lane[0][0] <= now:
                if (entry := self._due(*heapq.heappop(lane))) is not None and not self._postponed(entry, now):
                    return self._taken(entry)
        return None

    def wakes_at(self, now: int) -> int | None:
        """When something will be due, if nothing changes, in microseconds UTC; None where the plan is empty."""
        times = [lane[0][0] for lane in (self._hinted, self._likely, self._others) if lane]
        if self.has_news:
            times.append(now)
        if (urgent_us := self._urgent_us(now)) != math.inf:
            times.append(int(urgent_us))
        return min(times, default=None)

    def soonest_deadline(self) -> int | None:
        """The earliest time at which a result may be lost if nobody asks, in microseconds UTC, to the second below."""
        return min(self._safe) * SECOND_US if self._safe else None

    def overdue(self, since: int) -> list[Entry]:
        """Jobs whose time and whose deadline both passed before `since`, and that nobody is asking for."""
        return [
            entry
            for entry in self._entries.values()
            if entry.deadline < since and not entry.is_asked and (entry.ask_at or 0) < since
        ]

    # --- lanes

    def _schedule_first(self, entry: Entry) -> None:
        if not self._learned.weight:
            if len(self._scouts) >= SCOUTS_MAX:
                self._put_in(entry, 0)
                self._timeless.append(entry.job.id)
                return
            self._scouts.add(entry.job.id)
        self._schedule_next(entry)

    def _schedule_next(self, entry: Entry) -> None:
        at, is_likely = next_ask(
            entry.job,
            asked_at=entry.asked_at,
            learned=self._times_of(entry),
            webhooks=self.webhooks,
            retention_us=self._retention_of(entry.job),
        )
        is_late = entry.asked_at is not None and entry.asked_at >= entry.deadline
        self.schedule(entry, at, is_likely=is_likely, is_firm=is_late)

    def _times_of(self, entry: Entry) -> Times:
        """What is known of the time that `entry` takes: where it waits in a queue, by its place there."""
        begins_at = None if self.webhooks else self._queue.begins_at(entry.number)
        if begins_at is None or not self._execution.weight:
            return self._learned
        return Expected(max(0, begins_at - (entry.job.sent_at or 0)), self._execution)

    def _postponed(self, entry: Entry, now: int) -> bool:
        """Whether `entry`, which is due, has not had its turn yet by what was learned since; then it is due later."""
        if self.webhooks or entry.troubles or entry.gone_at is not None:
            return False
        begins_at, execution_us = self._queue.begins_at(entry.number), self._execution.quantile_us(LADDER[0])
        if begins_at is None or execution_us is None or begins_at + execution_us <= now + ASK_GAP_US_MIN:
            return False
        # Not sooner, or most of a deep queue would be looked at again and again as the line moves a little.
        age_us = now - (entry.job.sent_at or 0)
        self.schedule(entry, max(begins_at + execution_us, now + age_us // 32), is_likely=True)
        return True

    def _plan_timeless(self) -> None:
        """Gives those their time that wait for what the scouts tell, or whose time is out of date."""
        if not self.has_news:
            return
        for _ in range(min(REPLANNED_MAX, len(self._timeless))):
            entry = self._entries.get(self._timeless.popleft())
            if entry is not None and not entry.is_asked and not entry.troubles and entry.gone_at is None:
                self._schedule_next(entry)

    def _promote(self) -> None:
        """A scout has gone, and nothing is known yet: the next of those who wait takes its place."""
        while self._timeless and not self._learned.weight:
            entry = self._entries.get(self._timeless.popleft())
            if entry is not None and not entry.is_asked and entry.ask_at is None:
                self._schedule_first(entry)
                return

    def _hint(self, entry: Entry, at: int) -> None:
        entry.ask_at = at
        self._hinted.append((at, entry.job.id))

    def _due(self, ask_at: int, job: int) -> Entry | None:
        entry = self._entries.get(job)
        return entry if entry is not None and entry.ask_at == ask_at and not entry.is_asked else None

    def _taken(self, entry: Entry) -> Entry:
        self._take_out(entry)
        entry.is_asked, entry.is_hinted = True, False
        return entry

    # --- the calendar

    def _measure(self, entry: Entry) -> None:
        retention_us = self._retention_of(entry.job)
        entry.deadline = hard_deadline(entry.job, retention_us)
        second = entry.safe_second = safe_until(entry.job, retention_us) // SECOND_US
        self._safe[second] = self._safe.get(second, 0) + 1

    def _forget_safe(self, entry: Entry) -> None:
        second = entry.safe_second
        if (left := self._safe[second] - 1) > 0:
            self._safe[second] = left
        else:
            del self._safe[second]

    def _put_in(self, entry: Entry, not_before: int) -> None:
        self._take_out(entry)
        earliest = not_before if entry.asked_at is None else max(not_before, entry.asked_at + ASK_GAP_US_MIN)
        second = entry.by_second = max(entry.deadline, earliest) // SECOND_US
        self._calendar.add(second, entry.job.id)
        self._urgent_at = min(self._urgent_at, second + 1 - 1 / self._reserved_per_s)

    def _take_out(self, entry: Entry) -> None:
        if entry.by_second is not None:
            self._calendar.remove(entry.by_second)
            entry.by_second = None

    def _is_in(self, second: int, job: int) -> bool:
        entry = self._entries.get(job)
        return entry is not None and entry.by_second == second

    def _urgent_us(self, now: int) -> float:
        """From when on questions go to the earliest deadline. Counted anew each second: that looks at all seconds."""
        if self._counted_at is None or not self._counted_at <= now < self._counted_at + SECOND_US:
            self._recount(now)
        return self._urgent_at * SECOND_US

    def _recount(self, now: int) -> None:
        self._counted_at = now
        self._urgent_at = self._calendar.latest_start(self._reserved_per_s)

    def _most_urgent(self) -> Entry | None:
        job = self._calendar.first(self._is_in)
        if job is None:
            self._urgent_at = math.inf
            return None
        self._urgent_at += 1 / self._reserved_per_s  # one fewer before every deadline
        if len(self._calendar) <= RECOUNT_SECONDS_MAX:
            self._counted_at = None
        return self._entries[job]
