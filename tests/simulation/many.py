"""As many outstanding jobs as admission allows, collected by polling alone: `python -m tests.simulation.many`.

The real planner against a light stand-in of an endpoint, on time that is nothing but a number. The endpoint has no
workers to begin with, so that all jobs gather and nothing is learned; then it works them off more slowly than they are
submitted, so that they stay as many as may be. Nothing may expire, and no result come closer to it than three minutes.
"""

import argparse
import heapq
from collections.abc import Mapping
from random import Random
from typing import Final

import msgspec

from orchestrator.core.jobs.deadlines import RETENTION_US_DEFAULT, margin_left
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.polling.admission import outstanding_max
from orchestrator.core.polling.latency import Durations
from orchestrator.core.polling.poll_plan import PollPlan
from orchestrator.core.polling.poll_plan_entry import Entry
from orchestrator.units import SECOND_US
from tests.guarantees import record

COMMAND: Final = "python -m tests.simulation.many"
MARGIN_SHARE_MIN: Final = 0.1
"""Three minutes of thirty."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How large the test is. The defaults are the contract's limits, and three hours."""

    hours: float = 3.0
    retention_us: int = RETENTION_US_DEFAULT
    status_per_s: float = 200.0
    run_per_s: float = 100.0
    workers: int = 4_800
    execution_s: tuple[float, float] = (20.0, 100.0)
    asleep_s: float = 2_400.0
    """How long the endpoint has no workers at all."""


class Result(msgspec.Struct, kw_only=True):
    """What came of it."""

    collected: int = 0
    expired: int = 0
    asked: int = 0
    outstanding_most: int = 0
    margin_min_us: int = 0


class Many:
    """One endpoint, and the planner that collects from it. `seed` decides how long the executions take."""

    def __init__(self, size: Size, *, seed: int = 1) -> None:
        self._size = size
        self._random = Random(seed)
        self._now = SECOND_US
        self._free_at = [self._now + int(size.asleep_s * SECOND_US)] * size.workers
        self._times: dict[int, tuple[int, int]] = {}
        self._numbers = 0
        self.durations = Durations()
        self.plan = PollPlan(
            learned=self.durations.whole,
            execution=self.durations.execution,
            retention_of=lambda _: size.retention_us,
            per_s=size.status_per_s,
            webhooks=False,
        )
        self.result = Result(margin_min_us=size.retention_us)

    def play(self) -> Result:
        """Plays it to its end."""
        size = self._size
        most = outstanding_max(size.status_per_s, size.retention_us)
        gap_us = SECOND_US / size.status_per_s
        submissions = 0.0
        for question in range(int(size.hours * 3_600 * size.status_per_s)):
            self._now = SECOND_US + int(question * gap_us)
            submissions = min(submissions + size.run_per_s / size.status_per_s, size.run_per_s)
            while submissions >= 1 and len(self.plan) < most:
                submissions -= 1
                self._submit()
            self._ask()
        return self.result

    def _submit(self) -> None:
        self._numbers += 1
        started_at = max(self._now, heapq.heappop(self._free_at))
        finished_at = started_at + int(self._random.uniform(*self._size.execution_s) * SECOND_US)
        heapq.heappush(self._free_at, finished_at)
        self._times[self._numbers] = started_at, finished_at
        self.plan.add(just_sent(self._numbers, self._now))
        self.result.outstanding_most = max(self.result.outstanding_most, len(self.plan))

    def _ask(self) -> None:
        entry = self.plan.next(self._now)
        if entry is None:
            return
        self.result.asked += 1
        entry.asked_at, entry.asks = self._now, entry.asks + 1
        if self._now < self._times[entry.job.id][1]:
            unfinished = msgspec.structs.replace(entry.job, unfinished_at=self._now)
            self.plan.refresh(entry, unfinished, is_queued=self._now < self._times[entry.job.id][0])
        else:
            self._collect(entry)

    def _collect(self, entry: Entry) -> None:
        job, retention_us = entry.job, self._size.retention_us
        started_at, finished_at = self._times.pop(job.id)
        self.result.collected += 1
        self.result.expired += self._now >= finished_at + retention_us
        margin_us = margin_left(job.unfinished_at or 0, retention_us, self._now)
        self.result.margin_min_us = min(self.result.margin_min_us, margin_us)
        self.durations.observe((started_at - (job.sent_at or 0)) // 1_000, (finished_at - started_at) // 1_000)
        self.plan.began(entry, started_at - (job.sent_at or 0))
        self.plan.drop(job.id)


def just_sent(number: int, now: int) -> Job:
    """An outstanding job with a day to live, sent at `now` (microseconds UTC)."""
    return Job(
        id=number,
        run=1,
        endpoint=1,
        state=State.OUTSTANDING,
        remote_id="r",
        sent_at=now,
        unfinished_at=now,
        ttl_at=now + 86_400 * SECOND_US,
    )


def main() -> None:
    """Plays it at full size and prints what came of it; exits with 1 where a result came too close."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="As many outstanding jobs as may be, by polling alone.")
    parser.add_argument("--hours", type=float, default=3.0, help="hours of the endpoint's time (3)")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    chosen = parser.parse_args()
    size = Size(hours=chosen.hours)
    result = Many(size).play()
    margin_s = result.margin_min_us / SECOND_US
    figures: Mapping[str, tuple[float, str]] = {
        "outstanding at most": (result.outstanding_most, "jobs"),
        "results collected": (result.collected, "jobs"),
        "results expired": (result.expired, "jobs"),
        "least margin": (margin_s, "s"),
        "questions for each result": (result.asked / max(result.collected, 1), ""),
    }
    for name, (value, unit) in figures.items():
        print(f"{name:26} {value:12,.6g} {unit}")
    if chosen.record:
        for name, (value, unit) in figures.items():
            least = 180 if name == "least margin" else None
            record(name, value, unit, COMMAND, at_least=least, at_most=0 if name == "results expired" else None)
    if result.expired or result.margin_min_us < MARGIN_SHARE_MIN * size.retention_us:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
