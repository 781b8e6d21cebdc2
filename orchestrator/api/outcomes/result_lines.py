"""The results of a run as lines: the verb `results`."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

from orchestrator.api.outcomes.job_queries import filter_of
from orchestrator.api.outcomes.outcome_pages import WantedRows, chosen_jobs, ended_jobs, finished_jobs, matches_filter
from orchestrator.api.outcomes.result_files import check_is_there, file_outcome, included
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.clock import SystemClock
from orchestrator.core.filters.filter import asks_input
from orchestrator.errors import UsageError
from orchestrator.formats.output.writers import form_of, sink_of
from orchestrator.ledger import Ledger, holder, read_ledger
from orchestrator.ledger.jobs.results import FinishedJob
from orchestrator.settings.requests import ResultsRequest
from orchestrator.settings.values import OutputFormat, ResultOrder


async def results(request: ResultsRequest, write: Callable[[bytes], None]) -> int:
    """Hands a run's results (or errors) to `write` as they are to be written; returns how many rows.

    Raises `UsageError` where there is no such run, or, without a name, not one alone, and where what is asked for
    cannot be written so.
    """
    is_errors = request.errors or request.failed
    form = form_of(Path(), request.writing, request.include, is_errors=is_errors)
    if request.follow and form.format is OutputFormat.PARQUET:
        raise UsageError("--follow prints rows as they come, and Parquet has its columns first; take another format")
    async with read_ledger(request.ledger, clock=SystemClock()) as opened:
        # One without an intake is being read at this moment, or was refused and has left nothing but its name.
        is_read = holder(request.ledger) is not None
        run = await run_named(opened, request.name, not_accepted=is_read or request.follow)
        include = await included(opened, run.id, request.include)
        form = form_of(Path(), request.writing, include, is_errors=is_errors)
        rows = 0
        out = sink_of(form, lambda: write)
        try:
            async with aclosing(_jobs(opened, run.id, request, inputs=form.needs_input)) as jobs:
                async for job in jobs:
                    out.write(file_outcome(job, request.include))
                    rows += 1
            await check_is_there(opened, run.id)
            out.finish()
        finally:
            out.abandon()
        return rows


async def _jobs(ledger: Ledger, run: int, request: ResultsRequest, *, inputs: bool) -> AsyncGenerator[FinishedJob]:
    rows = WantedRows.FAILED if request.failed else WantedRows.ERRORS if request.errors else WantedRows.RESULTS
    chosen = filter_of(request.where, now=ledger.now())
    if request.where and request.order is None and not request.follow:
        async for job in chosen_jobs(ledger, run, rows, chosen, inputs=inputs):
            yield job
        return
    async for job in _in_order(ledger, run, rows, request, inputs=inputs or asks_input(chosen)):
        if matches_filter(chosen, job):
            yield job


async def _in_order(
    ledger: Ledger, run: int, rows: WantedRows, request: ResultsRequest, *, inputs: bool
) -> AsyncGenerator[FinishedJob]:
    if request.order is ResultOrder.COMPLETION or request.follow:
        async for _, job in ended_jobs(ledger, run, rows, follow=request.follow, inputs=inputs):
            yield job
        return
    async for job in finished_jobs(ledger, run, rows, inputs=inputs):
        yield job
