"""What runs have cost so far, and what they will come to; and what each member of a pool has done of it."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.core.gates.costs import MILLISECONDS, Cost, Costs, DurationTotals
from orchestrator.core.jobs.lifecycle import State, ended, unfinished
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transitions.execution_writes import Place
from orchestrator.views.costs import CostView
from orchestrator.views.members import MemberStatus, members_first

AT_SERVICE: Final = (State.SUBMITTING, State.UNCERTAIN, State.OUTSTANDING)


class RunCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Of one run; amounts are None without a price."""

    own: DurationTotals
    """Its executions that have ended."""

    outstanding: int
    spent: CostView | None = None
    expected: CostView | None = None
    """Of what is outstanding."""

    at_end: CostView | None = None
    """What it will have spent once it is over: as many executions a job as so far, and at the price of these."""


async def run_costs(
    ledger: Ledger,
    run: Run,
    counts: Mapping[str, int],
    executed: Mapping[Place, DurationTotals] | None = None,
) -> RunCosts:
    """What `run` costs; `counts` has its jobs by their states, and `executed` the executions of the whole ledger, where
    they are known.
    """
    executed = await ledger.jobs.brakes.executed() if executed is None else executed
    elsewhere = await ledger.runs.elsewhere(run.id) if run.settings.members else []
    names = {each.endpoint_id: each.endpoint for each in (run, *elsewhere)}
    took_at = executed_at(run, executed)
    discount = run.settings.discount({names.get(number, ""): took for number, took in took_at.items()})
    return _costs(run, executed, counts, discount)


def executed_at(run: Run, executed: Mapping[Place, DurationTotals]) -> Mapping[int, DurationTotals]:
    """What `run` has executed, by the numbers of endpoints."""
    found: dict[int, list[DurationTotals]] = {}
    for (number, endpoint, _), took in executed.items():
        if number == run.id:
            found.setdefault(endpoint, []).append(took)
    return {endpoint: DurationTotals.together(parts) for endpoint, parts in found.items()}


def _costs(run: Run, executed: Mapping[Place, DurationTotals], counts: Mapping[str, int], discount: float) -> RunCosts:
    own = DurationTotals.together(took for place, took in executed.items() if place[0] == run.id)
    outstanding = sum(counts.get(each.value, 0) for each in AT_SERVICE)
    price = run.settings.price
    if price is None:
        return RunCosts(own=own, outstanding=outstanding)
    like = DurationTotals.together(took for place, took in executed.items() if place[1] == run.endpoint_id)
    costs = Costs(price=price, took=own, like=like, longest_ms=run.settings.policy.timeout_ms, discount=discount)
    seconds = own.total_ms / MILLISECONDS
    in_the_mean = msgspec.structs.replace(costs, price=price - discount / seconds, discount=0.0) if seconds else costs
    over = ended(counts)
    each_job = max(1.0, own.ended / over) if over else 1.0
    to_come = math.ceil(unfinished(counts) * each_job)
    return RunCosts(
        own=own,
        outstanding=outstanding,
        spent=_view(costs.spent),
        expected=_view(costs.expected(outstanding)),
        at_end=_view(costs.spent + in_the_mean.expected(to_come)),
    )


async def run_members(ledger: Ledger, run: Run) -> tuple[MemberStatus, ...]:
    """Those of the pool of `run`, and whoever else has done something of it; none where it has no pool."""
    if not run.settings.members:
        return ()
    names = {each.endpoint_id: each.endpoint for each in (run, *await ledger.runs.elsewhere(run.id))}
    took = executed_at(run, await ledger.jobs.brakes.executed())
    outstanding = await ledger.runs.outstanding_of(run.id)
    members = [each.endpoint for each in run.settings.members]
    return tuple(
        MemberStatus.counted(
            names[number],
            took.get(number, DurationTotals()),
            price=run.settings.price_at(names[number]),
            outstanding=outstanding.get(number, 0),
        )
        for number in members_first(names, members, lambda number: number in took or number in outstanding)
    )


async def spent_by_run(ledger: Ledger, runs: Collection[int]) -> Mapping[int, CostView]:
    """What each of these runs has spent, where its price is known."""
    priced = [run for run in await ledger.runs.all(runs) if run.settings.price is not None]
    if not priced:
        return {}
    executed = await ledger.jobs.brakes.executed()
    spent = {run.id: (await run_costs(ledger, run, {}, executed)).spent for run in priced}
    return {run: cost for run, cost in spent.items() if cost is not None}


def costs_together(amounts: Sequence[CostView]) -> CostView | None:
    """Their sum; None of none."""
    if not amounts:
        return None
    whole = sum((Cost(each.amount, each.error) for each in amounts), Cost(0.0))
    return CostView(amount=whole.amount, error=whole.error)


def _view(cost: Cost) -> CostView:
    return CostView(amount=cost.amount, error=cost.error)
