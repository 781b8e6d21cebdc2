"""What went through flows, and what it cost: of several flows by a few questions."""

from collections.abc import Iterable, Mapping, Sequence

from orchestrator.api.runs.run_costs import costs_together, spent_by_run
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.pipeline import INPUT
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow, StageRow
from orchestrator.settings.command_names import with_its_ledger
from orchestrator.units import SECOND_US
from orchestrator.views.pages.pipelines import FlowResult


async def flow_results(ledger: Ledger, flows: Sequence[Flow]) -> Mapping[int, FlowResult]:
    """Of each of these, by their numbers."""
    stages = latest_stages(await ledger.flows.stages([flow.id for flow in flows]))
    definitions = await ledger.flows.pipelines.definitions(flow.definition for flow in flows)
    numbers = [stage.run for stage in stages if stage.run is not None]
    counts = await ledger.runs.counts_by_run(numbers)
    spent = await spent_by_run(ledger, numbers)
    now, found = ledger.now(), {}
    for flow in flows:
        first = {stage.name for stage in definitions[flow.definition].stages if INPUT in stage.from_}
        runs = {stage.run: stage.stage for stage in stages if stage.flow == flow.id and stage.run is not None}
        jobs = {run: counts.get(run, {}) for run in runs}
        costs = [spent[run] for run in runs if run in spent]
        found[flow.id] = FlowResult(
            flow=flow.id,
            name=flow.name,
            state=flow.state,
            why=with_its_ledger(flow.why, ledger.address),
            fire_at=flow.fire_at,
            ended_at=flow.ended_at,
            took_s=None if flow.started_at is None else max(0, (flow.ended_at or now) - flow.started_at) / SECOND_US,
            rows=sum(_number(jobs[run], State) for run, stage in runs.items() if stage in first),
            failed=sum(_number(jobs[run], (State.FAILED, State.CANCELLED)) for run in runs),
            spent=costs_together(costs),
        )
    return found


def _number(counts: Mapping[str, int], states: Iterable[State]) -> int:
    return sum(counts.get(state, 0) for state in states)


def latest_stages(stages: Sequence[StageRow]) -> list[StageRow]:
    """Of each stage what was begun last."""
    return list({(stage.flow, stage.stage): stage for stage in stages}.values())
