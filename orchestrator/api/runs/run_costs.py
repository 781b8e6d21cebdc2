"""What runs have cost so far, and what they will come to; and what each member of a pool has done of it."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.core.gates.costs import MILLISECONDS, Cost, Costs, DurationTotals, batch_price
from orchestrator.core.jobs.lifecycle import State, ended, unfinished
from orchestrator.core.lanes.via import Via
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transitions.execution_writes import Place
from orchestrator.settings.run_settings import RunSettings
from orchestrator.views.costs import CostView
from orchestrator.views.members import MemberStatus, members_first

AT_SERVICE: Final = (State.SUBMITTING, State.UNCERTAIN, State.OUTSTANDING)


class Executions(msgspec.Struct, frozen=True, kw_only=True):
    """What runs have executed, and where, as it is read once for all of them."""

    took: Mapping[Place, DurationTotals]
    """Of the whole ledger."""

    names: Mapping[int, Mapping[int, str]]
    """The endpoints at which each of them that has a pool may be, what these are called by their numbers."""

    paid_at: Mapping[int, Mapping[str, float]] = {}
    """What those of them that have pods have paid for each, by its URL."""


class RunCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Of one run; amounts are None without a price."""

    own: DurationTotals
    """Its executions that have ended."""

    outstanding: int
    spent: CostView | None = None
    expected: CostView | None = None
    """Of what is outstanding."""

    at_end: CostView | None = None
    """What it will have spent once it is over: as many executions a job as so far, at the price of these, or that of
    batches where jobs leave in such.
    """


async def executions_of(ledger: Ledger, runs: Iterable[Run]) -> Executions:
    """What `runs` have executed, for `costs_of` each of them."""
    runs = list(runs)
    pooled = [run for run in runs if run.settings.has_pool]
    names = {run.id: {run.endpoint_id: run.endpoint} for run in pooled}
    for there in await ledger.runs.elsewhere(names) if names else ():
        names[there.id][there.endpoint_id] = there.endpoint
    paid_at: dict[int, dict[str, float]] = {}
    if any(run.settings.pod_template is not None for run in runs):
        for lease in await ledger.runs.pod_leases.all():
            of_run, url = paid_at.setdefault(lease.run, {}), lease.url or lease.name
            of_run[url] = of_run.get(url, 0.0) + lease.cost(ledger.now())
    return Executions(took=await ledger.jobs.brakes.executed(), names=names, paid_at=paid_at)


async def run_costs(ledger: Ledger, run: Run, counts: Mapping[str, int]) -> RunCosts:
    """What `run` costs; `counts` has its jobs by their states."""
    return costs_of(run, counts, await executions_of(ledger, [run]))


def costs_of(run: Run, counts: Mapping[str, int], executions: Executions) -> RunCosts:
    """What `run` costs, whose `executions` are among these; `counts` has its jobs by their states."""
    took_at, names = executed_at(run, executions.took), executions.names.get(run.id, {})
    discount = run.settings.discount({names.get(number, ""): took for number, took in took_at.items()})
    return _costs(run, executions.took, counts, discount, sum(executions.paid_at.get(run.id, {}).values()))


def executed_at(run: Run, executed: Mapping[Place, DurationTotals]) -> Mapping[int, DurationTotals]:
    """What `run` has executed, by the numbers of endpoints."""
    found: dict[int, list[DurationTotals]] = {}
    for (number, endpoint, _), took in executed.items():
        if number == run.id:
            found.setdefault(endpoint, []).append(took)
    return {endpoint: DurationTotals.together(parts) for endpoint, parts in found.items()}


def _costs(
    run: Run, executed: Mapping[Place, DurationTotals], counts: Mapping[str, int], discount: float, paid: float
) -> RunCosts:
    own = DurationTotals.together(took for place, took in executed.items() if place[0] == run.id)
    outstanding = sum(counts.get(each.value, 0) for each in AT_SERVICE)
    price = run.settings.price
    if price is None and run.settings.pod_template is None:
        return RunCosts(own=own, outstanding=outstanding)
    price = price or 0.0
    like = DurationTotals.together(took for place, took in executed.items() if place[1] == run.endpoint_id)
    costs = Costs(
        price=price,
        took=own,
        like=like,
        longest_ms=run.settings.policy.timeout_ms,
        standing=paid,
        discount=discount,
    )
    at_next_price = msgspec.structs.replace(costs, price=_next_price(run.settings, costs), discount=0.0)
    over = ended(counts)
    each_job = max(1.0, own.ended / over) if over else 1.0
    to_come = math.ceil(unfinished(counts) * each_job)
    return RunCosts(
        own=own,
        outstanding=outstanding,
        spent=_view(costs.spent),
        expected=_view(costs.expected(outstanding)),
        at_end=_view(costs.spent + at_next_price.expected(to_come)),
    )


def _next_price(settings: RunSettings, costs: Costs) -> float:
    """What a second of what is to come costs: in batches as they do, else as so far in the mean."""
    if settings.via is Via.BATCH and not settings.members:
        return batch_price(costs.price, settings.batch_discount)
    seconds = costs.took.total_ms / MILLISECONDS
    return costs.price - costs.discount / seconds if seconds else costs.price


async def members_by_run(ledger: Ledger, runs: Iterable[Run]) -> Mapping[int, tuple[MemberStatus, ...]]:
    """Those of the pool of each of `runs` that has one, and whoever else has done something of it."""
    runs = list(runs)
    pooled = [run for run in runs if run.settings.has_pool]
    if not pooled:
        return {}
    executions = await executions_of(ledger, pooled)
    outstanding = await ledger.runs.outstanding_of([run.id for run in pooled])
    return {run.id: _members(run, executions, outstanding.get(run.id, {})) for run in pooled}


def _members(run: Run, executions: Executions, outstanding: Mapping[int, int]) -> tuple[MemberStatus, ...]:
    names, took = executions.names[run.id], executed_at(run, executions.took)
    paid = executions.paid_at.get(run.id, {})
    members = [each.endpoint for each in run.settings.members] or [*paid]
    found = (
        MemberStatus.counted(
            names[number],
            took.get(number, DurationTotals()),
            via=run.settings.at(names[number]).via,
            price=run.settings.price_at(names[number]),
            outstanding=outstanding.get(number, 0),
            batch_discount=run.settings.batch_discount,
        )
        for number in members_first(names, members, lambda number: number in took or number in outstanding)
    )
    return tuple(msgspec.structs.replace(each, cost=paid.get(each.endpoint, each.cost)) for each in found)


async def spent_by_run(ledger: Ledger, runs: Collection[int]) -> Mapping[int, CostView]:
    """What each of these runs has spent, where its price is known."""
    priced = [run for run in await ledger.runs.all(runs) if run.settings.price is not None or run.settings.pod_template]
    if not priced:
        return {}
    executions = await executions_of(ledger, priced)
    spent = {run.id: costs_of(run, {}, executions).spent for run in priced}
    return {run: cost for run, cost in spent.items() if cost is not None}


def costs_together(amounts: Sequence[CostView]) -> CostView | None:
    """Their sum; None of none."""
    if not amounts:
        return None
    whole = sum((Cost(each.amount, each.error) for each in amounts), Cost(0.0))
    return CostView(amount=whole.amount, error=whole.error)


def _view(cost: Cost) -> CostView:
    return CostView(amount=cost.amount, error=cost.error)
