"""What runs have cost so far, and what they will come to."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.core.gates.costs import Cost, Costs, DurationTotals
from orchestrator.core.jobs.lifecycle import State, ended, unfinished
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transitions.execution_writes import Place
from orchestrator.views.costs import CostView

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
    """What it will have spent once it is over: as many executions a job as so far."""


def run_costs(run: Run, executed: Mapping[Place, DurationTotals], counts: Mapping[str, int]) -> RunCosts:
    """What `run` costs; `executed` has the executions of the whole ledger, `counts` the run's jobs by their states."""
    own = DurationTotals.together(took for place, took in executed.items() if place[0] == run.id)
    outstanding = sum(counts.get(each.value, 0) for each in AT_SERVICE)
    price = run.settings.price
    if price is None:
        return RunCosts(own=own, outstanding=outstanding)
    like = DurationTotals.together(took for place, took in executed.items() if place[1] == run.endpoint_id)
    costs = Costs(price=price, took=own, like=like, longest_ms=run.settings.policy.timeout_ms)
    over = ended(counts)
    each_job = max(1.0, own.ended / over) if over else 1.0
    to_come = math.ceil(unfinished(counts) * each_job)
    return RunCosts(
        own=own,
        outstanding=outstanding,
        spent=_view(costs.spent),
        expected=_view(costs.expected(outstanding)),
        at_end=_view(costs.spent + costs.expected(to_come)),
    )


async def spent_by_run(ledger: Ledger, runs: Collection[int]) -> Mapping[int, CostView]:
    """What each of these runs has spent, where its price is known."""
    priced = [run for run in await ledger.runs.all(runs) if run.settings.price is not None]
    if not priced:
        return {}
    executed = await ledger.jobs.brakes.executed()
    spent = {run.id: run_costs(run, executed, {}).spent for run in priced}
    return {run: cost for run, cost in spent.items() if cost is not None}


def costs_together(amounts: Sequence[CostView]) -> CostView | None:
    """Their sum; None of none."""
    if not amounts:
        return None
    whole = sum((Cost(each.amount, each.error) for each in amounts), Cost(0.0))
    return CostView(amount=whole.amount, error=whole.error)


def _view(cost: Cost) -> CostView:
    return CostView(amount=cost.amount, error=cost.error)
