"""Whose turn it is at an endpoint whose runs are to be finished by a time: by weight, unless weight alone would miss a
`finish-by` that the earliest deadline first (EDF) makes.

What is reckoned with is the work that is left of each run and how many executions the endpoint has at once. Whoever
does not go first keeps a small part of the turns, so that nobody waits for ever. Times are microseconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

OTHERS_SHARE: Final = 0.05
"""So much of the turns is left to the others while one run goes first."""

CALM_SHARE: Final = 0.1
"""Turns go by weight again only where they would do with so much less time: else the order would change to and fro."""


class RunTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One run that has jobs to send."""

    weight: float
    """How much of the endpoint it gets compared with others, while turns go by weight."""

    jobs: int
    """How many have no outcome yet."""

    execution_us: float
    """How long workers are at work on one of them."""

    finish_by: int | None = None
    """When it is to be finished; None: whenever."""

    @property
    def work_us(self) -> float:
        """How long workers will be at work on what is left of it, all together."""
        return self.jobs * self.execution_us


class Turns(msgspec.Struct, frozen=True, kw_only=True):
    """How runs take turns, and which of them will not be finished in time whatever their order."""

    weights: Mapping[int, float]
    """By which turns are taken, of all runs."""

    first: tuple[int, ...] = ()
    """Those that go by their deadlines, the earliest first; none where weight alone does."""

    late_us: Mapping[int, float] = {}
    """By how much a run misses its deadline, though its turn comes by that."""


def turns_of(runs: Mapping[int, RunTurn], at_once: float, now: int, *, were_by_deadline: bool = False) -> Turns:
    """How `runs` take turns at an endpoint that has `at_once` executions at once; 0: nobody knows yet.

    `were_by_deadline`: whether they have gone by their deadlines until now.
    """
    by_weight = {run: each.weight for run, each in runs.items()}
    due = sorted((each.finish_by, run) for run, each in runs.items() if each.finish_by)
    if at_once <= 0 or not due:
        return Turns(weights=by_weight)
    in_order = [run for _, run in due]
    late_us = _late_in_order(runs, in_order, at_once, now)
    if len(runs) == 1:
        return Turns(weights=by_weight, late_us=late_us)
    by_share = _ends_by_weight(runs, at_once)
    patience = 1 - CALM_SHARE if were_by_deadline else 1.0
    missed = {run for at, run in due if by_share[run] > patience * (at - now)}
    first = tuple(run for run in in_order if run not in late_us)
    if not missed.intersection(first):
        return Turns(weights=by_weight, late_us={run: late for run, late in late_us.items() if run in missed})
    return Turns(weights=_weights(by_weight, first), first=first, late_us=late_us)


def _weights(by_weight: Mapping[int, float], first: Sequence[int]) -> Mapping[int, float]:
    """Each of `first` goes before all that come after it, which keep their part together."""
    weights = dict(by_weight)
    after = sum(weight for run, weight in by_weight.items() if run not in first)
    for run in reversed(first):
        weights[run] = weights[run] if after == 0 else after * (1 - OTHERS_SHARE) / OTHERS_SHARE
        after += weights[run]
    return weights


def _late_in_order(runs: Mapping[int, RunTurn], in_order: Iterable[int], at_once: float, now: int) -> dict[int, float]:
    """By how much those are late that cannot be in time, each after those with earlier deadlines that can be."""
    speed = at_once * (1 - OTHERS_SHARE if len(runs) > 1 else 1.0)
    late_us: dict[int, float] = {}
    before_us = 0.0
    for run in in_order:
        each = runs[run]
        ends_us = (before_us + each.work_us) / speed
        over_us = ends_us - ((each.finish_by or 0) - now)
        if over_us > 0 and each.work_us > 0:
            late_us[run] = over_us
        else:
            before_us += each.work_us
    return late_us


def _ends_by_weight(runs: Mapping[int, RunTurn], at_once: float) -> Mapping[int, float]:
    """In how long each ends where all have their part of the turns by weight: who ends leaves it to the others."""
    jobs: dict[int, float] = {run: each.jobs for run, each in runs.items()}
    found: dict[int, float] = {}
    passed_us = 0.0
    while jobs:
        round_us = sum(runs[run].weight * runs[run].execution_us for run in jobs)
        run = min(jobs, key=lambda each: jobs[each] / runs[each].weight)
        rounds = jobs.pop(run) / runs[run].weight
        passed_us += rounds * round_us / at_once
        found[run] = passed_us
        jobs = {other: left - rounds * runs[other].weight for other, left in jobs.items()}
    return found
