"""The process at work and its ledger: who works, how it stands, and how it went of late."""

from collections.abc import Mapping, Sequence
from typing import Final

from orchestrator.api.admin.ledger_admin import file_bytes_of
from orchestrator.api.batch_api.batch_api_totals import batch_api_totals
from orchestrator.api.inspect.run_facts import free_bytes
from orchestrator.api.inspect.status import last_of
from orchestrator.api.pages.sample_charts import SPANS, gauge_line, grown_histogram, quantile_lines, rate_line
from orchestrator.core.samples.buckets import COMMIT_BOUNDS_S, LAG_BOUNDS_S, quantile
from orchestrator.errors import TookTooLongError
from orchestrator.ledger import Ledger
from orchestrator.ledger.administration.present_processes import PresentProcesses
from orchestrator.ledger.runs.heartbeats import Heartbeat
from orchestrator.ledger.samples.process_totals import totals_together
from orchestrator.ledger.samples.samples import ProcessTotals
from orchestrator.settings.addresses.companions import Companion
from orchestrator.units import SECOND_US
from orchestrator.views.pages.engine import EnginePage, WorkerProcess
from orchestrator.views.series import Unit

_SHARES: Final = {"half are shorter": 0.5, "99 % are shorter": 0.99}

ENDPOINTS_MAX: Final = 20

TOO_MANY: Final = "there are too many to count for a page; ask: orchestrator ledger info"


async def engine_page(ledger: Ledger, held_by: str | None, span: str, *, with_rows: bool) -> EnginePage:
    """All of that, with charts of the last `span`; `with_rows`: with how many rows each table has, counted one by one,
    which may take too long; `held_by` says who works on the ledger.
    """
    until = ledger.now()
    since = until - SPANS[span]
    beats = await ledger.runs.heartbeats.all()
    found = None if ledger.server is None or not held_by else await ledger.server.processes()
    time = await ledger.samples.of_processes(since, until)
    latest = totals_together((await ledger.samples.latest_of_processes()).values())
    lag = grown_histogram(time, lambda sample: sample.lag)
    commits = grown_histogram(time, lambda sample: sample.commits)
    size = await ledger.reports.upkeep.size()
    rows, problem = await _rows(ledger) if with_rows else (None, None)
    janitors = [beat.report.janitor for beat in beats if beat.report.janitor is not None]
    stood = latest or ProcessTotals()
    return EnginePage(
        holder=held_by,
        at_work=_at_work(beats, found, until) if held_by else (),
        remarks=() if found is None else tuple(found.shown(str(ledger.address)).remarks),
        last_process=None if held_by else last_of(beats),
        before=stood.before,
        begins=stood.begins,
        clock_ahead_us=max(0, max((beat.beaten_at for beat in beats), default=until) - until),
        sampled_at=None if latest is None else latest.at,
        resident_bytes=stood.resident_bytes or None,
        cpu_share=_cpu_share(time.samples),
        lag_p50_s=quantile(lag, LAG_BOUNDS_S, 0.5),
        lag_p99_s=quantile(lag, LAG_BOUNDS_S, 0.99),
        commit_p50_s=quantile(commits, COMMIT_BOUNDS_S, 0.5),
        commit_p99_s=quantile(commits, COMMIT_BOUNDS_S, 0.99),
        webhooks_received=stood.webhooks.get("received", 0),
        webhooks_unusable=stood.webhooks.get("hints", 0) + stood.webhooks.get("unavailable", 0),
        webhooks_refused=stood.webhooks.get("refused", 0),
        webhook_url=next((beat.report.webhook_url for beat in beats if held_by and beat.report.webhook_url), None),
        webhook_share=await _webhook_share(ledger),
        ledger=str(ledger.address),
        schema=await ledger.reports.upkeep.schema(),
        file_bytes=size.pages * size.page_bytes,
        unused_bytes=size.free_pages * size.page_bytes,
        log_bytes=file_bytes_of(ledger.address, Companion.WRITE_AHEAD_LOG),
        disk_free_bytes=free_bytes(ledger.address),
        batch_api=await batch_api_totals(ledger),
        janitor=max(janitors, key=lambda each: each.at, default=None),
        rows=rows,
        rows_problem=problem,
        span=span,
        spans=tuple(SPANS),
        since=since,
        until=until,
        cpu=(rate_line(time, "cores", lambda sample: sample.cpu_s, unit=Unit.NUMBER),),
        memory=(gauge_line(time, "memory", lambda sample: sample.resident_bytes, Unit.BYTES),),
        lag=quantile_lines(time, lambda sample: sample.lag, LAG_BOUNDS_S, _SHARES),
        commits=quantile_lines(time, lambda sample: sample.commits, COMMIT_BOUNDS_S, _SHARES),
        webhooks=(rate_line(time, "received", lambda sample: sample.webhooks.get("received", 0)),),
    )


def _at_work(beats: Sequence[Heartbeat], found: PresentProcesses | None, now: int) -> tuple[WorkerProcess, ...]:
    """Who has said something, or, of a ledger on a server, each of its processes."""
    if found is None:
        return tuple(
            WorkerProcess(
                process=beat.process, since=beat.began_at, reported_at=beat.beaten_at, is_silent=not beat.is_fresh(now)
            )
            for beat in beats
        )
    of = {beat.epoch: beat for beat in beats if not beat.is_gone}
    return tuple(
        WorkerProcess(
            process=each.process,
            since=each.since,
            reported_at=of[number].beaten_at if number in of else None,
            is_silent=not (of[number].is_fresh(now) if number in of else each.stands_by),
            has=each.has,
        )
        for each, (number, _) in zip(found.processes, found.beats, strict=True)
    )


def _cpu_share(samples: Sequence[ProcessTotals]) -> float | None:
    """How much of a core was used between the first and the last of these; None where nothing tells."""
    if len(samples) < 2:  # noqa: PLR2004
        return None
    first, last = samples[0], samples[-1]
    return max(0.0, last.cpu_s - first.cpu_s) * SECOND_US / (last.at - first.at)


async def _webhook_share(ledger: Ledger) -> Mapping[str, float]:
    rows = await ledger.overviews.endpoints.all(ENDPOINTS_MAX)
    samples = await ledger.samples.endpoints.latest([row.id for row in rows])
    shares = {row.endpoint: samples[row.id].webhook_share for row in rows if row.id in samples}
    return {endpoint: share for endpoint, share in shares.items() if share is not None}


async def _rows(ledger: Ledger) -> tuple[Mapping[str, int] | None, str | None]:
    """Each table is counted in a view of its own; one of a million rows may take longer than a page may."""
    try:
        return await ledger.reports.upkeep.rows(), None
    except TookTooLongError:
        return None, TOO_MANY
