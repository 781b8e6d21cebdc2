"""Nights for workers by need: each is drawn from a seed before anything runs, and its optimum is found with all of that
known.

The optimum is the number of workers that the endpoint might have at most, set once at the beginning, which makes the
deadline with the fewest seconds of workers: those while they start and while they wait included.
"""

import heapq
import math
import random
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.gates.scaling_override import WorkerRange

SPAN: Final = WorkerRange(2, 30)
HOUR_S: Final = 3_600.0

SCALER_S: Final = 4.0
"""For so long a job waits until it starts a worker beside others."""

IDLE_S: Final = 5.0
"""For so long a worker without a job is there."""

JOBS_MAX: Final = 500
BEFORE: Final = 30
"""So many jobs an earlier run had, where there was one."""


class Arrivals(StrEnum):
    """How the rows of a night come."""

    AT_ONCE = "at once"
    STREAM = "a stream"
    BURSTS = "bursts"


class Night(msgspec.Struct, frozen=True, kw_only=True):
    """What happens. Seconds count from the beginning of the night."""

    seed: int
    within_s: float
    """When it is to be finished."""

    arrivals: tuple[tuple[float, int], ...]
    """How many rows come when."""

    seconds: tuple[float, ...]
    """How long each job takes."""

    cold_start_s: float
    machines: int | None
    """There is a machine for so many workers; None: for any number."""

    is_known: bool
    """Whether there was an earlier run, of whose times the ledger tells."""

    price_per_s: float
    per_hour: float
    """What workers may cost in an hour; 0: any amount."""

    @property
    def jobs(self) -> int:
        """All rows."""
        return len(self.seconds)

    @property
    def affordable(self) -> int:
        """How many workers there may be by what they cost."""
        return int(self.per_hour / (HOUR_S * self.price_per_s)) if self.per_hour else SPAN.most


def drawn(seed: int, *, hours: Sequence[float] = (1.5, 2, 3), jobs_max: int = JOBS_MAX) -> Night:
    """The night of that seed."""
    chance = random.Random(seed)
    within_s = chance.choice(hours) * HOUR_S
    drift = chance.choice((0.0, 0.0, 0.2, 0.4))
    workers = chance.randint(4, 20)
    cold_start_s = chance.choice((10.0, 30.0, 90.0, 180.0))
    full_s = workers * (within_s - cold_start_s) * chance.uniform(0.75, 0.9)
    mean_s = max(chance.choice((20.0, 45.0, 90.0, 240.0)), full_s / jobs_max)
    mean_s = min(mean_s, within_s / 15)
    jobs = max(20, int(full_s / mean_s / (1 + drift / 2)))
    sigma = chance.choice((0.1, 0.3, 0.6))
    seconds = tuple(
        mean_s * (1 + drift * n / jobs) * math.exp(chance.gauss(-sigma * sigma / 2, sigma)) for n in range(jobs)
    )
    arrivals = _arrivals(chance.choice((*[Arrivals.AT_ONCE] * 3, Arrivals.STREAM, Arrivals.BURSTS)), jobs, within_s)
    machines = workers + chance.randint(2, 6) if chance.random() < 0.2 else None
    price_per_s = chance.choice((0.00019, 0.00031, 0.00076))
    has_budget = chance.random() < 0.25
    return Night(
        seed=seed,
        within_s=within_s,
        arrivals=arrivals,
        seconds=seconds,
        cold_start_s=cold_start_s,
        machines=machines,
        is_known=chance.random() < 0.5,
        price_per_s=price_per_s,
        per_hour=(workers + chance.randint(0, 5)) * price_per_s * HOUR_S if has_budget else 0.0,
    )


def _arrivals(kind: Arrivals, jobs: int, within_s: float) -> tuple[tuple[float, int], ...]:
    if kind is Arrivals.AT_ONCE:
        return ((0.0, jobs),)
    parts = 30 if kind is Arrivals.STREAM else 4
    each = jobs // parts
    until_s = within_s * 0.5
    counts = [jobs - each * (parts - 1), *[each] * (parts - 1)]
    return tuple((until_s * n / parts, count) for n, count in enumerate(counts) if count)


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """How a night went with so many workers at most."""

    workers: int
    finished_s: float
    worker_s: float
    """For how long workers were there, all together."""


def with_workers(night: Night, workers: int) -> Played:
    """How it goes with so many, by the endpoint's rules: on paper."""
    most = workers if night.machines is None else min(workers, night.machines)
    free: list[tuple[float, float]] = []
    """When each worker has nothing more to do, and when it was started."""
    worker_s = finished_s = 0.0
    job = 0
    for at_s, count in night.arrivals:
        for _ in range(count):
            while free and free[0][0] + IDLE_S < at_s:
                ended_s, started_s = heapq.heappop(free)
                worker_s += ended_s + IDLE_S - started_s
            starts_s = at_s + (SCALER_S if free else 0.0)
            if free and (len(free) >= most or free[0][0] <= starts_s):
                ready_s, started_s = heapq.heappop(free)
            else:
                ready_s, started_s = starts_s + night.cold_start_s, starts_s
            begun_s = max(at_s, ready_s)
            ended_s = begun_s + night.seconds[job]
            heapq.heappush(free, (ended_s, started_s))
            finished_s = max(finished_s, ended_s)
            job += 1
    worker_s += sum(ended_s + IDLE_S - started_s for ended_s, started_s in free)
    return Played(workers=workers, finished_s=finished_s, worker_s=worker_s)


def optimum(night: Night) -> Played | None:
    """The cheapest that is in time; None where no number of workers is."""
    tried = [with_workers(night, workers) for workers in range(SPAN.least, min(SPAN.most, night.affordable) + 1)]
    in_time = [each for each in tried if each.finished_s <= night.within_s]
    return min(in_time, key=lambda each: each.worker_s, default=None)
