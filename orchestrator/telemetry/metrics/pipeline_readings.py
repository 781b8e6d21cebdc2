"""What is said of pipelines, their flows and their schedules."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from orchestrator.core.pipelines.flow_lifecycle import ENDED, FlowState
from orchestrator.core.pipelines.pipeline import Schedule
from orchestrator.core.pipelines.schedule_calendar import next_fires
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.telemetry.metrics.labels import PIPELINES_MAX, ClosedLabel
from orchestrator.telemetry.metrics.readings import Readings
from orchestrator.units import SECOND_US

_FIRES_KEPT: Final = 1_000
"""So many schedules are not worked out again with each look."""


async def read_pipelines(ledger: Ledger, into: Readings) -> None:
    """Adds what the ledger says of its pipelines. Raises `StorageError`."""
    tallies = ledger.reports.tallies
    names = await tallies.pipelines()
    if not names:
        return
    label = ClosedLabel(names.values(), PIPELINES_MAX)
    defined = await ledger.flows.pipelines.all()
    flows, lasts = await tallies.flows(), await tallies.last_flows()
    late = _late(await ledger.flows.live(), defined, ledger.now())
    for number, name in names.items():
        pipeline = label(name)
        there, ended = flows.there.get(number, {}), flows.ended.get(number, {})
        for state in FlowState:
            into.add("flows", pipeline, state.value, value=there.get(state.value, 0))
        for state in sorted(ENDED):
            into.add("flow_ends_total", pipeline, state.value, value=ended.get(state.value, 0))
        into.add("fires_missed_total", pipeline, value=flows.missed.get(number, 0))
        into.add("flow_late", pipeline, value=late[number])
        if (last := lasts.get(number)) is None:
            continue
        into.latest("flow_last_success_timestamp_seconds", pipeline, value=_seconds(last.succeeded_at))
        if last.started_at is not None:
            took_s = max(0, last.ended_at - last.started_at) / SECOND_US
            into.latest("flow_last_duration_seconds", pipeline, value=took_s)
    for each in defined:
        _schedule(each, label(each.name), ledger.now(), into)


def _late(live: Sequence[Flow], defined: Sequence[Defined], now: int) -> Counter[int]:
    """By pipeline, how many of its flows are late."""
    schedules = {each.id: each.pipeline.schedule for each in defined}
    return Counter(flow.pipeline for flow in live if flow.why_late(schedules.get(flow.pipeline), now) is not None)


def _schedule(each: Defined, pipeline: str, now: int, into: Readings) -> None:
    schedule, watermark = each.pipeline.schedule, each.watermark
    if schedule is None or watermark is None:
        return
    is_paused = watermark.is_paused(now)
    into.add("schedule_paused", pipeline, value=int(is_paused))
    if not is_paused:
        at = _first_after(schedule, watermark.at_us)
        into.earliest("schedule_next_fire_timestamp_seconds", pipeline, value=_seconds(at))


@lru_cache(maxsize=_FIRES_KEPT)
def _first_after(schedule: Schedule, at: int) -> int | None:
    """The first fire that nobody has recorded: to work it out takes longer than all that is asked of a pipeline."""
    return next(iter(next_fires(schedule, at, 1)), None)


def _seconds(at: int | None) -> float | None:
    return None if at is None else at / SECOND_US
