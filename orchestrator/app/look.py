"""Looking at a ledger, beside whoever works on it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from orchestrator.app.counts import margin_summary, state_counts, uncertain_summary
from orchestrator.app.files import line_of
from orchestrator.app.local import LOCAL
from orchestrator.clock import SystemClock
from orchestrator.core.job import FAILED_EXECUTIONS, PAID_TWICE
from orchestrator.core.lifecycle import State
from orchestrator.core.pacing import Operation
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, read_ledger, reports
from orchestrator.ledger.control import wishes_of
from orchestrator.ledger.limits import Reading, meters_all
from orchestrator.ledger.lock import holder
from orchestrator.ledger.reports import Run
from orchestrator.ledger.vitals import vitals_of
from orchestrator.services.export import FAILURES, RESULTS, finished_jobs
from orchestrator.settings import Collecting, RunStatus, StuckSummary

SECOND_US: Final = 1_000_000
RATE_WINDOW_US: Final = 60 * SECOND_US
"""Jobs a second are those of the last minute."""

STALE_US: Final = 30 * SECOND_US
"""What the process at work said longer ago says nothing of the present: it was stopped, or cannot write."""


async def status(ledger: Path) -> list[RunStatus]:
    """Every run of the ledger, oldest first. Raises `UsageError` where there is no ledger."""
    async with read_ledger(ledger, clock=SystemClock()) as opened:
        held_by = holder(ledger)
        since = opened.now() - RATE_WINDOW_US
        ends = await opened.read(partial(reports.ends_since, since=since)) if held_by else {}
        rates = {run: n * SECOND_US / RATE_WINDOW_US for run, n in ends.items()}
        runs = await opened.read(reports.runs_all)
        meters = await opened.read(meters_all) if held_by else []
        return [await _status(opened, run, rates.get(run.id), held_by, meters) for run in runs if run.accepted]


async def _status(
    ledger: Ledger, run: Run, jobs_per_s: float | None, held_by: str | None, meters: Sequence[Reading]
) -> RunStatus:
    of_endpoint = [meter for meter in meters if meter.endpoint_id == run.endpoint_id]
    sending = next((meter for meter in of_endpoint if meter.operation is Operation.RUN), None)
    counts = await ledger.read(partial(reports.counts_of, run=run.id))
    margins = await ledger.read(partial(reports.margins_of, run=run.id))
    wishes = await ledger.read(partial(wishes_of, run=run.id))
    vitals = await ledger.read(partial(vitals_of, run=run.id))
    collecting = _at_present(vitals.collecting, ledger.now()) if held_by else None
    return RunStatus(
        run=run.name,
        endpoint=run.endpoint,
        service_url=run.service_url,
        source=run.source,
        jobs=state_counts(counts),
        uncertain=uncertain_summary(counts),
        lost=counts.get("lost", 0),
        expired=counts.get("expired", 0),
        paid_twice=counts.get(PAID_TWICE, 0),
        failed_executions=counts.get(FAILED_EXECUTIONS, 0),
        margin_s=margin_summary(margins),
        created_at=run.created_at,
        safe_offline_s=await _safe_offline_s(ledger, run, counts, collecting),
        collected_by=None if collecting is None else collecting.by,
        stuck=vitals.stuck if held_by else StuckSummary(),
        janitor=vitals.janitor,
        paused=wishes.pause,
        cancelled=wishes.cancel,
        jobs_per_s=jobs_per_s,
        held_by=held_by,
        window_used=None if sending is None else sending.used,
        window_allowed=None if sending is None else sending.allowance,
        throttled=sum(meter.throttled for meter in of_endpoint) if of_endpoint else None,
    )


def _at_present(said: Collecting | None, now: int) -> Collecting | None:
    return said if said is not None and now - said.at <= STALE_US else None


async def _safe_offline_s(
    ledger: Ledger, run: Run, counts: Mapping[str, int], collecting: Collecting | None
) -> float | None:
    """By what the process at work says, which costs nothing; else by the outstanding jobs."""
    if collecting is not None and collecting.safe_until is not None and counts.get(State.OUTSTANDING.value):
        return max(0, collecting.safe_until - ledger.now()) / SECOND_US
    return await safe_offline_s(ledger, run, counts, retention_us=run.settings.retention_us)


async def safe_offline_s(ledger: Ledger, run: Run, counts: Mapping[str, int], *, retention_us: int) -> float | None:
    """For how many seconds no result of `run` can expire if nobody collects; None where none can, as with `local:`
    endpoints, whose jobs run again. `counts` are the run's, of the ledger.
    """
    if not counts.get(State.OUTSTANDING.value) or run.service_url == LOCAL:
        return None
    safe_us = await ledger.read(partial(reports.safe_until, run=run.id, retention_us=retention_us))
    return None if safe_us is None else max(0, safe_us - ledger.now()) / SECOND_US


async def results(ledger: Path, name: str, write: Callable[[bytes], None], *, errors: bool) -> int:
    """Hands the lines of a run's results (or errors) to `write`, a page at a time; returns how many lines.

    Raises `UsageError` where there is no such run.
    """
    async with read_ledger(ledger, clock=SystemClock()) as opened:
        run = await opened.run_named(name)
        if run is None:
            raise unknown_run(name, ledger, await opened.read(reports.runs_all))
        lines = 0
        async for page in finished_jobs(opened, run.id, FAILURES if errors else RESULTS):
            write(b"".join(map(line_of, page)))
            lines += len(page)
        return lines


def unknown_run(name: str, ledger: Path, known: list[Run]) -> UsageError:
    """There is no run of that name; says which there are."""
    names = ", ".join(run.name for run in known) or "none"
    return UsageError(f"{ledger}: there is no run called {name!r} here; there is: {names}")
