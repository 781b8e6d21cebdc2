"""Backfills that have not ended: each as one line, however many flows it has made."""

from collections.abc import Mapping
from typing import Final

import msgspec

from orchestrator.api.flows.flows import looking_at, pipeline_named
from orchestrator.api.inspect.run_rates import rate_of_all
from orchestrator.api.inspect.status import runs_now
from orchestrator.api.runs.run_costs import costs_together, spent_by_run
from orchestrator.core.jobs.lifecycle import ended, unfinished
from orchestrator.core.pipelines.flow_lifecycle import BEGUN, ENDED, FlowKind, FlowState
from orchestrator.core.pipelines.overlap_policy import BackfillPace, backfill_left_us
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import Ledger
from orchestrator.ledger.overviews.flow_summaries import BackfilledFlows
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.views.pages.pipelines import BackfillLine

LINES_MAX: Final = 30

RUNS_COUNTED: Final = 500
"""To add up what more runs than these have done and spent would take too long for each look."""


async def backfills_list(
    ledger: LedgerAddress, pipeline: str | None = None, dependencies: Dependencies | None = None
) -> list[BackfillLine]:
    """Those of all pipelines, or of that one. Raises `UsageError` where there is no ledger, or no such pipeline."""
    async with looking_at(ledger, dependencies) as opened:
        of = None if pipeline is None else (await pipeline_named(opened, pipeline)).id
        return await backfill_lines(opened, await opened.holder_or_next(), pipeline=of)


async def backfill_lines(
    ledger: Ledger,
    held_by: str | None,
    *,
    pipeline: int | None = None,
    asked_at: int | None = None,
    runs_max: int = RUNS_COUNTED,
) -> list[BackfillLine]:
    """Those of all pipelines, or of the one of that number, and of these all, or the one that was `asked_at` that time;
    `held_by` says who works on the ledger. What more than `runs_max` runs have done and spent is left out.
    """
    asked = dict.fromkeys(
        (each.pipeline, each.recorded_at)
        for each in await ledger.overviews.flows.live()
        if each.kind is FlowKind.BACKFILL and pipeline in (None, each.pipeline) and asked_at in (None, each.recorded_at)
    )
    if not asked:
        return []
    names = {each.id: each.name for each in await ledger.flows.pipelines.all()}
    found = []
    for of, at in list(asked)[:LINES_MAX]:
        line = await _line(ledger, held_by, names[of], of, at)
        runs = await ledger.overviews.flows.runs_of_backfill(of, at, runs_max + 1)
        found.append(line if len(runs) > runs_max else await _with_runs(ledger, held_by, line, runs))
    return found


async def _line(ledger: Ledger, held_by: str | None, name: str, pipeline: int, asked_at: int) -> BackfillLine:
    now = ledger.now()
    states = await ledger.overviews.flows.backfill(pipeline, asked_at, now=now)
    numbers = {each.state: each.number for each in states}
    on_hold, running = numbers.get(FlowState.ON_HOLD, 0), numbers.get(FlowState.RUNNING, 0)
    left_us = backfill_left_us(_pace(states)) if held_by and not on_hold else None
    return BackfillLine(
        pipeline=pipeline,
        name=name,
        standing="held" if on_hold else "running" if running else "waiting",
        asked_at=asked_at,
        flows=sum(numbers.values()),
        ended=sum(number for state, number in numbers.items() if state in ENDED),
        failed=numbers.get(FlowState.FAILED, 0) + numbers.get(FlowState.PARTIAL, 0),
        running=running,
        waiting=numbers.get(FlowState.WAITING, 0),
        on_hold=on_hold,
        eta_at=None if left_us is None else now + left_us,
    )


def _pace(states: list[BackfilledFlows]) -> BackfillPace:
    over, begun = ([each for each in states if each.state in of] for of in (ENDED - {FlowState.CANCELLED}, BEGUN))
    return BackfillPace(
        parallel=max(each.parallel for each in states),
        waiting=sum(each.number for each in states if each.state is FlowState.WAITING),
        begun=sum(each.number for each in begun),
        begun_us=sum(each.took_us for each in begun),
        ended=sum(each.number for each in over),
        ended_us=sum(each.took_us for each in over),
    )


async def _with_runs(ledger: Ledger, held_by: str | None, line: BackfillLine, runs: list[int]) -> BackfillLine:
    counts: Mapping[int, Mapping[str, int]] = await ledger.runs.counts_by_run(runs)
    under_way = [run for run, jobs in counts.items() if unfinished(jobs)]
    seen = await runs_now(ledger, held_by, among=under_way, is_counted=False) if under_way else []
    done = sum(map(ended, counts.values()))
    return msgspec.structs.replace(
        line,
        total=done + sum(map(unfinished, counts.values())),
        done=done,
        jobs_per_s=await rate_of_all(ledger, await ledger.runs.all(runs), counts, ledger.now()) if held_by else None,
        spent=costs_together(list((await spent_by_run(ledger, runs)).values())),
        safe_offline_s=min((run.safe_offline_s for run in seen if run.safe_offline_s is not None), default=None),
    )
