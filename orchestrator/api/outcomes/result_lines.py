"""The results of a run as lines: the verb `results`."""

from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from orchestrator.api.outcomes.job_queries import filter_of
from orchestrator.api.outcomes.outcome_pages import WantedRows, jobs_of
from orchestrator.api.outcomes.result_files import check_is_there, file_outcome, included
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.errors import UsageError
from orchestrator.formats.output.writers import form_of, sink_of
from orchestrator.ledger import read_ledger
from orchestrator.settings.command_requests import ResultsRequest
from orchestrator.settings.words_and_defaults import OutputFormat


async def results(request: ResultsRequest, write: Callable[[bytes], None]) -> int:
    """Hands a run's results (or errors) to `write` as they are to be written; returns how many rows.

    Raises `UsageError` where there is no such run, or, without a name, not one alone, and where what is asked for
    cannot be written so.
    """
    is_errors = request.errors or request.failed
    form = form_of(Path(), request.writing, request.include, is_errors=is_errors)
    if request.follow and form.format is OutputFormat.PARQUET:
        raise UsageError("--follow prints rows as they come, and Parquet has its columns first; take another format")
    async with read_ledger(request.ledger) as opened:
        # One without an intake is being read at this moment, or was refused and has left nothing but its name.
        is_read = await opened.holder() is not None
        run = await run_named(opened, request.name, not_accepted=is_read or request.follow)
        include = await included(opened, run.id, request.include)
        form = form_of(Path(), request.writing, include, is_errors=is_errors)
        rows = 0
        out = sink_of(form, lambda: write)
        try:
            wanted = WantedRows.FAILED if request.failed else WantedRows.ERRORS if is_errors else WantedRows.RESULTS
            chosen = filter_of(request.where, now=opened.now()) if request.where else None
            order, follow = request.order, request.follow
            jobs = jobs_of(opened, run.id, wanted, order=order, chosen=chosen, follow=follow, inputs=form.needs_input)
            async with aclosing(jobs):
                async for job in jobs:
                    out.write(file_outcome(job, include))
                    rows += 1
            await check_is_there(opened, run.id)
            out.finish()
        finally:
            out.abandon()
        return rows
