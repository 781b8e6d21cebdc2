"""When to ask for an outstanding job, by what is known of its endpoint's times. Times are microseconds UTC."""

from collections.abc import Callable
from typing import Final

from orchestrator.core.jobs.deadlines import ASK_GAP_US_MIN, LADDER, Times, next_ask
from orchestrator.core.jobs.job import Job
from orchestrator.core.polling.latency import DurationHistogram
from orchestrator.core.polling.poll_budget import KNOWN, QUEUED_GAP_SHARE, PollBudget, ask_closely
from orchestrator.core.polling.poll_plan_entry import Entry
from orchestrator.core.polling.remote_queue import Expected, RemoteQueue
from orchestrator.units import SECOND_US

NEWS_FACTOR: Final = 1.25
"""While little is known, all are planned again whenever it has become so many times as much."""

GOLDEN_SHARE: Final = 0.618_034
"""The multiples of the golden section lie evenly between whole numbers, however many there are."""

REPLAN_US_MIN: Final = 60 * SECOND_US
"""All jobs are not planned again more often than this."""

FASTER_SHARE: Final = 0.7
"""Where jobs begin at gaps this much shorter than those that were planned for, all are planned again."""

WATCH_SHARE: Final = 0.1
"""Of the questions, this share at most may be how far resumable jobs are."""


class AskTimes:
    """When to ask for each job of one endpoint, so that its result is collected soon and few questions are in vain.

    `learned` is of the times from submission to finish, `execution` of those in execution alone.
    """

    __slots__ = (
        "_execution",
        "_planned_gap_us",
        "_planned_weight",
        "_queue",
        "_replan_after",
        "_retention_of",
        "_watch_gap_us",
        "budget",
        "learned",
        "watched",
        "webhooks",
    )

    def __init__(
        self,
        *,
        learned: DurationHistogram,
        execution: DurationHistogram,
        retention_of: Callable[[Job], int],
        per_s: float,
        webhooks: bool,
    ) -> None:
        self.learned = learned
        self._execution = execution
        self._retention_of = retention_of
        self.budget = PollBudget(learned, per_s)
        self.webhooks = webhooks
        """Whether a finished job is expected to tell of itself."""

        self.watched = 0
        """How many of the outstanding jobs are resumable, and asked how far they are."""

        self._watch_gap_us = SECOND_US / (per_s * WATCH_SHARE)
        self._queue = RemoteQueue()
        self._planned_gap_us = 0.0
        self._planned_weight = learned.weight
        self._replan_after = 0

    def allow(self, per_s: float) -> None:
        """So many questions a second there may be from now on."""
        self._watch_gap_us = SECOND_US / (per_s * WATCH_SHARE)
        self.budget.allow(per_s)

    def are_outdated(self, outstanding: int) -> bool:
        """Whether the allowance is ample where it was scarce, or the reverse; or far more is known than before."""
        if self.webhooks:
            return False
        weight = self.learned.weight
        is_news = self.budget.is_ample and weight < KNOWN and weight >= NEWS_FACTOR * self._planned_weight
        return is_news or self.budget.has_changed(outstanding)

    def update(self, outstanding: int) -> None:
        """All jobs are planned again by what is known now."""
        self._planned_weight = self.learned.weight
        self.budget.weigh(outstanding)

    def began(self, entry: Entry, waited_us: int, *, may_replan: bool) -> bool:
        """The service says how long a job that has finished waited in its queue: so long may others have to wait.

        Returns whether jobs begin so much sooner than was planned for that all are to be planned again, if they may.
        """
        self._queue.began(entry.number, entry.since + waited_us, waited_us=waited_us)
        gap_us = self._queue.gap_us
        if gap_us >= FASTER_SHARE * self._planned_gap_us:
            self._planned_gap_us = max(self._planned_gap_us, gap_us)
        elif may_replan and (entry.asked_at or 0) >= self._replan_after:  # else the last time is not long ago
            self._planned_gap_us = gap_us
            self._replan_after = (entry.asked_at or 0) + REPLAN_US_MIN
            return True
        return False

    def waits(self, entry: Entry) -> None:
        """The service says that the execution of `entry` has not begun."""
        self._queue.waits(entry.number, entry.asked_at or 0)

    def takes_us(self, entry: Entry) -> int:
        """How long `entry` probably takes from its submission on: as every second of its like; 0 where nothing is
        known.
        """
        return self._times_of(entry).quantile_us(0.5) or 0

    def watched_at(self, entry: Entry, every_us: int) -> int:
        """When a resumable job is asked how far it is: first at another time than the others sent with it."""
        if not every_us:
            return entry.deadline
        if entry.asked_at is None:
            share = entry.number * GOLDEN_SHARE % 1
            at = entry.since + max(ASK_GAP_US_MIN, int(every_us * share), int(self.watched * self._watch_gap_us))
        else:
            at = entry.asked_at + max(ASK_GAP_US_MIN, every_us, int(self.watched * self._watch_gap_us))
        return min(at, entry.deadline)

    def next_ask(self, entry: Entry, *, is_late: bool, is_scout: bool, outstanding: int) -> tuple[int, bool]:
        """When to ask for `entry`, and whether it has probably finished by then.

        `is_late`: it was asked for after its deadline; `is_scout`: the others wait for what it tells.
        """
        at, is_likely = next_ask(
            entry.job,
            asked_at=entry.asked_at,
            learned=self._times_of(entry),
            webhooks=self.webhooks,
            retention_us=self._retention_of(entry.job),
            since=entry.since,
        )
        if self.budget.is_ample and not self.webhooks and not is_late:
            closely_at = self._closely(entry, is_free=is_scout or self.budget.is_free(outstanding))
            return min(closely_at, max(at, entry.deadline)), True
        return at, is_likely

    def turn_at(self, entry: Entry, now: int, *, is_scout: bool, outstanding: int) -> int:
        """When `entry`, which is due, has its turn by what was learned since; `now` where it has."""
        if self.budget.is_ample:
            if entry.begun_at is None and self._queue.not_before(entry.number, entry.since):
                return self._closely(entry, is_free=is_scout or self.budget.is_free(outstanding))
            return now
        begins_at, execution_us = self._queue.begins_at(entry.number), self._execution.quantile_us(LADDER[0])
        return now if begins_at is None or execution_us is None else begins_at + execution_us

    def _closely(self, entry: Entry, *, is_free: bool) -> int:
        """When to ask for `entry` where the allowance is ample: by its time in execution, if that can be told."""
        since, asked_at = entry.since, entry.asked_at
        begun_at = entry.begun_at if entry.begun_at is not None else self._queue.not_before(entry.number, since)
        is_of_use = self._execution.weight or not self.learned.weight
        if not is_of_use or (begun_at is None and not entry.is_queued):
            least_us = ASK_GAP_US_MIN
            if asked_at is None and not self.learned.weight:
                # Each at another time: if they take equally long, one of them is asked for soon after.
                least_us += int((entry.number - 1) * GOLDEN_SHARE % 1 * ASK_GAP_US_MIN)
            at = ask_closely(since, asked_at=asked_at, times=self.learned, is_free=is_free)
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
            return self.learned
        return Expected(max(0, begins_at - entry.since), self._execution)
