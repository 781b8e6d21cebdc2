"""Pipelines in lists: each with its last fires as signs, and what came of its last flow."""

from collections.abc import Mapping, Sequence
from typing import Final

from orchestrator.api.flows.pipeline_states import pipeline_states
from orchestrator.api.pages.flow_results import flow_results
from orchestrator.core.diagnosis.need_facts import PipelineState
from orchestrator.core.pipelines.due_fires import GapKind
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.pipelines.schedule_calendar import next_fires
from orchestrator.core.pipelines.schedule_words import schedule_in_words
from orchestrator.core.text.local_time import local
from orchestrator.core.text.wording import counted
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.ledger.overviews.flow_summaries import LiveFlows, PipelineGap, SkippedFire
from orchestrator.views.pages.pipelines import FlowResult, PipelineFire, PipelineLine

FIRES_SHOWN: Final = 14

WORST: Final = ("failed", "held", "missed", "late", "partial", "paused", "running", "waiting", "succeeded", "")
"""The order of pipelines: what needs a look first."""


async def pipeline_lines(ledger: Ledger, states: Sequence[PipelineState] | None = None) -> list[PipelineLine]:
    """Every pipeline, the worst first, then by their names; `states` say what is wrong with them, where somebody has
    asked that already.
    """
    defined = await ledger.flows.pipelines.all()
    if states is None:
        states = await pipeline_states(ledger, defined)
    summaries, now = ledger.overviews.flows, ledger.now()
    fires = fires_of(
        defined,
        await summaries.latest(FIRES_SHOWN),
        await summaries.skipped(FIRES_SHOWN),
        await summaries.gaps(FIRES_SHOWN),
        most=FIRES_SHOWN,
    )
    ended = await summaries.ended()
    results = await flow_results(ledger, list(ended.values()))
    live = await summaries.live()
    troubles = {state.number: state for state in states}
    last = {number: results[flow.id] for number, flow in ended.items()}
    lines = [pipeline_line(each, troubles[each.id], fires[each.id], live, last.get(each.id), now) for each in defined]
    return sorted(lines, key=lambda line: (WORST.index(line.standing), line.name))


def pipeline_line(
    each: Defined,
    state: PipelineState,
    fires: Sequence[PipelineFire],
    live: Sequence[LiveFlows],
    last: FlowResult | None,
    now: int,
) -> PipelineLine:
    """One of them."""
    schedule, watermark = each.pipeline.schedule, each.watermark
    numbers = {FlowState.WAITING: 0, FlowState.RUNNING: 0, FlowState.ON_HOLD: 0}
    for flows in live:
        if flows.pipeline == each.id:
            numbers[flows.state] += flows.number
    is_paused = watermark is not None and watermark.is_paused(now)
    return PipelineLine(
        pipeline=each.id,
        name=each.name,
        standing=_standing(state, numbers, last, is_paused=is_paused),
        schedule=schedule_in_words(None if watermark is None else schedule),
        crons=() if schedule is None else schedule.cron,
        zone="UTC" if schedule is None else schedule.zone,
        is_scheduled=watermark is not None,
        next_at=next(iter(next_of(each, now, 1)), None),
        paused_note=each.note if is_paused else None,
        paused_until=watermark.paused_until if watermark is not None and is_paused else None,
        fires=tuple(fires),
        last=last,
        waiting=numbers[FlowState.WAITING],
        running=numbers[FlowState.RUNNING],
        on_hold=numbers[FlowState.ON_HOLD],
        missed=state.missed,
        is_late=bool(state.late),
    )


def next_of(each: Defined, now: int, number: int) -> list[int]:
    """The next fires of a pipeline; none where it is paused, or fires no more."""
    schedule, watermark = each.pipeline.schedule, each.watermark
    if schedule is None or watermark is None or watermark.is_paused(now):
        return []
    return next_fires(schedule, max(now, watermark.at_us), number)


def _standing(
    state: PipelineState, numbers: Mapping[FlowState, int], last: FlowResult | None, *, is_paused: bool
) -> str:
    """The first of these that is so, in the order of `WORST`."""
    so = {
        "failed": state.failing is not None,
        "held": numbers[FlowState.ON_HOLD],
        "missed": state.missed or state.unseen,
        "late": state.late,
        "partial": last is not None and last.state == FlowState.PARTIAL,
        "paused": is_paused,
        "running": numbers[FlowState.RUNNING],
        "waiting": numbers[FlowState.WAITING],
        "succeeded": last is not None,
    }
    return next((word for word in WORST if so.get(word)), "")


# --- fires


def fires_of(
    defined: Sequence[Defined],
    flows: Sequence[Flow],
    skipped: Sequence[SkippedFire],
    gaps: Sequence[PipelineGap],
    *,
    most: int,
) -> Mapping[int, Sequence[PipelineFire]]:
    """The latest `most` fires of each pipeline, oldest first. Of what was asked for again the newest flow counts."""
    zones = {each.id: _zone(each) for each in defined}
    found: dict[int, dict[tuple[int, bool], PipelineFire]] = {each.id: {} for each in defined}
    for flow in sorted(flows, key=lambda flow: flow.again):
        if flow.pipeline in found:
            found[flow.pipeline][flow.fire_at, True] = _of_flow(flow, zones[flow.pipeline])
    for each in skipped:
        if each.pipeline in found:
            found[each.pipeline].setdefault((each.fire_at, True), _of_skipped(each, zones[each.pipeline]))
    for gap in gaps:
        if gap.pipeline in found:
            found[gap.pipeline][gap.first_at, False] = _of_gap(gap, zones[gap.pipeline])
    return {number: [fires[place] for place in sorted(fires)][-most:] for number, fires in found.items()}


def _zone(each: Defined) -> str:
    return "UTC" if each.pipeline.schedule is None else each.pipeline.schedule.zone


def _of_flow(flow: Flow, zone: str) -> PipelineFire:
    why = f": {flow.why}" if flow.why else ""
    return PipelineFire(
        state=flow.state,
        text=f"{local(flow.fire_at, zone)} {flow.state}{why}",
        href=f"/flows/{flow.id}",
        fire_at=flow.fire_at,
        flow=flow.id,
        name=flow.name,
        why=flow.why,
    )


def _of_skipped(fire: SkippedFire, zone: str) -> PipelineFire:
    text = f"{local(fire.fire_at, zone)} skipped: {fire.why}"
    return PipelineFire(state="skipped", text=text, fire_at=fire.fire_at, why=fire.why)


def _of_gap(gap: PipelineGap, zone: str) -> PipelineFire:
    missed = gap.kind is GapKind.MISSED
    what = "missed" if missed else "left out: the schedule was paused"
    return PipelineFire(
        state="missed" if missed else "paused",
        text=f"{local(gap.first_at, zone)} {counted(gap.n, 'fire')} {what}",
        href=f"/pipelines/{gap.pipeline}",
        fire_at=gap.first_at,
        fires=gap.n,
    )
