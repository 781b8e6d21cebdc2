"""Reads the outcomes of a run out of the ledger, page by page: no read lasts, and little is held."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import aclosing
from enum import Enum
from typing import Final

import msgspec

from orchestrator.core.filters.filter import Filter, FilterFacts, asks_input, asks_retried, matches
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.error_text import error_key
from orchestrator.errors import DamagedError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.results import EndedJobs, FinishedJob
from orchestrator.settings.words_and_defaults import ResultOrder
from orchestrator.units import MIB

PAGE_JOBS: Final = 500
PAGE_EVENTS: Final = 5_000
PAGE_BYTES_MAX: Final = 4 * MIB
"""A page has so many outputs, as they are stored, at most; one that is larger has a page to itself."""

DAMAGED: Final = "its output is damaged in the ledger; orchestrator verify tells what else is"


class WantedRows(Enum):
    """Which rows of a run are wanted: those of the results file, those of the errors file or of it those
    that have failed, or all.
    """

    RESULTS = (State.SUCCEEDED,)
    ERRORS = (State.FAILED, State.CANCELLED)
    FAILED = (State.FAILED,)
    ALL = (State.SUCCEEDED, State.FAILED, State.CANCELLED)

    @property
    def may_be_damaged(self) -> bool:
        """Whether those that succeeded belong to them if their output cannot be unpacked any more; one that is stored
        as it came can always be.
        """
        return self in (WantedRows.ERRORS, WantedRows.FAILED)

    def has(self, job: FinishedJob) -> bool:
        """Whether `job` is one of them, by its trouble."""
        return self is WantedRows.ALL or (job.trouble is None) is (self is WantedRows.RESULTS)


async def finished_jobs(
    ledger: Ledger, run: int, rows: WantedRows, *, inputs: bool = False
) -> AsyncGenerator[FinishedJob, None]:
    """The run's finished jobs, in input order, with their `inputs` if wanted. It may run while the run does.

    What has a `trouble` belongs into the errors file: also a job that succeeded, should its output be damaged by now.
    """
    after = (-1, -1)
    while found := await ledger.jobs.results.page(
        run,
        rows.value,
        after=after,
        most=PAGE_JOBS,
        bytes_max=PAGE_BYTES_MAX,
        packed_too=rows.may_be_damaged,
        inputs=inputs,
    ):
        after = (found[-1].line, found[-1].job)
        for job in found:
            row = row_of(job)
            if rows.has(row):
                yield row


async def chosen_jobs(
    ledger: Ledger, run: int, rows: WantedRows, chosen: Filter, *, inputs: bool = False
) -> AsyncGenerator[FinishedJob, None]:
    """The run's finished jobs that `chosen` means, in the order in which they were taken in."""
    states = {*rows.value, State.SUCCEEDED}  # whose output may be damaged
    after, is_last = 0, False
    while not is_last:
        page = await ledger.reports.job_queries.page(run, chosen, after=after, most=PAGE_JOBS)
        left = [job.job for job in page.jobs]
        while left and (found := await ledger.jobs.results.of(left, bytes_max=PAGE_BYTES_MAX, inputs=inputs)):
            for job in map(row_of, found):
                if job.state in states and rows.has(job):
                    yield job
            left = [job for job in left if job > found[-1].job]
        after, is_last = page.after, page.is_last


async def jobs_of(
    ledger: Ledger,
    run: int,
    rows: WantedRows,
    *,
    order: ResultOrder | None = None,
    chosen: Filter | None = None,
    follow: bool = False,
    inputs: bool = False,
) -> AsyncGenerator[FinishedJob, None]:
    """The run's finished jobs in either order. Where none is said, it is that of the input, and of those that are
    `chosen` that in which they were taken in. With `follow`: as they end, until all have; see `ended_jobs`.
    """
    if chosen is not None and order is None and not follow:
        jobs = chosen_jobs(ledger, run, rows, chosen, inputs=inputs)
    else:
        has_inputs = inputs or (chosen is not None and asks_input(chosen))
        if order is ResultOrder.COMPLETION or follow:
            jobs = (job async for _, job in ended_jobs(ledger, run, rows, follow=follow, inputs=has_inputs))
        else:
            jobs = finished_jobs(ledger, run, rows, inputs=has_inputs)
        if chosen is not None:
            jobs = _matching(jobs, chosen, await retried_of(ledger, run, chosen))
    async with aclosing(jobs):
        async for job in jobs:
            yield job


async def retried_of(ledger: Ledger, run: int, chosen: Filter) -> Mapping[int, Collection[int]]:
    """The kinds of executions of the run's jobs that were followed by another one, by job; where `chosen` asks that."""
    return await ledger.reports.failed_executions.kinds_by_job(run) if asks_retried(chosen) else {}


async def _matching(
    jobs: AsyncGenerator[FinishedJob, None], chosen: Filter, retried: Mapping[int, Collection[int]]
) -> AsyncGenerator[FinishedJob, None]:
    async with aclosing(jobs):
        async for job in jobs:
            if matches_filter(chosen, job, retried):
                yield job


async def ended_jobs(
    ledger: Ledger, run: int, rows: WantedRows, *, after: int = 0, follow: bool = False, inputs: bool = False
) -> AsyncIterator[tuple[int, FinishedJob]]:
    """The run's finished jobs in the order in which they ended, each with its place there, from `after` a place on.

    With `follow`: also those that end from now on, until all have. Raises `UsageError` where the run is deleted.
    """
    upto = after
    async with aclosing(ledger.reports.feed.changes()) as changes:
        async for _ in changes:
            is_over = not follow or bool(await ledger.runs.ended([run]))
            async for place, row in ended_since(ledger, run, rows, after=upto, inputs=inputs):
                upto = place
                if row is not None:
                    yield place, row
            if await ledger.runs.is_gone(run):
                raise UsageError("the run was deleted meanwhile")
            if is_over:
                return


async def ended_since(
    ledger: Ledger, run: int, rows: WantedRows, *, after: int, inputs: bool = False, bytes_max: int = PAGE_BYTES_MAX
) -> AsyncIterator[tuple[int, FinishedJob | None]]:
    """The run's finished jobs that have ended after the place `after`, as `ended_jobs` without `follow`, of which pages
    of `bytes_max` are held.

    After each page, None with the place until which there is nothing else.
    """
    upto = after
    while (found := await _ended(ledger, run, rows, upto, bytes_max, inputs=inputs)).upto is not None:
        upto, left = found.upto, deque(found.jobs)
        del found  # it holds outputs until the next page is there
        while left:
            place, job = left.popleft()
            row = row_of(job)
            if rows.has(row):
                yield place, row
        yield upto, None


async def _ended(ledger: Ledger, run: int, rows: WantedRows, after: int, bytes_max: int, *, inputs: bool) -> EndedJobs:
    return await ledger.jobs.results.ended(
        run,
        rows.value,
        after=after,
        most=PAGE_EVENTS,
        bytes_max=bytes_max,
        packed_too=rows.may_be_damaged,
        inputs=inputs,
    )


def matches_filter(chosen: Filter, job: FinishedJob, retried: Mapping[int, Collection[int]]) -> bool:
    """Whether `chosen` means `job`, which has its input where that is asked for; `retried` as by `retried_of`."""
    facts = FilterFacts(
        state=job.state,
        trouble=job.trouble,
        error_key=None if job.trouble is None else error_key(job.trouble, job.message),
        message=job.message,
        custom_id=job.custom_id,
        attempts=job.attempts,
        line=job.line,
        ended_at=job.ended_at,
        input=_given(job) if asks_input(chosen) else None,
        metadata=None if job.metadata is None else msgspec.json.decode(job.metadata),
        retried=retried.get(job.job, ()),
    )
    return matches(chosen, facts)


def _given(job: FinishedJob) -> object:
    """Its input, decoded; None where it is damaged."""
    try:
        return None if job.input is None else msgspec.json.decode(job.input)
    except (DamagedError, msgspec.DecodeError):
        return None


def row_of(job: FinishedJob) -> FinishedJob:
    """`job` with its output unpacked, or as a failure where that cannot be done."""
    if not job.packed or job.trouble is not None:
        return job
    try:
        return msgspec.structs.replace(job, stored=job.output, packed=0)
    except DamagedError:
        return msgspec.structs.replace(job, trouble=FailureClass.INVALID_OUTPUT.value, message=DAMAGED)
