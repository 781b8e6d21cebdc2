"""Schedules: how they stand, when they fire next, what has fired, and what is wrong with them."""

from collections import Counter
from collections.abc import Iterator, Sequence

from orchestrator.api.flows.flows import looking_at, pipeline_named, status_of
from orchestrator.api.flows.pipeline_states import pipeline_states
from orchestrator.api.flows.stage_settings import stage_endpoints
from orchestrator.core.diagnosis.need_facts import PipelineState
from orchestrator.core.pipelines.due_fires import COUNTED_MAX
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.pipelines.pipeline import when_it_fires
from orchestrator.core.pipelines.schedule_calendar import next_fires
from orchestrator.core.text.local_time import local
from orchestrator.core.text.wording import counted
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_names import with_its_ledger
from orchestrator.views.flows import ScheduleHistory, ScheduleStatus, ScheduleTrouble


async def schedules_list(ledger: LedgerAddress, dependencies: Dependencies | None = None) -> list[ScheduleStatus]:
    """Every pipeline, in the order of their names. Raises `UsageError` where there is no ledger."""
    async with looking_at(ledger, dependencies) as opened:
        return await schedule_statuses(opened, await opened.flows.pipelines.all())


async def schedule_statuses(ledger: Ledger, pipelines: Sequence[Defined]) -> list[ScheduleStatus]:
    """How these pipelines stand, in this order."""
    now = ledger.now()
    states: Counter[tuple[int, FlowState]] = Counter()
    for live in await ledger.overviews.flows.live():
        states[live.pipeline, live.state] += live.number
    latest = {flow.pipeline: flow for flow in await ledger.overviews.flows.latest(1)}
    found = []
    for each in pipelines:
        last = latest.get(each.id)
        schedule, watermark = each.pipeline.schedule, each.watermark
        is_paused = watermark is not None and watermark.is_paused(now)
        found.append(
            ScheduleStatus(
                name=each.name,
                version=each.version,
                fires=when_it_fires(None if watermark is None else schedule),
                zone="UTC" if schedule is None else schedule.zone,
                next_at=None if is_paused else _next_at(each, now),
                looked_until=watermark and watermark.at_us,
                paused_at=watermark.paused_at if watermark is not None and is_paused else None,
                paused_until=watermark.paused_until if watermark is not None and is_paused else None,
                note=each.note if is_paused else "",
                waiting=states[each.id, FlowState.WAITING],
                running=states[each.id, FlowState.RUNNING],
                on_hold=states[each.id, FlowState.ON_HOLD],
                endpoints=stage_endpoints(each.pipeline),
                last=None if last is None else status_of(last, ledger.address),
            )
        )
    return found


def _next_at(each: Defined, now: int) -> int | None:
    if each.pipeline.schedule is None or each.watermark is None:
        return None
    return next(iter(next_fires(each.pipeline.schedule, max(now, each.watermark.at_us), 1)), None)


async def schedules_next(
    ledger: LedgerAddress, name: str | None, number: int, dependencies: Dependencies | None = None
) -> list[tuple[str, int, str]]:
    """The next fires of a pipeline, or of all, the soonest first: pipeline, microseconds UTC, and its zone's time."""
    async with looking_at(ledger, dependencies) as opened:
        chosen = await opened.flows.pipelines.all() if name is None else [await pipeline_named(opened, name)]
        now = opened.now()
        found = [
            (fire, each.name, local(fire, each.pipeline.schedule.zone))
            for each in chosen
            if each.pipeline.schedule is not None and each.watermark is not None and not each.watermark.is_paused(now)
            for fire in next_fires(each.pipeline.schedule, max(now, each.watermark.at_us), number)
        ]
        return [(pipeline, fire, shown) for fire, pipeline, shown in sorted(found)[:number]]


async def schedules_history(
    ledger: LedgerAddress, name: str, most: int, dependencies: Dependencies | None = None
) -> list[ScheduleHistory]:
    """What fired and what did not, newest first."""
    async with looking_at(ledger, dependencies) as opened:
        pipeline = await pipeline_named(opened, name)
        zone = "UTC" if pipeline.pipeline.schedule is None else pipeline.pipeline.schedule.zone
        fires = [
            ScheduleHistory(
                fire_at=row.fire_at,
                what="skipped" if row.skipped is not None else row.state or "removed",
                flow=row.flow,
                why=with_its_ledger(row.skipped or row.why or "", ledger),
            )
            for row in await opened.flows.fires.latest(pipeline.id, most)
        ]
        gaps = [
            ScheduleHistory(
                fire_at=row.first_at,
                until_at=row.until_at,
                what=row.kind,
                fires=row.n,
                backfill=f"orchestrator backfill {name} --from {local(row.first_at, zone)}"
                f" --to {local(row.until_at, zone)}",
            )
            for row in await opened.flows.fires.gaps(pipeline.id, most)
        ]
        untold = [
            ScheduleHistory(
                fire_at=told.owed_at,
                what=f"{told.news} not told",
                flow=told.flow,
                why=f"{'given up' if told.given_up_at else 'tried again'}: {told.problem}",
            )
            for told in await opened.flows.outbox.untold(pipeline.id, most)
        ]
        return sorted((*fires, *gaps, *untold), key=lambda each: -each.fire_at)[:most]


# --- what is wrong


async def schedules_check(
    ledger: LedgerAddress, name: str | None = None, dependencies: Dependencies | None = None
) -> list[ScheduleTrouble]:
    """What is late, missed or failing, or that nobody has looked; of one pipeline, or of all."""
    async with looking_at(ledger, dependencies) as opened:
        chosen = await opened.flows.pipelines.all() if name is None else [await pipeline_named(opened, name)]
        held_by = await opened.holder_or_next()
        return [
            ScheduleTrouble(pipeline=state.name, kind=kind, text=with_its_ledger(text, ledger))
            for state in await pipeline_states(opened, chosen)
            for kind, text in _troubles(state, held_by)
        ]


def _troubles(state: PipelineState, held_by: str | None) -> Iterator[tuple[str, str]]:
    for flow in state.late:
        yield "late", f"{flow.name} {flow.why}"
    if state.missed:
        more = "at least " if state.missed >= COUNTED_MAX else ""
        fires = counted(state.missed, "fire")
        yield "missed", f"{more}{fires} missed; see: orchestrator schedules history {state.name}"
    if state.failing is not None:
        yield "failing", f"{state.failing.name} failed: {state.failing.why}"
    for flow in state.on_hold:
        yield "failing", f"{flow.name} is held: {flow.why}"
    if state.untold:  # in a line: if one cannot be told, the others cannot, either
        yield "untold", f"{counted(state.untold, 'notification')} could not be sent: {state.untold_problem}"
    if state.unseen:
        who = f"{held_by} works on the ledger" if held_by else "nobody works on the ledger"
        begin = "begin orchestrator serve, or have a timer begin orchestrator tick"
        yield "unseen", f"{state.unseen}: {who}; {begin}"
