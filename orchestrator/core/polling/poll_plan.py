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

from orchestrator.core.jobs.deadlines import ASK_GAP_US_MIN, LADDER, Times, hard_deadline, next_ask, safe_until
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.reasons import ReasonCode
from orchestrator.core.polling.deadline_calendar import Calendar, Respite, latest_start
from orchestrator.core.polling.latency import DurationHistogram
from orchestrator.core.polling.poll_budget import KNOWN, QUEUED_GAP_SHARE, PollBudget, ask_closely
from orchestrator.core.polling.poll_plan_entry import Entry
from orchestrator.core.polling.remote_queue import Expected, RemoteQueue
from orchestrator.units import SECOND_US

SCOUTS_MAX = 20
"""So many jobs are asked for at gaps of their age while nothing is known of an endpoint's times; the others wait for
what these few tell.
"""

RESERVE_SHARE = 0.8
"""Deadlines may need this share of the questions; it must not be less than what outstanding jobs are admitted for."""

SCOUTED = 16
"""There are scouts until the times of so many jobs are known."""

NEWS_FACTOR = 1.25
"""While little is known, all are planned anew whenever it has become so many times as much."""

GOLDEN_SHARE = 0.618_034
"""The multiples of the golden section lie evenly between whole numbers, however many there are."""

SCOUT_US = 60 * SECOND_US
"""A scout older than this, asked twice, gives its place to the next: it may be stuck."""

REPLAN_US_MIN = 60 * SECOND_US
"""All jobs are not planned anew more often than this."""

FASTER_SHARE = 0.7
"""Where jobs begin at gaps this much shorter than those that were planned for, all are planned anew."""

MISSING_TURNS = 5
"""While the deadlines of others press, one question in so many is left to jobs that are missing: it is the one that
`RESERVE_SHARE` leaves."""

WATCH_SHARE = 0.1
"""Of the questions, this share at most may be how far resumable jobs are."""

REPLANNED_MAX = 500
"""How many jobs get their new time at once, after something was learned that changes it for all."""


class Plan:
    """The outstanding jobs of one endpoint.

    `learned` is of the times from submission to finish, `execution` of those in execution alone.
    `watch_of` is how often a resumable job is asked how far it is (`Entry.watch_us`), None of any other: what was
    learned of other jobs says nothing of when it ends.
    Whoever asks takes a job by `next`, and hands it back by `schedule`, `refresh` or `drop`.
    """

    def __init__(
        self,
        *,
        learned: DurationHistogram,
        execution: DurationHistogram | None = None,
        retention_of: Callable[[Job], int],
        per_s: float,
        webhooks: bool,
        watch_of: Callable[[Job], int | None] = lambda _job: None,
    ) -> None:
        self._learned = learned
        self._execution = execution or DurationHistogram()
        self._budget = PollBudget(learned, per_s)
        self._queue = RemoteQueue()
        self._planned_gap_us = 0.0
        self._planned_weight = learned.weight
        self._replan_after = 0
        self._numbers = itertools.count(1)
        self._retention_of = retention_of
        self._watch_of = watch_of
        self._watched = 0
        self._watch_gap_us = SECOND_US / (per_s * WATCH_SHARE)
        self.webhooks = webhooks
        """Whether a finished job is expected to tell of itself."""

        self._entries: dict[int, Entry] = {}
        self._calendar = Calendar(per_s * RESERVE_SHARE)
        self._missing = Calendar(per_s * RESERVE_SHARE)
        self._turns = 0
        self._safe: dict[int, int] = {}
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

    def allow(self, per_s: float, *, share: float = 1.0) -> None:
        """So many questions a second there may be from now on; for the moment, after 429s, that `share` of it."""
        self._calendar.allow(per_s * share * RESERVE_SHARE)
        self._missing.allow(per_s * share * RESERVE_SHARE)
        self._watch_gap_us = SECOND_US / (per_s * WATCH_SHARE)
        self._budget.allow(per_s)

    @property
    def has_news(self) -> bool:
        """Whether jobs wait for a time that can be told by now."""
        return self._learned.weight > 0 and (bool(self._timeless) or self._is_outdated)

    @property
    def _is_outdated(self) -> bool:
        """Whether the allowance is ample where it was scarce, or the reverse; or far more is known than before."""
        if self.webhooks:
            return False
        weight = self._learned.weight
        is_news = self._budget.is_ample and weight < KNOWN and weight >= NEWS_FACTOR * self._planned_weight
        return is_news or self._budget.has_changed(len(self._entries))

    # --- what happens to jobs

    def add(
        self, job: Job, *, at_once: bool = False, retry_in_doubt: ReasonCode | None = None, is_unsure: bool = False
    ) -> Entry:
        """`job` is outstanding from now on. `at_once`: to be asked for now, the earliest deadline first.

        `is_unsure`: nobody knows when it was last not finished; until that is known its result may be gone at any time.
        """
        self.drop(job.id)
        number = next(self._numbers)
        since = (job.sent_at if job.is_first_execution else job.unfinished_at) or 0
        entry = Entry(job, since=since, retry_in_doubt=retry_in_doubt, is_unsure=is_unsure, number=number)
        entry.watch_us = self._watch_of(job)
        if entry.watch_us is not None:
            self._watched += 1
        self._entries[job.id] = entry
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
        if entry.watch_us is not None:
            self._watched -= 1
        if job in self._scouts:
            self._scouts.discard(job)
            self._promote()

    def began(self, entry: Entry, waited_us: int) -> None:
        """The service says how long a job that has finished waited in its queue: so long may others have to wait."""
        self._queue.began(entry.number, entry.since + waited_us, waited_us=waited_us)
        gap_us = self._queue.gap_us
        if gap_us >= FASTER_SHARE * self._planned_gap_us:
            self._planned_gap_us = max(self._planned_gap_us, gap_us)
        elif not self._timeless and (entry.asked_at or 0) >= self._replan_after:  # else the last time is not long ago
            self._planned_gap_us = gap_us
            self._replan_after = (entry.asked_at or 0) + REPLAN_US_MIN
            self.replan()

    def refresh(self, entry: Entry, job: Job, *, is_queued: bool = False, begun_at: int | None = None) -> None:
        """The service answered at `entry.asked_at` that it has not finished. `job` says since when that is certain.

        `is_queued`: its execution has not begun; `begun_at`: it began then, if the service said so.
        """
        entry.is_unsure &= job.unfinished_at == entry.job.unfinished_at
        entry.job, entry.is_queued, entry.begun_at = job, is_queued, begun_at
        if is_queued:
            self._queue.waits(entry.number, entry.asked_at or 0)
        age = (entry.asked_at or 0) - entry.since
        if job.id in self._scouts and entry.asks > 1 and age >= SCOUT_US and not self._learned.weight:
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

    def measure_anew(self) -> None:
        """Results are kept for another time than was thought: all deadlines change."""
        for entry in self._entries.values():
            self._forget_safe(entry)
            self._measure(entry)
            if entry.by_second is not None:
                self._put_in(entry, 0)

    def takes_us(self, entry: Entry) -> int:
        """How long `entry` probably takes from its submission on: as every second of its like; 0 where nothing is
        known.
        """
        return self._times_of(entry).quantile_us(0.5) or 0

    # --- what to do now

    def next(self, now: int) -> Entry | None:
        """The job to ask for now, or None where nothing is due."""
        self._plan_timeless()
        if (urgent := self._pressing(now)) is not None and (entry := self._most_urgent(urgent)) is not None:
            return self._taken(entry)
        if (entry := self._wished(now)) is not None:
            return self._taken(entry)
        if now >= self._missing.urgent_us(now) and (entry := self._most_urgent(self._missing)) is not None:
            return self._taken(entry)
        return None

    def _pressing(self, now: int) -> Calendar | None:
        """Whose earliest deadline the question goes to: most go to those that were not found missing, and of what those
        leave, half to what else there is to ask. For 4,000 that are missing must not keep a hundred from being asked
        for at all.
        """
        presses, is_missing_urgent = now >= self._calendar.urgent_us(now), now >= self._missing.urgent_us(now)
        if not is_missing_urgent:
            return self._calendar if presses else None
        turn = self._turns
        self._turns += 1
        if presses:
            return self._missing if turn % MISSING_TURNS == MISSING_TURNS - 1 else self._calendar
        return self._missing if turn % 2 == 0 else None

    def _wished(self, now: int) -> Entry | None:
        """The job that should be asked for now, whatever the deadlines are."""
        while self._hinted and self._hinted[0][0] <= now:
            if (entry := self._due(*self._hinted.popleft())) is not None:
                return entry
        for lane in (self._likely, self._others):
            while lane and lane[0][0] <= now:
                if (entry := self._due(*heapq.heappop(lane))) is not None and not self._postponed(entry, now):
                    return entry
        return None

    def wakes_at(self, now: int) -> int | None:
        """When something will be due, if nothing changes, in microseconds UTC; None where the plan is empty."""
        times = [lane[0][0] for lane in (self._hinted, self._likely, self._others) if lane]
        if self.has_news:
            times.append(now)
        if (urgent_us := self._urgent_us(now)) != math.inf:
            times.append(int(urgent_us))
        return min(times, default=None)

    def respite(self, now: int) -> Respite:
        """How long all questions can wait."""
        urgent_us = self._urgent_us(now)
        lost_us = latest_start(self._safe, self._calendar.per_s) * SECOND_US
        return Respite(
            urgent_at=urgent_us,
            until=lost_us if lost_us <= urgent_us else (urgent_us + lost_us) / 2,
            lost_at=min((second * SECOND_US for second in self._safe if second * SECOND_US > now), default=None),
        )

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
        if entry.watch_us is not None:
            self._schedule_watched(entry, entry.watch_us)
            return
        if self._learned.weight < SCOUTED:
            if not self._learned.weight:
                self._budget.weigh(len(self._entries))
            if len(self._scouts) < SCOUTS_MAX:
                self._scouts.add(entry.job.id)
            elif not self._learned.weight:
                self._put_in(entry, 0)
                self._timeless.append(entry.job.id)
                return
        self._schedule_next(entry)

    def _schedule_watched(self, entry: Entry, every_us: int) -> None:
        """A resumable job is asked how far it is: first at another time than the others that were sent with it."""
        if not every_us:
            at = entry.deadline
        elif entry.asked_at is None:
            share = entry.number * GOLDEN_SHARE % 1
            at = entry.since + max(ASK_GAP_US_MIN, int(every_us * share), int(self._watched * self._watch_gap_us))
        else:
            at = entry.asked_at + max(ASK_GAP_US_MIN, every_us, int(self._watched * self._watch_gap_us))
        self.schedule(entry, min(at, entry.deadline))

    def _schedule_next(self, entry: Entry) -> None:
        if entry.watch_us is not None and (entry.asked_at or 0) < entry.deadline:
            self._schedule_watched(entry, entry.watch_us)
            return
        at, is_likely = next_ask(
            entry.job,
            asked_at=entry.asked_at,
            learned=self._times_of(entry),
            webhooks=self.webhooks,
            retention_us=self._retention_of(entry.job),
            since=entry.since,
        )
        is_late = entry.asked_at is not None and entry.asked_at >= entry.deadline
        if self._budget.is_ample and not self.webhooks and not is_late:
            at, is_likely = min(self._closely(entry), max(at, entry.deadline)), True
        self.schedule(entry, at, is_likely=is_likely, is_firm=is_late)

    def _closely(self, entry: Entry) -> int:
        """When to ask for `entry` where the allowance is ample: by its time in execution, if that can be told."""
        since, asked_at = entry.since, entry.asked_at
        is_free = entry.job.id in self._scouts or self._budget.is_free(len(self._entries))
        begun_at = entry.begun_at if entry.begun_at is not None else self._queue.not_before(entry.number, since)
        is_of_use = self._execution.weight or not self._learned.weight
        if not is_of_use or (begun_at is None and not entry.is_queued):
            least_us = ASK_GAP_US_MIN
            if asked_at is None and not self._learned.weight:
                # Each at another time: if they take equally long, one of them is asked for soon after.
                least_us += int((entry.number - 1) * GOLDEN_SHARE % 1 * ASK_GAP_US_MIN)
            at = ask_closely(since, asked_at=asked_at, times=self._learned, is_free=is_free)
            return max(at, since + least_us)
        least_at = since + ASK_GAP_US_MIN
        if entry.is_queued and asked_at is not None:
            begun_at = max(asked_at, begun_at or 0)  # if it did at once
            least_at = asked_at + max(ASK_GAP_US_MIN, int((asked_at - since) * QUEUED_GAP_SHARE))
        return max(least_at, ask_closely(begun_at or 0, asked_at=asked_at, times=self._execution, is_free=is_free))

    def _times_of(self, entry: Entry) -> Times:
        """What is known of the time that `entry` takes: where it waits in a queue, by its place there."""
        begins_at = None if self.webhooks else self._queue.begins_at(entry.number)
        if begins_at is None or not self._execution.weight:
            return self._learned
        return Expected(max(0, begins_at - entry.since), self._execution)

    def _postponed(self, entry: Entry, now: int) -> bool:
        """Whether `entry`, which is due, has not had its turn yet by what was learned since; then it is due later."""
        if self.webhooks or entry.troubles or entry.is_missing or entry.watch_us is not None:
            return False
        if self._budget.is_ample:
            is_known = entry.begun_at is None and self._queue.not_before(entry.number, entry.since)
            due_at = self._closely(entry) if is_known else now
        else:
            begins_at, execution_us = self._queue.begins_at(entry.number), self._execution.quantile_us(LADDER[0])
            due_at = now if begins_at is None or execution_us is None else begins_at + execution_us
        if due_at <= now + ASK_GAP_US_MIN:
            return False
        # Not sooner, or most of a deep queue would be looked at again and again as the line moves a little.
        age_us = now - entry.since
        self.schedule(entry, max(due_at, now + age_us // 32), is_likely=True)
        return True

    def _plan_timeless(self) -> None:
        """Gives those their time that wait for what the scouts tell, or whose time is out of date."""
        if not self.has_news:
            return
        if self._is_outdated:
            self._planned_weight = self._learned.weight
            self._budget.weigh(len(self._entries))
            self.replan()
        for _ in range(min(REPLANNED_MAX, len(self._timeless))):
            entry = self._entries.get(self._timeless.popleft())
            if entry is None or entry.is_asked or entry.troubles or entry.is_missing:
                continue
            if entry.ask_at is None or entry.ask_at >= (entry.job.unfinished_at or 0):  # else it is to be asked at once
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
        second = entry.safe_second = 0 if entry.is_unsure else safe_until(entry.job, retention_us) // SECOND_US
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
        # What is missing has had its question: to ask again and again is not to take those of others that had none.
        last_at = max(entry.deadline, entry.safe_second * SECOND_US) if entry.is_missing else entry.deadline
        second = entry.by_second = max((entry.deadline + last_at) // 2, earliest) // SECOND_US
        entry.calendar = self._missing if entry.is_missing else self._calendar
        entry.calendar.add(second, entry.job.id)

    def _take_out(self, entry: Entry) -> None:
        if entry.by_second is not None and entry.calendar is not None:
            entry.calendar.remove(entry.by_second)
            entry.by_second = entry.calendar = None

    def _urgent_us(self, now: int) -> float:
        """From when on questions go to the earliest deadline."""
        return min(self._calendar.urgent_us(now), self._missing.urgent_us(now))

    def _most_urgent(self, calendar: Calendar) -> Entry | None:
        def is_in(second: int, job: int) -> bool:
            entry = self._entries.get(job)
            return entry is not None and entry.calendar is calendar and entry.by_second == second

        job = calendar.first(is_in)
        return None if job is None else self._entries[job]
