"""How many workers an endpoint needs for its runs: as many as make each `finish-by`, by the work that is left and the
earliest deadline first, or as an hourly budget pays for.

The forecast is of the time between now and a deadline: what is left, and what arrives until then, on so many workers,
after these have started and before the last one has ended what it began last. Times are microseconds.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Self

import msgspec

from orchestrator.core.gates.scaling_override import WorkerRange
from orchestrator.core.planning.deadline_turns import OTHERS_SHARE
from orchestrator.core.planning.forecast import ExecutionSample
from orchestrator.units import SECOND_US

HOUR_S: Final = 3_600

RESERVE: Final = 0.04
"""So much of the time until a deadline is kept for what nobody foresees."""

STREAM_LOOKS: Final = 3
"""Rows that came between so many looks go on to come."""

LONGEST_SHARE: Final = 0.95

ENDLESS: Final = 1_000_000
"""No endpoint has so many workers: there is no time left."""


class JobTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What a job takes a worker, all its executions together."""

    mean_us: float
    doubt: float
    """By which share of itself the mean may be wrong."""

    longest_us: float
    """What hardly any execution exceeds."""

    executions: int
    """On so many it stands. The first that end are the shortest."""

    @classmethod
    def of(cls, sample: ExecutionSample) -> Self:
        """By what executions took."""
        return cls(
            mean_us=sample.mean_us * sample.per_job,
            doubt=sample.doubt,
            longest_us=sample.quantile_us(LONGEST_SHARE),
            executions=len(sample.executions_us),
        )


class WorkerDemand(msgspec.Struct, frozen=True, kw_only=True):
    """What one run asks of its endpoint."""

    left: int
    """Jobs without an outcome."""

    times: JobTimes | None
    """None: nobody knows yet."""

    arriving_per_s: float = 0.0
    """So many further jobs come in a second, of late."""

    finish_by: int | None = None
    range: WorkerRange | None = None
    """Within which the endpoint's workers are to follow what it needs; None: it does not ask for that."""

    per_hour: float = 0.0
    """What its workers may cost in an hour; 0: any amount."""

    price_per_s: float = 0.0

    @property
    def affordable(self) -> int | None:
        """How many workers its hourly budget pays for; None for any number."""
        return int(self.per_hour / (HOUR_S * self.price_per_s) + 1e-9) if self.per_hour and self.price_per_s else None


class WorkerNeed(msgspec.Struct, frozen=True, kw_only=True):
    """How many workers are needed, before anybody asks whether there may be as many."""

    workers: int
    """By what is likely; `ENDLESS` where no number makes it."""

    sure: int
    """The same if executions take as long as they may at the worst."""

    is_of_budget: bool = False
    """Whether an hourly budget says how many, or keeps them fewer than a deadline needs."""

    by_deadline: int = 0
    """As many as the deadlines need, whatever may be spent."""


def arriving_per_s(looks: Sequence[tuple[int, int]]) -> float:
    """How many jobs come in a second, by how many there were when: `looks` are at least a minute apart. What came
    between few of them is left over like any job, and no stream.
    """
    if sum(after[1] > before[1] for before, after in pairwise(looks)) < STREAM_LOOKS:
        return 0.0
    (since, before), (until, after) = looks[0], looks[-1]
    return max(0, after - before) * SECOND_US / (until - since)


def needed(demands: Sequence[WorkerDemand], now: int, *, start_us: float) -> WorkerNeed | None:
    """What all of `demands` need together, if workers take `start_us` before they begin; None: too little is known."""
    if any(each.times is None for each in demands if each.finish_by is not None):
        return None
    are_shared = any(each.finish_by is None and each.left for each in demands)
    likely = _for_deadlines(demands, now, start_us, sure=False, are_shared=are_shared)
    sure = _for_deadlines(demands, now, start_us, sure=True, are_shared=are_shared)
    due = [each for each in demands if each.finish_by is not None]
    payable = [each.affordable for each in due]
    most = sum(each or 0 for each in payable) if None not in payable else ENDLESS
    extra = sum(min(each.affordable or 0, each.left) for each in demands if each.finish_by is None)
    return WorkerNeed(
        workers=min(likely, most) + extra,
        sure=min(sure, most) + extra,
        is_of_budget=bool(extra) or most < likely,
        by_deadline=likely,
    )


def late_us(demands: Sequence[WorkerDemand], now: int, workers: int, *, start_us: float) -> float:
    """By how much the latest of their deadlines is missed with so many workers; 0: none is."""
    work_us = late = 0.0
    for each in _in_order(demands):
        if each.times is not None and each.finish_by is not None:
            work_us += each.left * each.times.mean_us
            ends_us = start_us + work_us / max(1, workers) + (each.times.mean_us if each.left else 0)
            late = max(late, now + ends_us - each.finish_by)
    return late


def _in_order(demands: Sequence[WorkerDemand]) -> list[WorkerDemand]:
    return sorted((each for each in demands if each.finish_by is not None), key=lambda each: each.finish_by or 0)


def _for_deadlines(demands: Sequence[WorkerDemand], now: int, start_us: float, *, sure: bool, are_shared: bool) -> int:
    """The fewest that end everything in time that is to end by then or before, for each of the deadlines."""
    work_us = arriving = 0.0
    most = 0
    for each in _in_order(demands):
        assert each.times is not None
        assert each.finish_by is not None
        share = 1 + each.times.doubt if sure else 1.0
        work_us += each.left * each.times.mean_us * share
        arriving += each.arriving_per_s / SECOND_US * each.times.mean_us * share
        if not work_us and not arriving:
            continue
        within_us = (each.finish_by - now) * (1 - RESERVE) - start_us - each.times.longest_us * share
        speed = 1 - OTHERS_SHARE if are_shared else 1.0
        if within_us <= 0:
            most = max(most, ENDLESS if each.left else 0)
        else:
            most = max(most, math.ceil((work_us / within_us + arriving) / speed - 1e-9))
    return most if arriving else min(most, sum(each.left for each in _in_order(demands)))
