"""How a run stands, in numbers: for the summary and the progress display."""

from collections.abc import Iterable, Mapping

import msgspec

from orchestrator.api.foreground.pod_check import pods_ended
from orchestrator.api.inspect.safe_offline import safe_offline_s
from orchestrator.api.outcomes.retried_failures import KINDS_SHOWN, largest_retried
from orchestrator.api.runs.counts import figures_of
from orchestrator.api.runs.run_costs import members_by_run
from orchestrator.core.diagnosis.failed_executions import FailureKind
from orchestrator.core.jobs.job import Unsaved
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.run_counters import FAILED_EXECUTIONS, PAID_TWICE, RETRIED_EXECUTIONS
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.text.error_text import summary_of
from orchestrator.engine.observers.served_run import THROTTLED, ServedRun
from orchestrator.engine.runtime.progress import Progress
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.margins import Margins
from orchestrator.ledger.runs.heartbeats import MeterReading, RunReport
from orchestrator.ledger.runs.runs import Run
from orchestrator.units import SECOND_US
from orchestrator.views.status import CollectedBy, Snapshot, Summary

_NOTHING_SENT = MeterReading(endpoint_id=0, operation=Operation.RUN, used=0, allowance=0, throttled=0)


async def ledger_summary(
    ledger: Ledger,
    standing: ServedRun,
    *,
    wall_s: float,
    interrupted: bool,
    is_beside: bool = False,
    goes_on: bool = False,
) -> Summary:
    """The summary of a run by the ledger, and by what the process that served it sent. It took `wall_s` seconds.
    `is_beside`: another process served it, which has its pods to end. `goes_on`: another one collects what is at the
    service.
    """
    run = standing.run
    if is_beside and not interrupted:
        await pods_ended(ledger, run)
    counts = await ledger.runs.counts(run=run.id)
    margins = await ledger.jobs.margins.of(run=run.id)
    safe_s = None if goes_on else await safe_offline_s(ledger, run, counts, retention_us=standing.retention_us)
    summary = _summary_of(counts, margins, standing, safe_offline_s=safe_s, wall_s=wall_s, interrupted=interrupted)
    said = {each.endpoint: each for each in standing.of_run.members}
    members = [
        msgspec.structs.replace(each, state=before.state, why=before.why, jobs_per_s=before.jobs_per_s)
        if (before := said.get(each.endpoint)) is not None
        else each
        for each in (await members_by_run(ledger, [run])).get(run.id, ())
    ]
    return await _with_failures(ledger, run, msgspec.structs.replace(summary, members=tuple(members)))


def heard_summary(standing: ServedRun, *, safe_s: float | None, wall_s: float, interrupted: bool) -> Summary:
    """The same by what was heard of the run, where its ledger cannot be read any more."""
    heard = standing.progress
    margins = Margins(min=heard.margin_min_s)
    return _summary_of(heard.tallied, margins, standing, safe_offline_s=safe_s, wall_s=wall_s, interrupted=interrupted)


def _summary_of(
    counts: Mapping[str, int],
    margins: Margins,
    standing: ServedRun,
    *,
    safe_offline_s: float | None,
    wall_s: float,
    interrupted: bool,
) -> Summary:
    sent = dict(standing.sent)
    throttled = sent.pop(THROTTLED, 0)
    return Summary(
        run=standing.run.name,
        **figures_of(counts, margins),
        requests=sent,
        throttled=throttled,
        stuck=standing.of_run.stuck,
        members=standing.of_run.members,
        safe_offline_s=safe_offline_s,
        wall_s=round(wall_s, 3),
        interrupted=interrupted,
    )


async def _with_failures(ledger: Ledger, run: Run, summary: Summary) -> Summary:
    """`summary` of `run`, with the kinds of failures that there are, and of executions that were tried again."""
    summary = msgspec.structs.replace(summary, all_empty=await ledger.jobs.results.are_all_empty(run.id))
    if summary.failed_executions:
        summary = msgspec.structs.replace(summary, largest_retried=await largest_retried(ledger, run))
    if not any(summary.jobs[state.value] for state in (State.FAILED, State.CANCELLED)):
        return summary
    kinds, _ = await ledger.reports.job_queries.clustered(run.id)
    largest = [
        FailureKind(count=each.n, class_=each.trouble or "", sample=summary_of(each.message or ""))
        for each in await ledger.reports.job_queries.clusters(run.id, most=KINDS_SHOWN)
    ]
    return msgspec.structs.replace(summary, failure_kinds=kinds, largest_failures=tuple(largest))


def snapshot_of(standing: ServedRun, *, rows_read: int | None, wall_s: float) -> Snapshot:
    """How a run stands. `rows_read` is None unless its input is being read."""
    progress, said = standing.progress, standing.report  # of all runs, so it is asked for once
    now = progress.clock.now()
    of_run = said.of(standing.run.id)
    is_run = (standing.run.via.operation, standing.run.endpoint_id)
    meter = next((each for each in said.meters if (each.operation, each.endpoint_id) == is_run), _NOTHING_SENT)
    used, allowed = of_run.window or (meter.used, meter.allowance)
    hold, collecting = standing.blocked_in(of_run), of_run.collecting
    waits = hold is not None and progress.count(State.QUEUED.value) > 0
    return Snapshot(
        run=standing.run.name,
        reading=rows_read is not None,
        rows_read=rows_read or 0,
        counts=progress.counts,
        jobs_per_s=progress.jobs_per_s(),
        eta_s=_eta_s(progress, of_run, now) if of_run.crawl_s is not None or not waits else None,
        sent=meter.sent,
        window_used=used,
        window_allowed=allowed,
        window_s=meter.window_s,
        throttled=sum(each.throttled for each in said.meters),
        queue_full=meter.queue_full,
        gate=None if hold is None else hold.gate,
        why_blocked=None if hold is None else hold.sentence,
        finding=of_run.finding,
        unreachable_s=None if of_run.unreachable_since is None else (now - of_run.unreachable_since) / SECOND_US,
        line_bytes_per_s=of_run.line_bytes_per_s,
        were_uncertain=progress.count("uncertain_seen"),
        paid_twice=progress.count(PAID_TWICE),
        unsaved=sum(progress.count(why.value) for why in Unsaved),
        failed_executions=progress.count(FAILED_EXECUTIONS),
        retried_executions=progress.count(RETRIED_EXECUTIONS),
        stuck=of_run.stuck,
        janitor=said.janitor,
        margin_min_s=progress.margin_min_s,
        safe_offline_s=soonest_s(said.runs.values(), now),
        members=of_run.members,
        batches=of_run.batches,
        batches_stand=of_run.batches_stand(now),
        workers=of_run.workers,
        webhooks_fail=collecting is not None and collecting.by is CollectedBy.POLLING_INSTEAD,
        wall_s=wall_s,
    )


def _eta_s(progress: Progress, said: RunReport, now: int) -> float | None:
    """When a run is finished, at its rate or at that of single ones; or at that of its batches, where it has any."""
    if (batches := said.outlook) is not None:
        eta_at = batches.eta_at(progress.count(State.QUEUED.value))
        return None if eta_at is None else max(0, eta_at - now) / SECOND_US
    return progress.unfinished * said.crawl_s if said.crawl_s else progress.eta_s()


def soonest_s(runs: Iterable[RunReport], now: int) -> float | None:
    """For how many seconds no result of any of `runs` can expire if nobody collects; None where none can."""
    until = [each.collecting.safe_until for each in runs if each.collecting is not None]
    known = [at for at in until if at is not None]
    return max(0, min(known) - now) / SECOND_US if known else None
