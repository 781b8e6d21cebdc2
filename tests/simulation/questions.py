"""How many questions it takes to collect a job by polling alone: `python -m tests.simulation.questions`.

The real planner, with jobs sent at full speed, against a light stand-in of an endpoint, on time that is nothing but a
number: short and long executions, with as many workers as keep up with the submissions and with far fewer, so that the
jobs queue.
"""

import argparse
import heapq
from random import Random
from typing import Final

import msgspec

from orchestrator.core.admission import Throughput, at_service_max
from orchestrator.core.deadlines import RETENTION_US_DEFAULT
from orchestrator.core.plan import Entry, Plan
from orchestrator.core.turnaround import Turnaround
from tests.guarantees import record
from tests.simulation.many import just_sent

SECOND_US: Final = 1_000_000
COMMAND: Final = "python -m tests.simulation.questions"
MOST: Final = 2.0
"""Full speed affords no more: 200 questions a second for 100 submissions."""

ROUND_TRIP_US: Final = 100_000


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One run: so many jobs, whose executions take `execution_s`, give or take the share `spread` of it."""

    execution_s: float
    workers: int
    jobs: int = 10_000
    spread: float = 0.5
    run_per_s: float = 100.0
    status_per_s: float = 200.0

    def __str__(self) -> str:
        return f"{self.execution_s:g} s, {self.workers:,} workers"


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
        self._free_at = [self._now] * case.workers
        self._times: dict[int, tuple[int, int]] = {}
        self._under_way: list[tuple[int, int, Entry]] = []
        self._throughput = Throughput()
        self.turnaround = Turnaround()
        self.sent = self.asked = self.collected = 0
        self.late_us = 0
        self.plan = Plan(
            learned=self.turnaround.whole,
            execution=self.turnaround.execution,
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
        case = self._case
        seconds = case.execution_s * self._random.uniform(1 - case.spread, 1 + case.spread)
        finished_at = started_at + int(seconds * SECOND_US)
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
            self.plan.refresh(entry, unfinished, is_queued=asked_at < started_at)
            return
        self.collected += 1
        self.late_us += self._now - finished_at
        self._throughput.observe(self._now)
        self.turnaround.observe((started_at - (job.sent_at or 0)) // 1_000, (finished_at - started_at) // 1_000)
        self.plan.began(entry, started_at - (job.sent_at or 0))
        self.plan.drop(job.id)


def main() -> None:
    """Plays all cases and prints what came of them; exits with 1 where one took too many."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Questions for each job, by polling alone.")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/guarantees.md")
    chosen = parser.parse_args()
    worst = 0.0
    for case in CASES:
        endpoint = Endpoint(case)
        questions = endpoint.play()
        worst = max(worst, questions)
        late_s = endpoint.late_us / endpoint.collected / SECOND_US
        print(f"executions of {case!s:24} {questions:6.2f} questions for each job, collected {late_s:7.1f} s late")
    if chosen.record:
        record("questions for each job by polling, worst case", worst, "", COMMAND, at_most=MOST)
    if worst > MOST:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
