"""Schedules: how they stand, when they fire next, what has fired, and what is wrong with them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from orchestrator.api.flows.apply import stage_endpoints
from orchestrator.api.flows.flows import looking_at, pipeline_named, status_of
from orchestrator.api.inspect.status import UNTOLD_US
from orchestrator.core.pipelines.due_fires import COUNTED_MAX
from orchestrator.core.pipelines.flow_lifecycle import LIVE, FlowState
from orchestrator.core.pipelines.pipeline import when_it_fires
from orchestrator.core.pipelines.schedule_calendar import fires_between, next_fires
from orchestrator.core.text.local_time import local
from orchestrator.core.text.wording import counted
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import Ledger, holder
from orchestrator.ledger.flows.outbox import Notification
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.settings.command_names import with_its_ledger
from orchestrator.units import HOUR_US, MINUTE_US
from orchestrator.views.flows import ScheduleHistory, ScheduleStatus, ScheduleTrouble

OVERDUE_US: Final = 15 * MINUTE_US
"""A fire that nobody has recorded for so long means that nobody looks."""

MISSED_US: Final = 24 * HOUR_US
"""Fires that were found missed within this time are told."""


UNTOLD_MAX: Final = 1_000
"""So many notifications that nobody took are counted."""

_TOLD: Final = (FlowState.SUCCEEDED, FlowState.PARTIAL, FlowState.FAILED)
"""How flows end that say something of the next ones."""


async def schedules_list(ledger: Path, dependencies: Dependencies | None = None) -> list[ScheduleStatus]:
    """Every pipeline, in the order of their names. Raises `UsageError` where there is no ledger."""
    async with looking_at(ledger, dependencies) as opened:
        return await schedule_statuses(opened, await opened.flows.pipelines.all())


async def schedule_statuses(ledger: Ledger, pipelines: Sequence[Defined]) -> list[ScheduleStatus]:
    """How these pipelines stand, in this order."""
    now = ledger.now()
    states = Counter((flow.pipeline, flow.state) for flow in await ledger.flows.live())
    found = []
    for each in pipelines:
        last = await ledger.flows.latest(1, pipeline=each.id)
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
                last=status_of(last[0], ledger.path) if last else None,
            )
        )
    return found


def _next_at(each: Defined, now: int) -> int | None:
    if each.pipeline.schedule is None or each.watermark is None:
        return None
    return next(iter(next_fires(each.pipeline.schedule, max(now, each.watermark.at_us), 1)), None)


async def schedules_next(
    ledger: Path, name: str | None, number: int, dependencies: Dependencies | None = None
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
    ledger: Path, name: str, most: int, dependencies: Dependencies | None = None
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
    ledger: Path, name: str | None = None, dependencies: Dependencies | None = None
) -> list[ScheduleTrouble]:
    """What is late, missed or failing, or that nobody has looked; of one pipeline, or of all."""
    async with looking_at(ledger, dependencies) as opened:
        chosen = await opened.flows.pipelines.all() if name is None else [await pipeline_named(opened, name)]
        missed = await opened.flows.fires.missed_since(opened.now() - MISSED_US)
        held_by = holder(ledger)
        return [
            trouble for each in chosen for trouble in await _troubles(opened, each, missed.get(each.id, 0), held_by)
        ]


async def _troubles(ledger: Ledger, each: Defined, missed: int, held_by: str | None) -> list[ScheduleTrouble]:
    now = ledger.now()
    latest = await ledger.flows.latest(None, pipeline=each.id, states=sorted(LIVE))
    ended = await ledger.flows.latest(1, pipeline=each.id, states=_TOLD)
    texts: list[tuple[str, str]] = []
    schedule = each.pipeline.schedule
    texts += [("late", f"{flow.name} {why}") for flow in latest if (why := flow.why_late(schedule, now)) is not None]
    if missed:
        more = "at least " if missed >= COUNTED_MAX else ""
        texts.append(
            ("missed", f"{more}{counted(missed, 'fire')} missed; see: orchestrator schedules history {each.name}")
        )
    texts += [("failing", f"{flow.name} failed: {flow.why}") for flow in ended if flow.state is FlowState.FAILED]
    texts += [("failing", f"{flow.name} is held: {flow.why}") for flow in latest if flow.state is FlowState.ON_HOLD]
    untold = await ledger.flows.outbox.untold(each.id, UNTOLD_MAX, since=now - UNTOLD_US)
    texts += [("untold", text) for text in _untold(untold)]
    texts += _of_looking(each, now, held_by)
    return [
        ScheduleTrouble(pipeline=each.name, kind=kind, text=with_its_ledger(text, ledger.path)) for kind, text in texts
    ]


def _untold(told: Sequence[Notification]) -> Iterator[str]:
    """In a line: if one cannot be told, the others cannot, either."""
    if told:
        more = "at least " if len(told) == UNTOLD_MAX else ""
        yield f"{more}{counted(len(told), 'notification')} could not be sent: {told[0].problem}"


def _of_looking(each: Defined, now: int, held_by: str | None) -> Iterator[tuple[str, str]]:
    schedule, watermark = each.pipeline.schedule, each.watermark
    if schedule is None or watermark is None or watermark.is_paused(now):
        return
    unseen = fires_between(schedule, each.name, watermark.at_us, now - OVERDUE_US, 1)
    if unseen:
        who = f"{held_by} works on the ledger" if held_by else "nobody works on the ledger"
        text = (
            f"the fire of {local(unseen[0].at_us, schedule.zone)} is due, and nobody has looked: {who}; begin"
            " orchestrator serve, or have a timer begin orchestrator tick"
        )
        yield "unseen", text
