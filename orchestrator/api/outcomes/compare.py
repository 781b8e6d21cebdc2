"""Compares the results and errors files of a run with its ledger, row by row, holding a page of either."""

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from orchestrator.api.outcomes.audit import Findings, Flaw, Progress
from orchestrator.api.outcomes.outcome_pages import (
    PAGE_BYTES_MAX,
    PAGE_JOBS,
    WantedRows,
    jobs_of,
    matches_filter,
    retried_of,
)
from orchestrator.api.outcomes.result_files import file_outcome
from orchestrator.core.filters.filter import Filter, asks_input
from orchestrator.core.jobs.lifecycle import unfinished
from orchestrator.formats.output.readback import Reader, Written, reader_of, written_at_ns
from orchestrator.formats.output.writers import FileForm, forms_of
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.jobs import JobPlace
from orchestrator.ledger.jobs.results import FinishedJob
from orchestrator.settings.output_settings import AS_NAMED, OutputSettings
from orchestrator.settings.words_and_defaults import ResultOrder
from orchestrator.stores.object_url import Location, asked_about

NS_US: Final = 1_000


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """What the comparison has gone through."""

    results: int
    """Rows of the results file."""

    errors: int
    newer: int
    """Jobs that ended after the files were written, and are not in them yet, or still as they had ended before."""

    lacks: tuple[str, ...] = ()
    """What is not in them for that, or since it has no outcome yet: a sentence each."""


async def compare_files(
    ledger: Ledger,
    run: int,
    output: Location,
    errors: Location,
    findings: Findings,
    progress: Progress,
    *,
    writing: OutputSettings = AS_NAMED,
    chosen: Filter | None = None,
) -> Files:
    """Whether each job that has ended, or of these each that was `chosen`, stands in exactly one of the files, once, in
    order, as the ledger has it.

    Raises `UsageError` where one of them cannot be read.
    """
    forms = forms_of(output, errors, msgspec.structs.replace(writing, split=None, flatten=()), ())
    results, failures = [
        _Comparison(ledger, run, path, await _reader_of(path, form), writing.order, findings, progress, chosen)
        for path, form in zip((output, errors), forms, strict=True)
    ]
    await results.go()
    await failures.go()
    left = unfinished(await ledger.runs.counts(run))
    lacks = [each.lacks() for each in (results, failures) if each.newer]
    if left:
        lacks.append(f"{left:,} {'job has' if left == 1 else 'jobs have'} no outcome yet, and no line in either file")
    return Files(results=results.lines, errors=failures.lines, newer=results.newer + failures.newer, lacks=tuple(lacks))


async def _reader_of(path: Location, form: FileForm) -> Reader:
    return await asked_about(partial(reader_of, path, form.format, is_errors=form.is_errors), path)


def next_rows(rows: Iterator[Written]) -> deque[Written]:
    """The next of `rows`, so many as may wait; none at their end."""
    page: deque[Written] = deque()
    size = 0
    while len(page) < PAGE_JOBS and size < PAGE_BYTES_MAX and (row := next(rows, None)) is not None:
        page.append(row)
        size += len(row.value) if isinstance(row.value, bytes) else sum(map(len, map(str, row.value)))
    return page


class _Comparison:
    """One file beside the rows that the ledger has for it; both are in the same order."""

    def __init__(
        self,
        ledger: Ledger,
        run: int,
        path: Location,
        reader: Reader,
        order: ResultOrder,
        findings: Findings,
        progress: Progress,
        chosen: Filter | None,
    ) -> None:
        self._chosen = chosen
        self._ledger, self._run = ledger, run
        self._path, self._order = path, order
        self._rows = WantedRows.ERRORS if reader.is_errors else WantedRows.RESULTS
        self._reader = reader
        self._page: deque[Written] = deque()
        """What was read and is not compared yet."""

        self._findings, self._progress = findings, progress
        self.lines = 0
        self.newer = 0

    async def go(self) -> None:
        written_at = await asked_about(partial(written_at_ns, self._path), self._path) // NS_US
        rows = iter(self._reader)
        row = await self._next(rows)
        inputs = self._reader.needs_input or (self._chosen is not None and asks_input(self._chosen))
        retried = {} if self._chosen is None else await retried_of(self._ledger, self._run, self._chosen)
        async for job in jobs_of(self._ledger, self._run, self._rows, order=self._order, inputs=inputs):
            if self._chosen is not None and not matches_filter(self._chosen, job, retried):
                continue
            row = await self._match(rows, row, job, written_at)
            self._progress(str(self._path), self.lines, 0)
        while row is not None:
            await self._surplus(row, written_at)
            row = await self._next(rows)

    def lacks(self) -> str:
        """What the file is too old for."""
        jobs = "1 job" if self.newer == 1 else f"{self.newer:,} jobs"
        return f"{self._path} lacks {jobs} that ended after it was written"

    async def _next(self, rows: Iterator[Written]) -> Written | None:
        if not self._page:
            self._page = await asked_about(partial(next_rows, rows), self._path)
        if not self._page:
            return None
        self.lines += 1
        return self._page.popleft()

    async def _match(
        self, rows: Iterator[Written], row: Written | None, job: FinishedJob, written_at: int
    ) -> Written | None:
        """Takes rows until `job`'s own or one that comes later; returns the first that was not taken."""
        expected = file_outcome(job, self._reader.include)
        while row is not None:
            if self._reader.is_of(row, expected):
                return await self._next(rows)
            custom_id = self._reader.custom_id(row)
            if custom_id == job.custom_id:
                self._wrong(row, f"is not what the ledger has for {custom_id}")
                return await self._next(rows)
            place = await self._place(custom_id)
            if place is not None and place.state in self._rows.value and await self._is_later(place, job):
                break
            await self._surplus(row, written_at)
            row = await self._next(rows)
        if job.ended_at is not None and job.ended_at > written_at:
            self.newer += 1
        else:
            self._findings.add(Flaw.FILES, f"{self._path} has no line for {job.custom_id}, or not in its place")
        return row

    async def _is_later(self, place: JobPlace, job: FinishedJob) -> bool:
        if self._order is ResultOrder.INPUT:
            return (place.line, place.job) > (job.line, job.job)
        places = self._ledger.jobs.results.place_of
        return await places(place.job) > await places(job.job)

    async def _surplus(self, row: Written, written_at: int) -> None:
        """Says what is wrong with a row that the ledger has no use for at this place."""
        custom_id = self._reader.custom_id(row)
        place = await self._place(custom_id)
        if custom_id is None:
            self._wrong(row, f"is none of ours: {self._reader.shown(row)}")
        elif place is None:
            self._wrong(row, f"is for {custom_id}, which is no job of this run")
        elif place.state not in self._rows.value and place.ended_at is not None and place.ended_at > written_at:
            pass  # its result came after the files were written, and is counted where it is missing
        elif place.state not in self._rows.value:
            self._wrong(row, f"is for {custom_id}, which is {place.state}")
        else:
            self._wrong(row, f"is for {custom_id}, which stands there twice or out of order")

    async def _place(self, custom_id: str | None) -> JobPlace | None:
        if custom_id is None:
            return None
        return await self._ledger.jobs.place(run=self._run, custom_id=custom_id)

    def _wrong(self, row: Written, what: str) -> None:
        self._findings.add(Flaw.FILES, f"{row.place} {what}")
