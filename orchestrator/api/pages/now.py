"""What is the matter now: what needs a person, how pipelines stand, and what is not finished."""

from collections.abc import Sequence
from typing import Final

from orchestrator.api.flows.backfills import backfill_lines
from orchestrator.api.flows.pipeline_states import pipeline_states
from orchestrator.api.inspect.status import last_of
from orchestrator.api.pages.attention import need_line, needs_now
from orchestrator.api.pages.pipeline_lines import pipeline_lines
from orchestrator.api.pages.run_lines import FLOW_MARKS, run_lines
from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.ledger.reports.run_list import RunsWanted
from orchestrator.units import SECOND_US
from orchestrator.views.pages.now import NowPage
from orchestrator.views.runs.run_lines import RunLine

RUNS_SHOWN: Final = 30
"""Unfinished runs, or flows, on the first page."""

ENDED_SHOWN: Final = 5

FLOWS_MAX: Final = 200


async def now_page(ledger: Ledger, held_by: str | None) -> NowPage:
    """All of that; `held_by` says who works on the ledger."""
    states = await pipeline_states(ledger, await ledger.flows.pipelines.all())
    begun = await ledger.overviews.flows.begun(FLOWS_MAX)
    backfilled = {flow.id for flow in begun if flow.kind is FlowKind.BACKFILL}
    among = await ledger.reports.run_list.page(wanted=RunsWanted.OPEN, before=None, most=FLOWS_MAX)
    lines = [line for line in await run_lines(ledger, held_by, among=among) if line.flow not in backfilled]
    lines += _without_runs(ledger, begun, {line.flow for line in lines} | backfilled)
    return NowPage(
        needs=tuple(map(need_line, await needs_now(ledger, held_by, states))),
        pipelines=tuple(await pipeline_lines(ledger, states)),
        runs=tuple(lines[:RUNS_SHOWN]),
        backfills=tuple(await backfill_lines(ledger, held_by)),
        more_runs=max(0, len(lines) - RUNS_SHOWN),
        ended=() if lines or backfilled else await _ended(ledger, held_by),
        last_process=None if held_by else last_of(await ledger.runs.heartbeats.all()),
    )


async def _ended(ledger: Ledger, held_by: str | None) -> tuple[RunLine, ...]:
    """What ended last, for who looks when all is done."""
    newest = await ledger.reports.run_list.page(wanted=RunsWanted.ALL, before=None, most=ENDED_SHOWN)
    return await run_lines(ledger, held_by, among=newest)


def _without_runs(ledger: Ledger, begun: Sequence[Flow], shown: set[int | None]) -> list[RunLine]:
    """The flows that have begun and have no unfinished run: they wait for their input, or for a command."""
    now = ledger.now()
    return [
        RunLine(
            name=flow.name,
            run=None,
            flow=flow.id,
            pipeline=flow.pipeline_name,
            standing=flow.state,
            mark=FLOW_MARKS[flow.state],
            sentence=flow.why or "No job of it is open: it waits for its input, or a command of it runs.",
            total=0,
            done=0,
            failed=0,
            began_at=flow.recorded_at,
            took_s=max(0, now - flow.recorded_at) / SECOND_US,
        )
        for flow in begun
        if flow.id not in shown
    ]
