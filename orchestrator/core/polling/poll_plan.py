"""Which outstanding job is asked for next (`/status`), so that no result expires.

Four lanes: close to its deadline; hinted at by a webhook; probably finished; the rest, at gaps that grow. Deadlines
stand in calendars of their own (`Deadlines`), apart from the times at which one would like to ask (`AskTimes`): however
scarce questions are, they say from when on questions go to the earliest deadline so that none is missed.
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from typing import Final

from orchestrator.core.jobs.deadlines import ASK_GAP_US_MIN
from orchestrator.core.jobs.job import Job
from orchestrator.core.polling.ask_times import AskTimes
from orchestrator.core.polling.latency import DurationHistogram
from orchestrator.core.polling.poll_deadlines import Deadlines
from orchestrator.core.polling.poll_plan_entry import Entry
from orchestrator.units import SECOND_US

SCOUTS_MAX: Final = 20
"""So many jobs are asked for at gaps of their age while nothing is known of an endpoint's times; the others wait for
what these few tell.
"""

SCOUTED: Final = 16
"""There are scouts until the times of so many jobs are known."""

SCOUT_US: Final = 60 * SECOND_US
"""A scout older than this, asked twice, gives its place to the next: it may be stuck."""

REPLANNED_MAX: Final = 500
"""How many jobs get their new time at once, after something was learned that changes it for all."""


class PollPlan:
    """The outstanding jobs of one endpoint.

    `learned` is of the times from submission to finish, `execution` of those in execution alone.
    `watch_of` is how often a resumable job is asked how far it is (`Entry.watch_us`), None of any other: what was
    learned of other jobs says nothing of when it ends.
    Whoever asks takes a job by `next`, or out of its turn by `take`, and hands it back by `schedule`, `refresh` or
    `drop`.
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
        self._entries: dict[int, Entry] = {}
        self._numbers = itertools.count(1)
        self._watch_of = watch_of
        self.deadlines = Deadlines(self._entries, retention_of=retention_of, per_s=per_s)
        self.times = AskTimes(
            learned=learned,
            execution=execution or DurationHistogram(),
            retention_of=retention_of,
            per_s=per_s,
            webhooks=webhooks,
        )
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

    def of_run(self, run: int, *, are_begun: bool = True) -> list[Job]:
        """All outstanding jobs of `run`, or those alone of which nobody has heard that their execution has begun."""
        entries = [entry for entry in self._entries.values() if entry.job.run == run]
        return [entry.job for entry in entries if are_begun or entry.begun_at is None]

    def allow(self, per_s: float, *, share: float = 1.0) -> None:
        """So many questions a second there may be from now on; for the moment, after 429s, that `share` of it."""
        self.deadlines.allow(per_s * share)
        self.times.allow(per_s)

    @property
    def has_news(self) -> bool:
        """Whether jobs wait for a time that can be told by now."""
        times = self.times
        return times.learned.weight > 0 and (bool(self._timeless) or times.are_outdated(len(self._entries)))

    # --- what happens to jobs

    def add(
        self, job: Job, *, at_once: bool = False, retry_in_doubt: str | None = None, is_unsure: bool = False
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
            self.times.watched += 1
        self._entries[job.id] = entry
        self.deadlines.measure(entry)
        if at_once:
            self.schedule(entry, self.deadlines.long_past(entry))
        else:
            self._schedule_first(entry)
        return entry

    def drop(self, job: int) -> None:
        """`job` is not outstanding any more."""
        entry = self._entries.pop(job, None)
        if entry is None:
            return
        self.deadlines.take_out(entry)
        self.deadlines.forget(entry)
        if entry.watch_us is not None:
            self.times.watched -= 1
        if job in self._scouts:
            self._scouts.discard(job)
            self._promote()

    def began(self, entry: Entry, waited_us: int) -> None:
        """The service says how long a job that has finished waited in its queue: so long may others have to wait."""
        if self.times.began(entry, waited_us, may_replan=not self._timeless):
            self.replan()

    def refresh(self, entry: Entry, job: Job, *, is_queued: bool = False, begun_at: int | None = None) -> None:
        """The service answered at `entry.asked_at` that it has not finished. `job` says since when that is certain.

        `is_queued`: its execution has not begun; `begun_at`: it began then, if the service said so.
        """
        entry.is_unsure &= job.unfinished_at == entry.job.unfinished_at
        entry.job, entry.is_queued, entry.begun_at = job, is_queued, begun_at
        if is_queued:
            self.times.waits(entry)
        age = (entry.asked_at or 0) - entry.since
        if job.id in self._scouts and entry.asks > 1 and age >= SCOUT_US and not self.times.learned.weight:
            self._scouts.discard(job.id)
            self._promote()
        self.deadlines.forget(entry)
        self.deadlines.measure(entry)
        self._schedule_next(entry)

    def schedule(self, entry: Entry, ask_at: int, *, is_likely: bool = False, is_firm: bool = False) -> None:
        """Asks for it at `ask_at`, or earlier if its deadline wants it; not before, even so, if that is firm."""
        entry.is_asked = False
        self.deadlines.put_in(entry, ask_at if is_firm else 0)
        if entry.is_hinted:
            self._hint(entry, (entry.asked_at or 0) + ASK_GAP_US_MIN)
            return
        entry.ask_at = ask_at
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
        """Webhooks have begun, or ceased, to arrive: everything is given another time, a few at each question."""
        self._timeless.extend(self._entries)

    # --- what to do now

    def next(self, now: int) -> Entry | None:
        """The job to ask for now, or None where nothing is due."""
        self._plan_timeless()
        deadlines = self.deadlines
        entry = deadlines.pressing(now) or self._wished(now) or deadlines.pressing_missing(now)
        return None if entry is None else _taken(entry, deadlines)

    def take(self, job: int, submission: int) -> Entry | None:
        """`job`, to ask for that `submission` of it out of its turn; None where it is not outstanding by that, or is
        being asked for.
        """
        entry = self._entries.get(job)
        is_free = entry is not None and entry.job.submission == submission and not entry.is_asked
        return _taken(entry, self.deadlines) if entry is not None and is_free else None

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
        if (urgent_us := self.deadlines.urgent_us(now)) != math.inf:
            times.append(int(urgent_us))
        return min(times, default=None)

    def overdue(self, since: int) -> list[Entry]:
        """Jobs whose time and whose deadline both passed before `since`, and that nobody is asking for."""
        return [
            entry
            for entry in self._entries.values()
            if entry.deadline < since and not entry.is_asked and (entry.ask_at or 0) < since
        ]

    # --- lanes

    def _schedule_first(self, entry: Entry) -> None:
        weight = self.times.learned.weight
        if entry.watch_us is None and weight < SCOUTED:
            if not weight:
                self.times.budget.weigh(len(self._entries))
            if len(self._scouts) < SCOUTS_MAX:
                self._scouts.add(entry.job.id)
            elif not weight:
                self.deadlines.put_in(entry, 0)
                self._timeless.append(entry.job.id)
                return
        self._schedule_next(entry)

    def _schedule_next(self, entry: Entry) -> None:
        is_late = entry.asked_at is not None and entry.asked_at >= entry.deadline
        if entry.watch_us is not None and not is_late:
            self.schedule(entry, self.times.watched_at(entry, entry.watch_us))
            return
        is_scout = entry.job.id in self._scouts
        at, is_likely = self.times.next_ask(entry, is_late=is_late, is_scout=is_scout, outstanding=len(self._entries))
        self.schedule(entry, at, is_likely=is_likely, is_firm=is_late)

    def _postponed(self, entry: Entry, now: int) -> bool:
        """Whether `entry`, which is due, has not had its turn yet by what was learned since; then it is due later."""
        if self.times.webhooks or entry.troubles or entry.is_missing or entry.watch_us is not None:
            return False
        is_scout = entry.job.id in self._scouts
        turn_at = self.times.turn_at(entry, now, is_scout=is_scout, outstanding=len(self._entries))
        if turn_at <= now + ASK_GAP_US_MIN:
            return False
        # Not sooner, or most of a deep queue would be looked at again and again as the line moves a little.
        age_us = now - entry.since
        self.schedule(entry, max(turn_at, now + age_us // 32), is_likely=True)
        return True

    def _plan_timeless(self) -> None:
        """Gives those their time that wait for what the scouts tell, or whose time is out of date."""
        if not self.times.learned.weight:
            return
        if self.times.are_outdated(len(self._entries)):
            self.times.update(len(self._entries))
            self.replan()
        for _ in range(min(REPLANNED_MAX, len(self._timeless))):
            entry = self._entries.get(self._timeless.popleft())
            if entry is None or entry.is_asked or entry.troubles or entry.is_missing:
                continue
            if entry.ask_at is None or entry.ask_at >= (entry.job.unfinished_at or 0):  # else it is to be asked at once
                self._schedule_next(entry)

    def _promote(self) -> None:
        """A scout has gone, and nothing is known yet: the next of those who wait takes its place."""
        while self._timeless and not self.times.learned.weight:
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


def _taken(entry: Entry, deadlines: Deadlines) -> Entry:
    """`entry`, which is being asked for now."""
    deadlines.take_out(entry)
    entry.is_asked, entry.is_hinted = True, False
    return entry
