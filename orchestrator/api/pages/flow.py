"""One flow: its stages in time, what people are told of it, and the way of a row through it."""

from collections.abc import Mapping

import msgspec

from orchestrator.api.flows.backfills import backfill_lines
from orchestrator.api.flows.flows import flow_of_runs, stage_runs
from orchestrator.api.flows.lineage import RowOfFlow, lineage_of
from orchestrator.api.pages.flow_results import flow_results
from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.core.text.wording import counted
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow, StageRow
from orchestrator.views.flows import StageStatus
from orchestrator.views.pages.flow_page import FlowPage, KinRow, StageLine
from orchestrator.views.series import TimeBar
from orchestrator.views.status import RunStatus


async def flow_page(ledger: Ledger, held_by: str | None, number: int, row: str | None) -> FlowPage | None:
    """The flow of that number, with the way of the rows whose custom_id is `row`; None where there is no such flow."""
    flow = await ledger.overviews.flows.numbered(number)
    if flow is None:
        return None
    rows = await ledger.flows.stages([number])
    runs = await stage_runs(ledger, held_by, rows)
    shown = await flow_of_runs(ledger, flow, rows, runs)
    ended = await ledger.reports.run_list.ended_at(runs)
    stages = [_stage(status, each, runs, ended) for status, each in zip(shown.stages, rows, strict=True)]
    definitions = await ledger.flows.pipelines.definitions([flow.definition])
    names = [stage.name for stage in definitions[flow.definition].stages]
    backfills = []
    if flow.kind is FlowKind.BACKFILL:
        backfills = await backfill_lines(ledger, held_by, pipeline=flow.pipeline, asked_at=flow.recorded_at)
    page = FlowPage(
        flow=shown.flow,
        number=number,
        pipeline_number=flow.pipeline,
        version=shown.version,
        latest_version=next(iter(await ledger.overviews.flows.versions(flow.pipeline, 1))).version,
        result=(await flow_results(ledger, [flow]))[number],
        stages=tuple(stages),
        awaits=shown.awaits,
        to_come=tuple(name for name in names if name not in {stage.stage for stage in stages}),
        bars=tuple(bar for name in names for bar in _bars(name, stages)),
        messages=shown.notifications,
        backfill=next(iter(backfills), None),
        row=row,
    )
    return page if row is None else await _with_kin(ledger, flow, page, row, {each.stage: each.run for each in rows})


def _stage(status: StageStatus, row: StageRow, runs: Mapping[int, RunStatus], ended: Mapping[int, int]) -> StageLine:
    run = runs.get(row.run or 0)
    verdict = None if run is None else run.verdict
    is_over = verdict is not None and verdict.is_over
    return StageLine(
        **{name: getattr(status, name) for name in StageStatus.__struct_fields__},
        run_number=None if run is None else row.run,
        standing="deleted" if verdict is None else verdict.standing,
        began_at=row.began_at,
        ended_at=ended.get(row.run or 0, row.began_at) if is_over else None,
        again=row.again,
    )


def _bars(name: str, stages: list[StageLine]) -> list[TimeBar]:
    found = [
        TimeBar(
            name=name if stage.again == 1 else f"{name}, time {stage.again}",
            since=stage.began_at,
            until=stage.ended_at,
            state=stage.standing,
            text=_came_to(stage),
        )
        for stage in stages
        if stage.stage == name
    ]
    return found or [TimeBar(name=name, since=None, until=None, state="waiting")]


def _came_to(stage: StageLine) -> str:
    told = [counted(stage.rows_in, "row"), f"{stage.done:,} done"]
    told += [f"{stage.failed:,} failed"] if stage.failed else []
    told += [f"{stage.reused:,} reused"] if stage.reused else []
    return ", ".join(told)


async def _with_kin(ledger: Ledger, flow: Flow, page: FlowPage, row: str, runs: Mapping[str, int | None]) -> FlowPage:
    try:
        found = await lineage_of(ledger, flow, row)
    except UsageError as error:
        return msgspec.structs.replace(page, row_problem=str(error))
    kin = tuple(_kin(each, runs.get(each.stage)) for each in found.rows)
    return msgspec.structs.replace(page, kin=kin, is_all_kin=found.is_all)


def _kin(row: RowOfFlow, run: int | None) -> KinRow:
    return KinRow(
        stage=row.stage,
        custom_id=row.custom_id,
        state=row.state,
        class_=row.class_,
        run_number=run,
        made_of=row.made_of,
        of_others=row.of_others,
        reused=None if row.reused is None else f"{row.reused.custom_id} of {row.reused.run}",
        not_reused=row.not_reused,
        became=row.became,
    )
