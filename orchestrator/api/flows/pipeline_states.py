"""What is wrong with pipelines, as facts: of all of them by a few questions, however many there are."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from orchestrator.api.inspect.status import UNTOLD_US
from orchestrator.core.diagnosis.need_facts import FlowTrouble, PipelineState
from orchestrator.core.pipelines.due_fires import is_set_back
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.pipelines.schedule_calendar import fires_between
from orchestrator.core.text.local_time import local
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.settings.command_names import with_its_ledger
from orchestrator.units import HOUR_US, MINUTE_US

OVERDUE_US: Final = 15 * MINUTE_US
"""A fire that nobody has recorded for so long means that nobody looks."""

MISSED_US: Final = 24 * HOUR_US
"""Fires that were found missed within this time are told."""

LIVE_MAX: Final = 500
"""So many flows that have begun, and so many that wait, are looked at: the oldest."""

SET_BACK: Final = (
    "the clock is over an hour behind the time of the last look: it was set back, or was ahead then; nothing fires"
    " until it has come on"
)


async def pipeline_states(ledger: Ledger, pipelines: Sequence[Defined]) -> list[PipelineState]:
    """What is wrong with each of these."""
    now, summaries = ledger.now(), ledger.overviews.flows
    live = _by_pipeline([*await summaries.begun(LIVE_MAX), *await summaries.waiting(LIVE_MAX)])
    ended, missed = await summaries.ended(), await summaries.missed(now - MISSED_US)
    untold = await summaries.untold(now - UNTOLD_US)
    found = []
    for each in pipelines:
        flows, last = live.get(each.id, ()), ended.get(each.id)
        unseen, unseen_since = _unseen(each, now)
        late = sorted(_late(each, flows, now), key=lambda flow: flow.since or 0)
        skipped, owed = missed.get(each.id), untold.get(each.id)
        is_paused = each.watermark is not None and each.watermark.is_paused(now)
        found.append(
            PipelineState(
                number=each.id,
                name=each.name,
                is_scheduled=each.watermark is not None,
                paused_note=each.note if is_paused else None,
                on_hold=[_trouble(flow, None, ledger) for flow in flows if flow.state is FlowState.ON_HOLD],
                late=late,
                failing=_trouble(last, last.ended_at, ledger) if last and last.state is FlowState.FAILED else None,
                missed=0 if skipped is None else skipped.number,
                missed_since=None if skipped is None else skipped.since,
                unseen=unseen,
                unseen_since=unseen_since,
                untold=0 if owed is None else owed.number,
                untold_since=None if owed is None else owed.since,
                untold_problem="" if owed is None else owed.problem,
            )
        )
    return found


def _by_pipeline(flows: Iterable[Flow]) -> Mapping[int, Sequence[Flow]]:
    found = defaultdict(list)
    for flow in flows:
        found[flow.pipeline].append(flow)
    return found


def _late(each: Defined, flows: Sequence[Flow], now: int) -> Iterable[FlowTrouble]:
    schedule = each.pipeline.schedule
    for flow in flows:
        if (why := flow.why_late(schedule, now)) is not None:
            yield FlowTrouble(number=flow.id, name=flow.name, why=why, since=flow.late_at(schedule))


def _trouble(flow: Flow, since: int | None, ledger: Ledger) -> FlowTrouble:
    return FlowTrouble(number=flow.id, name=flow.name, why=with_its_ledger(flow.why, ledger.address), since=since)


def _unseen(each: Defined, now: int) -> tuple[str, int | None]:
    """What is due of a schedule, and nobody has looked; and since when."""
    schedule, watermark = each.pipeline.schedule, each.watermark
    if schedule is None or watermark is None or watermark.is_paused(now):
        return "", None
    if is_set_back(watermark.at_us, now):
        return SET_BACK, None
    due = fires_between(schedule, each.name, watermark.at_us, now - OVERDUE_US, 1)
    if not due:
        return "", None
    return f"the fire of {local(due[0].at_us, schedule.zone)} is due, and nobody has looked", due[0].at_us
