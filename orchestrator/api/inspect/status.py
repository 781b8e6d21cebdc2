"""How runs stand (`status`, `runs list`, `runs show`), looked up beside whoever works on them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.api.inspect.paid_pods import paid_pods
from orchestrator.api.inspect.run_facts import ledger_state, run_state
from orchestrator.api.inspect.run_rates import rates_of_late
from orchestrator.api.inspect.safe_offline import safe_by_run
from orchestrator.api.inspect.status_details import with_batches, with_members, with_posted, with_retried
from orchestrator.api.runs.counts import figures_of
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.core.diagnosis.causes import Cause, Finding
from orchestrator.core.diagnosis.facts import Facts
from orchestrator.core.diagnosis.rules import findings
from orchestrator.core.diagnosis.verdict import RunFigures, RunVerdict, verdict_on
from orchestrator.core.gates import gates
from orchestrator.core.jobs.lifecycle import State, unfinished
from orchestrator.ledger import Ledger, Owners, holder_of, read_ledger
from orchestrator.ledger.jobs.margins import Margins
from orchestrator.ledger.reports.run_summaries import RunSummaries
from orchestrator.ledger.runs.heartbeats import Heartbeat, ProcessReport, RunReport, at_work
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_names import with_its_ledger
from orchestrator.units import HOUR_US
from orchestrator.views.status import LastProcess, RunsShown, RunStatus

_TOLD_ANYHOW: Final = frozenset({Cause.RESULTS_EXPIRE, Cause.NO_PROCESS, Cause.PAUSED})
"""What the verdict on a run says by itself."""

UNTOLD_US: Final = 24 * HOUR_US
"""Notifications that were given up within this time are told."""


async def names(ledger: LedgerAddress) -> list[str]:
    """The names of the ledger's runs, oldest first. Raises `UsageError` where there is no ledger."""
    async with read_ledger(ledger) as opened:
        return await opened.runs.names()


async def status(ledger: LedgerAddress) -> list[RunStatus]:
    """Every run of the ledger, oldest first. Raises `UsageError` where there is no ledger."""
    async with read_ledger(ledger) as opened:
        return await runs_now(opened, await opened.holder_or_next())


async def latest(ledger: LedgerAddress, most: int | None) -> RunsShown:
    """The `most` runs that people look for: those that are not finished, then the newest; and how many more there are.
    None for all runs.

    Raises `UsageError` where there is no ledger.
    """
    async with read_ledger(ledger) as opened:
        held_by = await opened.holder_or_next()
        among = None if most is None else await opened.runs.most_wanted(most)
        runs = await runs_now(opened, held_by, among=among)
        number, jobs = await opened.runs.totals()
        left = {state: n - sum(run.jobs[state] for run in runs) for state, n in jobs.items()}
        last = None if held_by else last_of(await opened.runs.heartbeats.all())
        untold = await opened.flows.outbox.count_untold(opened.now() - UNTOLD_US)
        return RunsShown(
            runs=runs,
            more=number - len(runs),
            more_jobs=left,
            last_process=last,
            untold=untold,
            owed=await opened.flows.outbox.count_owed() + await opened.flows.run_outbox.count_owed(),
            owed_problem=await opened.flows.run_outbox.problem(),
            raised_workers=[each.shown for each in await opened.runs.scaling_overrides.all()],
            paid_pods=await paid_pods(opened),
        )


def last_of(beats: Sequence[Heartbeat]) -> LastProcess | None:
    """The process that was heard of last."""
    beat = max(beats, key=lambda each: each.beaten_at, default=None)
    if beat is None:
        return None
    return LastProcess(process=beat.process, since=beat.began_at, until=beat.beaten_at, why=beat.report.stopped)


async def show(ledger: LedgerAddress, name: str | None) -> RunStatus:
    """The run `name`, or the only one. Raises `UsageError` where there is none."""
    async with read_ledger(ledger) as opened:
        run = await run_named(opened, name)
        [found] = await runs_now(opened, await opened.holder_or_next(), among=[run.id])
        return found


async def worked_on_by(ledger: LedgerAddress) -> str | None:
    """Who works on `ledger`, as text for people; None where nobody does. Raises `StorageError`."""
    return await holder_of(ledger)


async def runs_now(
    ledger: Ledger, held_by: str | None, *, among: Collection[int] | None = None, is_counted: bool = True
) -> list[RunStatus]:
    """Every run of `ledger` as it stands, or those of these numbers, oldest first; `held_by` says who works on it.

    `is_counted`: see `retried_kinds`.
    """
    found = await _looked_at(ledger, held_by, among)
    found = await with_posted(ledger, await with_members(ledger, found))
    found = [(run, await with_batches(ledger, run, status)) for run, status in found]
    return [await with_retried(ledger, run, status, is_counted=is_counted) for run, status in found]


async def verdicts_now(ledger: Ledger, held_by: str | None, *, among: Collection[int]) -> Mapping[int, RunVerdict]:
    """How the runs of these numbers stand, in brief, without all that status tells besides."""
    found = await _looked_at(ledger, held_by, among)
    return {run.id: status.verdict for run, status in found if status.verdict is not None}


async def _looked_at(ledger: Ledger, held_by: str | None, among: Collection[int] | None) -> list[tuple[Run, RunStatus]]:
    now = ledger.now()
    seen, said, safe_s = await picture(ledger, held_by, among=among)
    rates = await rates_of_late(ledger, seen, now) if held_by else {}
    owners = await ledger.owners(held_by) if held_by else Owners()
    look = _Look(path=ledger.address, now=now, held_by=held_by, owners=owners, safe_s=safe_s, rates=rates)
    worked_on = await ledger_state(ledger, seen, held_by, now)

    def found_of(run: Run) -> tuple[Finding, ...]:
        if not unfinished(seen.counts.get(run.id, {})) and run.id not in seen.pending:
            return ()  # of ten thousand runs most are finished
        state = run_state(run, seen, said, safe_s.get(run.id), now)
        return findings(Facts(ledger=worked_on, runs=[state]))

    return [(run, _status(run, seen, said, found_of(run), look)) for run in seen.runs if run.accepted]


async def picture(
    ledger: Ledger, held_by: str | None, *, among: Collection[int] | None = None
) -> tuple[RunSummaries, ProcessReport, Mapping[int, float]]:
    """What the ledger says of its runs, or of those of these numbers, what the processes at work say together, and for
    how many seconds no result can expire, by run.
    """
    now = ledger.now()
    seen = await ledger.reports.overview(among=among)
    said = ProcessReport()
    if held_by:
        said = _together(at_work(seen.heartbeats, now, since=await ledger.taken_at() or 0))
    return seen, said, await safe_by_run(ledger, seen, said, now)


def _together(beats: Sequence[Heartbeat]) -> ProcessReport:
    """What these processes say together."""
    fresh = [beat.report for beat in beats]
    return ProcessReport(
        runs={run: each for said in fresh for run, each in said.runs.items()},
        meters=tuple(meter for said in fresh for meter in said.meters),
        webhook_url=next((said.webhook_url for said in fresh if said.webhook_url is not None), None),
    )


class _Look(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for all runs that are looked at, and what was found of them by number."""

    path: LedgerAddress
    now: int
    held_by: str | None
    owners: Owners
    safe_s: Mapping[int, float]
    rates: Mapping[int, float]


def _status(run: Run, seen: RunSummaries, present: ProcessReport, found: Sequence[Finding], look: _Look) -> RunStatus:
    counts = seen.counts.get(run.id, {})
    controls = seen.controls_of(run)
    held_by = look.owners.of(run.endpoint_id) if unfinished(counts) else look.held_by
    said = present.runs.get(run.id, RunReport())
    left = None if run.id in present.runs or not counts.get(State.QUEUED.value) else seen.brakes.get(run.id)
    hold = gates.requested_stop(cancelled=controls.cancel, paused=controls.pause) or said.blocked_by or left
    jobs_per_s, safe_offline_s = look.rates.get(run.id), look.safe_s.get(run.id)
    meters = [meter for meter in present.meters if meter.endpoint_id == run.endpoint_id]
    janitors = [beat.report.janitor for beat in seen.heartbeats if beat.report.janitor is not None]
    sending = next((meter for meter in meters if meter.operation is run.via.operation), None)
    used, allowed = said.window or ((None, None) if sending is None else (sending.used, sending.allowance))
    throttled = sum(meter.throttled for meter in meters) if meters else None
    kept = seen.brakes.get(run.id)
    is_braked = (
        hold is not None and kept is not None and kept.gate == hold.gate
    )  # a tripped breaker lets single ones go
    stop = hold if hold is not None and (hold.stops or is_braked) else None
    others = [each for each in found if each.cause not in _TOLD_ANYHOW] if stop is None else []
    figures = RunFigures(
        now=look.now,
        counts=counts,
        is_worked_on=held_by is not None,
        is_unserved=said.is_unserved,
        is_paused=controls.pause,
        is_cancelled=controls.cancel,
        stopped=None if stop is None else with_its_ledger(stop.why, look.path),
        are_singles_sent=stop is not None and not stop.stops,
        crawl_s=said.crawl_s,
        hindrance=said.finding or next((each.sentence for each in others), None),
        jobs_per_s=jobs_per_s,
        finish_by=run.settings.finish_by or None,
        safe_offline_s=safe_offline_s,
        batches=said.outlook,
    )
    return RunStatus(
        id=run.id,
        run=run.name,
        verdict=verdict_on(figures),
        endpoint=run.endpoint,
        service_url=run.service_url,
        source=run.source,
        **figures_of(counts, seen.margins.get(run.id, Margins())),
        created_at=run.created_at,
        safe_offline_s=safe_offline_s,
        collected_by=None if said.collecting is None else said.collecting.by,
        stuck=said.stuck,
        janitor=max(janitors, key=lambda each: each.at, default=None),
        paused=controls.pause,
        cancelled=controls.cancel,
        held_up=None if hold is None else with_its_ledger(hold.sentence, look.path),
        finding=said.finding or next((each.sentence for each in found), None),
        jobs_per_s=jobs_per_s or None,
        held_by=held_by,
        members=said.members,
        batches=said.batches,
        batches_stand=said.batches_stand(look.now),
        workers=said.workers,
        window_used=used,
        window_allowed=allowed,
        window_s=None if sending is None else sending.window_s,
        throttled=sum(each.throttled or 0 for each in said.members) if said.members else throttled,
    )
