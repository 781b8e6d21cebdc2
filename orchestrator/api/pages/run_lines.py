"""Runs in a list: each as one line, and the stages of a flow folded under the line of their flow."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from orchestrator.api.inspect.status import runs_now
from orchestrator.api.runs.run_costs import costs_of, costs_together, executions_of
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.ledger import Ledger
from orchestrator.ledger.reports.run_list import FlowOfRun
from orchestrator.units import SECOND_US
from orchestrator.views.costs import CostView
from orchestrator.views.runs.run_lines import RunLine
from orchestrator.views.status import RunStatus

FLOW_MARKS: Final[Mapping[FlowState, str]] = {
    FlowState.WAITING: "queued",
    FlowState.RUNNING: "running",
    FlowState.ON_HOLD: "held",
    FlowState.SUCCEEDED: "succeeded",
    FlowState.PARTIAL: "partial",
    FlowState.FAILED: "failed",
    FlowState.CANCELLED: "cancelled",
}
"""The word by which each has its sign and its colour."""


async def run_lines(ledger: Ledger, held_by: str | None, *, among: Collection[int]) -> tuple[RunLine, ...]:
    """These runs, newest first, with every stage of the flows that they are parts of; `held_by` says who works on the
    ledger.
    """
    now = ledger.now()
    parts = await ledger.reports.run_list.flows_of(among)
    stages = await ledger.flows.stages({each.flow for each in parts.values()}) if parts else []
    latest = {(each.flow, each.stage): each.run for each in stages if each.run is not None}
    numbers = {*among, *latest.values()}
    parts |= await ledger.reports.run_list.flows_of(latest.values())
    lines = await _lines(ledger, held_by, numbers, parts, now)
    single = [line for number, line in lines.items() if number not in parts]
    flows = [
        _flow_line(part, [lines[run] for (flow, _), run in latest.items() if flow == part.flow and run in lines], now)
        for part in {part.flow: part for part in parts.values()}.values()
    ]
    return tuple(sorted((*single, *flows), key=_place, reverse=True))


def _place(line: RunLine) -> int:
    return line.run or max((stage.run or 0 for stage in line.stages), default=0)


async def _lines(
    ledger: Ledger, held_by: str | None, numbers: Collection[int], parts: Mapping[int, FlowOfRun], now: int
) -> dict[int, RunLine]:
    ended = await ledger.reports.run_list.ended_at(numbers)
    runs = {run.id: run for run in await ledger.runs.all(numbers)}
    executions = await executions_of(ledger, runs.values())
    found: dict[int, RunLine] = {}
    for status in await runs_now(ledger, held_by, among=numbers, is_counted=False):
        if status.id in runs:
            spent = costs_of(runs[status.id], status.jobs, executions).spent
            found[status.id] = _line(status, parts.get(status.id), spent, ended.get(status.id), now)
    return found


def _line(status: RunStatus, part: FlowOfRun | None, spent: CostView | None, ended_at: int | None, now: int) -> RunLine:
    verdict = status.verdict
    assert verdict is not None
    end = ended_at if verdict.is_over else None
    return RunLine(
        name=status.run,
        run=status.id,
        flow=None if part is None else part.flow,
        stage=None if part is None else part.stage,
        pipeline=None if part is None else part.pipeline_name,
        standing=verdict.standing,
        mark=verdict.mark,
        sentence=verdict.sentence,
        total=verdict.total,
        done=verdict.done,
        failed=verdict.failed,
        jobs_per_s=status.jobs_per_s if verdict.left else None,
        eta_at=verdict.eta_at,
        spent=spent,
        safe_offline_s=status.safe_offline_s,
        began_at=status.created_at,
        ended_at=end,
        took_s=max(0, (end or now) - status.created_at) / SECOND_US,
    )


def _flow_line(part: FlowOfRun, stages: Sequence[RunLine], now: int) -> RunLine:
    rates = [stage.jobs_per_s for stage in stages if stage.jobs_per_s is not None]
    spent = [stage.spent for stage in stages if stage.spent is not None]
    safe_s = (stage.safe_offline_s for stage in stages if stage.safe_offline_s is not None)
    return RunLine(
        name=part.name,
        run=None,
        flow=part.flow,
        pipeline=part.pipeline_name,
        standing=part.state,
        mark=FLOW_MARKS[part.state],
        sentence=part.why,
        total=sum(stage.total for stage in stages),
        done=sum(stage.done for stage in stages),
        failed=sum(stage.failed for stage in stages),
        jobs_per_s=sum(rates) if rates else None,
        spent=costs_together(spent),
        safe_offline_s=min(safe_s, default=None),
        began_at=part.recorded_at,
        ended_at=part.ended_at,
        took_s=max(0, (part.ended_at or now) - part.recorded_at) / SECOND_US,
        stages=tuple(stages),
    )
