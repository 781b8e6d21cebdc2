"""How many questions it takes to collect a job by polling alone, and how soon: `python -m tests.simulation.questions`.

The real planner, with jobs sent at full speed, against a light stand-in of an endpoint, on time that is nothing but a
number: short and long executions, with as many workers as keep up with the submissions and with far fewer, so that the
jobs queue. Then one job, ten and a thousand, where questions are to spare, and how long after its completion each is
collected: of an endpoint whose times are known from 500 executions, from two of twice the time, or not at all.
"""

import argparse
import heapq
from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from orchestrator.core.jobs.deadlines import RETENTION_US_DEFAULT
from orchestrator.core.polling.admission import Throughput, at_service_max
from orchestrator.core.polling.latency import Durations
from orchestrator.core.polling.poll_plan import PollPlan
from orchestrator.core.polling.poll_plan_entry import Entry
from orchestrator.units import SECOND_US
from tests.guarantees import record
from tests.simulation.many import just_sent

COMMAND: Final = "python -m tests.simulation.questions"
MOST: Final = 2.0
"""Full speed affords no more: 200 questions a second for 100 submissions."""

QUESTIONS_SOON: Final = 5.0
"""Where questions are to spare, so many for each job suffice to collect it soon, if its time is about known."""

HALF, NEARLY_ALL = 0.5, 0.99

ROUND_TRIP_US: Final = 100_000


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One run: so many jobs, whose executions take `execution_s`, give or take the share `spread` of it.

    `known`: the times of so many executions are known from before. `busy_s`: so long the workers are busy with others'.
    """

    execution_s: float
    workers: int
    jobs: int = 10_000
    spread: float = 0.5
    run_per_s: float = 100.0
    status_per_s: float = 200.0
    known: int = 0
    known_factor: float = 1.0
    """How much longer those took."""

    busy_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.execution_s:g} s, {self.workers:,} workers"

    @property
    def is_at_full_speed(self) -> bool:
        """Whether jobs finish so fast that there are no questions to spare."""
        return self.workers / self.execution_s > self.status_per_s / 10

    def time_s(self, chance: Random) -> float:
        """How long an execution takes."""
        return self.execution_s * chance.uniform(1 - self.spread, 1 + self.spread)


CASES: Final = tuple(
    Case(execution_s=execution_s, workers=round(100 * execution_s * share), jobs=jobs)
    for execution_s, jobs in ((0.5, 10_000), (2.5, 10_000), (60.0, 20_000), (600.0, 60_000))
    for share in (1.2, 0.5, 0.1)
)


class Endpoint:
    """A run of `case` against the stand-in. `seed` decides how long the executions take."""

    def __init__(self, case: Case, *, seed: int = 1) -> None:
        self._case = case
        self._random = Random(seed)
        self._now = SECOND_US
        self._free_at = [self._now + int(case.busy_s * SECOND_US)] * case.workers
        self._times: dict[int, tuple[int, int]] = {}
        self._under_way: list[tuple[int, int, Entry]] = []
        self._throughput = Throughput()
        self.durations = Durations()
        self.sent = self.asked = self.collected = 0
        self.late: list[tuple[float, float]] = []
        """How long after its completion each was collected, and what its execution took, in seconds."""

        for _ in range(case.known):
            self.durations.observe(0, int(case.time_s(self._random) * case.known_factor * 1_000))
        self.plan = PollPlan(
            learned=self.durations.whole,
            execution=self.durations.execution,
            retention_of=lambda _: RETENTION_US_DEFAULT,
            per_s=case.status_per_s,
            webhooks=False,
        )

    def play(self) -> float:
        """Plays it to its end; returns the questions for each job."""
        send_us, ask_us = SECOND_US / self._case.run_per_s, SECOND_US / self._case.status_per_s
        send_at, ask_at = float(self._now), float(self._now)
        while self.collected < self._case.jobs:
            if self.sent < self._case.jobs and send_at <= self._now and self._has_room():
                self._send()
                send_at = max(send_at + send_us, self._now)
            while self._under_way and self._under_way[0][0] <= self._now:
                self._answered(heapq.heappop(self._under_way)[2])
            if ask_at <= self._now and (entry := self.plan.next(self._now)) is not None:
                self.asked += 1
                heapq.heappush(self._under_way, (self._now + ROUND_TRIP_US, entry.job.id, entry))
                ask_at = max(ask_at + ask_us, self._now)
            self._now = self._next_at(send_at, ask_at)
        return self.asked / self.collected

    def _next_at(self, send_at: float, ask_at: float) -> int:
        wakes_at = self.plan.wakes_at(self._now)
        times = [max(ask_at, wakes_at)] if wakes_at is not None else []
        if self.sent < self._case.jobs:
            times.append(send_at if self._has_room() else self._now + SECOND_US // 4)
        if self._under_way:
            times.append(self._under_way[0][0])
        return max(self._now, int(min(times, default=0))) + 1

    def _has_room(self) -> bool:
        most = at_service_max(
            "auto", finished_per_s=self._throughput.per_s(self._now), running=min(len(self.plan), self._case.workers)
        )
        return most is None or len(self.plan) < most

    def _send(self) -> None:
        self.sent += 1
        started_at = max(self._now, heapq.heappop(self._free_at))
        finished_at = started_at + int(self._case.time_s(self._random) * SECOND_US)
        heapq.heappush(self._free_at, finished_at)
        self._times[self.sent] = started_at, finished_at
        self.plan.add(just_sent(self.sent, self._now))

    def _answered(self, entry: Entry) -> None:
        """The service looked at the job half a round trip ago."""
        entry.asked_at, entry.asks = self._now, entry.asks + 1
        asked_at = self._now - ROUND_TRIP_US
        job = entry.job
        started_at, finished_at = self._times[job.id]
        if asked_at < finished_at:
            unfinished = msgspec.structs.replace(job, unfinished_at=asked_at)
            is_queued = asked_at < started_at
            self.plan.refresh(entry, unfinished, is_queued=is_queued, begun_at=None if is_queued else started_at)
            return
        self.collected += 1
        self.late.append(((self._now - finished_at) / SECOND_US, (finished_at - started_at) / SECOND_US))
        self._throughput.observe(self._now)
        self.durations.observe((started_at - (job.sent_at or 0)) // 1_000, (finished_at - started_at) // 1_000)
        self.plan.began(entry, started_at - (job.sent_at or 0))
        self.plan.drop(job.id)


# --- soon


class Soon(msgspec.Struct, frozen=True):
    """How soon after their completion jobs were collected."""

    late: Sequence[tuple[float, float]]
    """How late each was, and what its execution took, in seconds."""

    questions: float
    questions_most: float
    """For each job: the mean of all rounds, and of the worst."""

    def within(self, least_s: float, share: float) -> float:
        """The share of the jobs that were collected within `least_s`, or within `share` of their executions."""
        return sum(late <= max(least_s, share * took) for late, took in self.late) / len(self.late)

    def quantile_s(self, share: float) -> float:
        """How late `share` of them were at most."""
        return sorted(late for late, _ in self.late)[int(share * (len(self.late) - 1))]

    @property
    def is_soon(self) -> bool:
        """Half within a second or a twentieth of the execution, 99 % within five seconds or a fifth."""
        return self.within(1.0, 0.05) >= HALF and self.within(5.0, 0.2) >= NEARLY_ALL


def soon(case: Case, *, rounds: int) -> Soon:
    """Plays `case` so often, each time with other durations."""
    late: list[tuple[float, float]] = []
    questions = []
    for seed in range(rounds):
        endpoint = Endpoint(case, seed=seed)
        questions.append(endpoint.play())
        late += endpoint.late
    return Soon(late, sum(questions) / rounds, max(questions))


def few(jobs: int, execution_s: float, spread: float, *, known: int = 500, factor: float = 1.0) -> Case:
    """So many jobs, each with a worker of its own."""
    return Case(execution_s=execution_s, workers=jobs, jobs=jobs, spread=spread, known=known, known_factor=factor)


ROUNDS: Final = {1: 300, 10: 30, 1_000: 2}
"""By the number of jobs."""

PROMISED: Final = tuple(
    few(jobs, execution_s, spread) for jobs in ROUNDS for execution_s in (1.0, 45.0, 1_200.0) for spread in (0.01, 0.25)
)
"""These are collected soon, with five questions each."""

OTHERS: Final = (
    *(few(jobs, execution_s, 0.5) for jobs in ROUNDS for execution_s in (45.0, 1_200.0)),
    *(
        few(jobs, execution_s, spread, known=known, factor=2.0)
        for jobs in ROUNDS
        for execution_s in (45.0, 1_200.0)
        for spread in (0.01, 0.5)
        for known in (0, 2)
    ),
    *(
        msgspec.structs.replace(few(jobs, execution_s, 0.25), workers=max(1, jobs // 10), busy_s=3 * execution_s)
        for jobs in ROUNDS
        for execution_s in (45.0, 1_200.0)
    ),
)
"""Little known, widely scattered, or waiting in a queue: as soon as can be."""


def _told(case: Case, found: Soon) -> str:
    known = "nothing known" if not case.known else f"{case.known} known of {case.known_factor:g} x the time"
    queue = f", after {case.busy_s:,.0f} s for {case.workers:,} workers" if case.busy_s else ""
    return (
        f"{case.jobs:5,} of {case.execution_s:5,.0f} s +-{case.spread:3.0%}, {known + queue:52}"
        f" median {found.quantile_s(0.5):6.1f} s, p99 {found.quantile_s(0.99):7.1f} s,"
        f" {found.questions:5.1f} questions{'' if found.is_soon else ' (not soon)'}"
    )


def _all_soon(*, keep: bool) -> bool:
    """Plays and prints all cases; whether those that are promised were collected soon, with few questions."""
    kept = True
    most = dict.fromkeys(ROUNDS, 0.0)
    for case in (*PROMISED, *OTHERS):
        found = soon(case, rounds=ROUNDS[case.jobs])
        print(_told(case, found), flush=True)
        if case in PROMISED:
            kept &= found.is_soon and found.questions <= QUESTIONS_SOON
            most[case.jobs] = max(most[case.jobs], found.questions)
    if keep:
        for jobs, questions in most.items():
            what = f"questions for each of {jobs:,} jobs of known times, collected soon, worst case"
            record(what, questions, "", COMMAND, at_most=QUESTIONS_SOON)
    return kept


def main() -> None:
    """Plays all cases and prints what came of them; exits with 1 where one took too many, or too long."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Questions for each job, by polling alone.")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    chosen = parser.parse_args()
    worst = 0.0
    for case in CASES:
        endpoint = Endpoint(case)
        questions = endpoint.play()
        if case.is_at_full_speed:
            worst = max(worst, questions)
        late_s = sum(late for late, _ in endpoint.late) / endpoint.collected
        print(f"executions of {case!s:24} {questions:6.2f} questions for each job, collected {late_s:7.1f} s late")
    is_kept = _all_soon(keep=chosen.record)
    if chosen.record:
        record("questions for each job by polling at full speed, worst case", worst, "", COMMAND, at_most=MOST)
    if worst > MOST or not is_kept:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
