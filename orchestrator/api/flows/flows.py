"""Flows: which there are and how they stand, those that somebody asks for, and what is asked of them."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec

from orchestrator.api.flows.flow_input import awaited_input
from orchestrator.api.inspect.status import runs_now
from orchestrator.api.runs.process_commands import ask_process
from orchestrator.api.runs.run_lookup import ambiguous_name, unknown_name
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.result_reuse import REUSED
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.pipelines.pipeline import Pipeline
from orchestrator.core.pipelines.schedule_calendar import instant_of
from orchestrator.core.text.name_match import meant_by
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.flows.flow_rows import Flow, StageRow
from orchestrator.ledger.flows.outbox import Notification
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_names import with_its_ledger
from orchestrator.units import SECOND_US
from orchestrator.views.flows import FlowShown, FlowStatus, NotificationStatus, StageStatus
from orchestrator.views.status import RunStatus

# --- what there is


async def flows_list(
    ledger: LedgerAddress,
    pipeline: str | None = None,
    states: Sequence[FlowState] = (),
    most: int | None = None,
    dependencies: Dependencies | None = None,
) -> list[FlowStatus]:
    """The latest flows, newest fires first. Raises `UsageError` where there is no ledger, or no such pipeline."""
    async with looking_at(ledger, dependencies) as opened:
        of = None if pipeline is None else (await pipeline_named(opened, pipeline)).id
        return [status_of(flow, opened.address) for flow in await opened.flows.latest(most, pipeline=of, states=states)]


async def flow_called(ledger: LedgerAddress, name: str, dependencies: Dependencies | None = None) -> FlowStatus | None:
    """The flow of exactly that name, or None. Raises `UsageError` where there is no ledger."""
    async with looking_at(ledger, dependencies) as opened:
        flow = await opened.flows.named(name)
        return None if flow is None else status_of(flow, opened.address)


async def flow_show(ledger: LedgerAddress, name: str, dependencies: Dependencies | None = None) -> FlowShown:
    """A flow and its stages. Raises `UsageError` where there is none."""
    async with looking_at(ledger, dependencies) as opened:
        flow = await flow_named(opened, name)
        stages = await opened.flows.stages([flow.id])
        return await flow_of_runs(opened, flow, stages, await stage_runs(opened, await opened.holder_or_next(), stages))


async def stage_runs(ledger: Ledger, held_by: str | None, stages: Sequence[StageRow]) -> Mapping[int, RunStatus]:
    """How the runs of these stages stand, by their numbers."""
    numbers = [stage.run for stage in stages if stage.run is not None]
    return {run.id: run for run in await runs_now(ledger, held_by, among=numbers, is_counted=False)}


async def flow_of_runs(
    ledger: Ledger, flow: Flow, stages: Sequence[StageRow], now: Mapping[int, RunStatus]
) -> FlowShown:
    """A flow whose stages stand so."""
    counts = await ledger.runs.counts_by_run(now)
    definitions = await ledger.flows.pipelines.definitions([flow.definition])
    return FlowShown(
        flow=status_of(flow, ledger.address),
        version=await ledger.flows.pipelines.version(flow.definition),
        stages=tuple(
            _stage_status(stage, now.get(stage.run or 0), counts.get(stage.run or 0, {}), at=ledger.now())
            for stage in stages
        ),
        awaits=None if stages else awaited_input(flow, definitions[flow.definition]),
        notifications=tuple(map(_notification, await ledger.flows.outbox.of_flow(flow.id))),
    )


def looking_at(ledger: LedgerAddress, dependencies: Dependencies | None) -> AbstractAsyncContextManager[Ledger]:
    """The ledger, to be looked at. Raises `UsageError` where there is none."""
    given = dependencies or Dependencies()
    return read_ledger(ledger, clock=given.clock, connect=given.connect_to(ledger))


def status_of(flow: Flow, ledger: LedgerAddress) -> FlowStatus:
    """How it stands in `ledger`, for people."""
    return FlowStatus(
        name=flow.name,
        pipeline=flow.pipeline_name,
        state=flow.state,
        kind=flow.kind,
        fire_at=flow.fire_at,
        recorded_at=flow.recorded_at,
        started_at=flow.started_at,
        ended_at=flow.ended_at,
        why=with_its_ledger(flow.why, ledger),
        late=flow.is_late,
        braked=flow.is_braked,
    )


def _notification(told: Notification) -> NotificationStatus:
    return msgspec.convert(told, NotificationStatus, from_attributes=True)


def _stage_status(stage: StageRow, run: RunStatus | None, counts: Mapping[str, int], *, at: int) -> StageStatus:
    if run is None:
        return StageStatus(stage=stage.stage, run=None, source=stage.source, sha256=stage.sha256)
    jobs: Mapping[str, int] = run.jobs
    eta_at = None if run.verdict is None else run.verdict.eta_at
    return StageStatus(
        stage=stage.stage,
        run=run.run,
        source=stage.source,
        sha256=stage.sha256,
        rows_in=jobs["total"],
        waiting=jobs[State.QUEUED],
        outstanding=jobs[State.SUBMITTING] + jobs[State.UNCERTAIN] + jobs[State.OUTSTANDING],
        done=jobs[State.SUCCEEDED],
        failed=jobs[State.FAILED] + jobs[State.CANCELLED],
        reused=counts.get(REUSED, 0),
        jobs_per_s=run.jobs_per_s,
        eta_s=None if eta_at is None else max(0, eta_at - at) / SECOND_US,
        why_blocked=run.held_up,
    )


async def flow_named(ledger: Ledger, name: str) -> Flow:
    """The flow that `name`, or the beginning of it, means. Raises `UsageError`."""
    known = await ledger.flows.names()
    found = meant_by(name, known)
    if len(found) == 1 and (flow := await ledger.flows.named(found[0])) is not None:
        return flow
    raise (
        ambiguous_name("flow", name, ledger.address, found)
        if found
        else unknown_name("flow", name, ledger.address, known)
    )


async def pipeline_named(ledger: Ledger, name: str) -> Defined:
    """The pipeline of that name. Raises `UsageError`."""
    if (found := await ledger.flows.pipelines.named(name)) is not None:
        return found
    known = [each.name for each in await ledger.flows.pipelines.all()]
    raise unknown_name("pipeline", name, ledger.address, known)


# --- asked for


async def hand_over(ledger: Ledger) -> str | None:
    """Whoever works on the ledger carries out what is due; returns who that is."""
    if await ledger.holder() is None:
        return None
    return (await ask_process(ledger, Action.TICK)).by


def time_of(text: str, pipeline: Pipeline, flag: str) -> int:
    """The time that somebody has given with `flag`, in the zone of the pipeline's schedule. Raises `UsageError`."""
    zone = "UTC" if pipeline.schedule is None else pipeline.schedule.zone
    try:
        found = instant_of(text, zone)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
    if found % SECOND_US:
        raise UsageError(f"{flag}: {text}: a flow is named after a whole second")
    return found
