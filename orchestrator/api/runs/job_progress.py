"""How far the resumable jobs of a run are: what their workers reported last."""

from collections.abc import Callable, Mapping
from typing import Final

import anyio
import msgspec

from orchestrator.api.runs.run_lookup import run_named
from orchestrator.core.jobs.lifecycle import State
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.ledger.jobs.segments import UnfinishedRow
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.units import MILLISECOND_US, SECOND_US
from orchestrator.views.runs.job_progress import JobProgress, RunProgress

LOOK_S: Final = 2.0
"""How often to look whether there is something new, while that is followed."""


async def progress(ledger: LedgerAddress, name: str | None, limit: int) -> RunProgress:
    """How far the first `limit` jobs without an outcome are, of the run `name`, or the only one.

    Raises `UsageError` where there is no such run, or its jobs are not resumable.
    """
    async with read_ledger(ledger) as opened:
        return await progress_of_jobs(opened, resumable(await run_named(opened, name)), limit)


async def follow_progress(
    ledger: LedgerAddress, name: str | None, limit: int, show: Callable[[RunProgress], None], *, stop: anyio.Event
) -> None:
    """The same at once, and whenever it has changed, to `show`, until each job has its outcome or `stop` is set.

    After the first time only the jobs that have changed are shown.
    """
    async with read_ledger(ledger) as opened:
        await follow(opened, resumable(await run_named(opened, name)), limit, show, stop=stop)


async def follow(
    ledger: Ledger, run: Run, limit: int, show: Callable[[RunProgress], None], *, stop: anyio.Event
) -> None:
    """As `follow_progress`, of `run`."""
    shown: Mapping[str, JobProgress] = {}
    while not stop.is_set():
        found = await progress_of_jobs(ledger, run, limit)
        now = {job.custom_id: _without_time(job) for job in found.jobs}
        if news := [job for job in found.jobs if now[job.custom_id] != shown.get(job.custom_id)]:
            show(msgspec.structs.replace(found, jobs=news))
        shown = now
        if await ledger.runs.ended([run.id]):
            return
        with anyio.move_on_after(LOOK_S):
            await stop.wait()


def _without_time(job: JobProgress) -> JobProgress:
    return msgspec.structs.replace(job, executed_s=0.0)


def resumable(run: Run) -> Run:
    """`run`, if its jobs are resumable. Raises `UsageError`."""
    if not run.settings.resumable:
        raise UsageError(
            f"the jobs of {run.name} are not resumable, so they report no progress; how it stands:"
            f" orchestrator status {run.name}"
        )
    return run


async def progress_of_jobs(ledger: Ledger, run: Run, limit: int) -> RunProgress:
    """How far the first `limit` jobs of `run` without an outcome are."""
    now = ledger.now()
    rows = await ledger.jobs.segments.unfinished(run.id, after=0, most=limit + 1)
    jobs = [_of_row(row, now) for row in rows[:limit]]
    return RunProgress(run=run.name, at=now, jobs=jobs, is_whole=len(rows) <= limit)


def _of_row(row: UnfinishedRow, now: int) -> JobProgress:
    is_running = row.state == State.OUTSTANDING.value and row.begun_at is not None
    running_us = max(0, now - (row.begun_at or 0)) if is_running else 0
    return JobProgress(
        job=row.job,
        custom_id=row.custom_id,
        state=row.state,
        segment=row.segment,
        share=row.share,
        message=row.message,
        reported_at=row.reported_at,
        checkpoint_at=row.checkpoint_at,
        executed_s=(row.executed_ms * MILLISECOND_US + running_us) / SECOND_US,
    )
