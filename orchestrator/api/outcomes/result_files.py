"""Outcomes written to files."""

import shlex
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

import anyio
import msgspec
from anyio import to_thread

from orchestrator.api.outcomes.outcome_pages import WantedRows, jobs_of
from orchestrator.api.outcomes.output_places import coming_file
from orchestrator.api.outcomes.thread_writer import ThreadWriter, until_given_up
from orchestrator.core.filters.filter import Filter
from orchestrator.core.text.error_text import summary_of
from orchestrator.core.text.json_compact import compact
from orchestrator.errors import DamagedError, MisfitError, StorageError, UsageError
from orchestrator.formats.output.coming_files import commit_together
from orchestrator.formats.output.outcome_lines import (
    ErrorClass,
    ErrorLine,
    OutcomeDetails,
    ResultLine,
    ReusedFrom,
    WrittenOutcome,
    encode_outcome,
)
from orchestrator.formats.output.writers import OutcomeFile, forms_of
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.results import FinishedJob
from orchestrator.settings import run_request
from orchestrator.settings.output_settings import AS_NAMED, OutputSettings
from orchestrator.settings.words_and_defaults import Include, ResultOrder
from orchestrator.stores.object_url import Location, ObjectUrl
from orchestrator.units import SECOND_US


class WrittenFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What the two files of a run hold."""

    results: int
    failures: int
    """How many rows each has."""

    empty_columns: tuple[str, ...] = ()
    """The columns of outputs that are null in every row."""


async def write_files(
    ledger: Ledger,
    run: int,
    output: Location,
    errors: Location,
    *,
    include: Collection[Include] = (),
    chosen: Filter | None = None,
    writing: OutputSettings = AS_NAMED,
    stop: anyio.Event | None = None,
) -> WrittenFiles:
    """Both files of a run, as it stands now, with what their rows are to `include`, each written beside and renamed.
    Of jobs that are `chosen`, if so, those of the input's order as they were taken in. For a store is not waited long
    once `stop` is set.

    Raises `MisfitError` where a format cannot hold a row, and `StorageError` where a file cannot be written any more:
    it could when the run began.
    """
    elsewhere = await _command_for(ledger, run, output) if isinstance(output, ObjectUrl) else ""
    with _everything_is_in_the_ledger(elsewhere):
        include = await included(ledger, run, include)
        of_results, of_errors = forms_of(output, errors, writing, include)
        inputs = of_results.needs_input or of_errors.needs_input
        order = None if writing.order is ResultOrder.INPUT else writing.order  # of those chosen as they were taken in
        jobs = jobs_of(ledger, run, WantedRows.ALL, order=order, chosen=chosen, inputs=inputs)
        async with until_given_up(str(output), stop if elsewhere else None) as given_up:
            coming = partial(coming_file, ledger=ledger.address, given_up=given_up)
            with OutcomeFile(output, of_results, coming) as results, OutcomeFile(errors, of_errors, coming) as failures:
                good, bad = _Written(results), _Written(failures)
                async for job in jobs:
                    await (good if job.trouble is None else bad).write(file_outcome(job, include))
                await check_is_there(ledger, run)
                for each in (good, bad):
                    await each.finish()
                parts = [*results.parts, *failures.parts]
                if elsewhere:
                    await to_thread.run_sync(commit_together, parts)
                else:
                    commit_together(parts)
        return WrittenFiles(results=results.number, failures=failures.number, empty_columns=results.empty_columns)


async def _command_for(ledger: Ledger, run: int, output: Location) -> str:
    """What writes the results there later."""
    [found] = await ledger.runs.all([run])
    return shlex.join(["orchestrator", "results", found.name, *run_request.OUTPUT.words(output)])


@contextmanager
def _everything_is_in_the_ledger(command: str) -> Iterator[None]:
    """Says so where a file cannot be written, which is what a `UsageError` means by then; and by which `command` it is
    written to a store later.
    """
    try:
        yield
    except StorageError as error:
        if not command:
            raise
        raise StorageError(
            f"{error.message}; everything is in the ledger, and is written later by: {command}"
        ) from error
    except MisfitError as error:
        raise MisfitError(f"{error}; everything is in the ledger") from error
    except UsageError as error:
        raise StorageError(f"{error}; everything is in the ledger") from error


async def included(ledger: Ledger, run: int, include: Collection[Include]) -> Collection[Include]:
    """What rows of `run` are to `include`, with what those carry that have it: tables need a column for that. Where it
    has a pool, a worker is one of a member.
    """
    found = list(include)
    if Include.WORKER in include and Include.ENDPOINT not in include:
        of_pool = any(each.settings.members for each in await ledger.runs.all([run]))
        found += [Include.ENDPOINT] if of_pool else []
    if await ledger.jobs.results.have_metadata(run):
        found.append(Include.METADATA)
    return found


async def check_is_there(ledger: Ledger, run: int) -> None:
    """What was read of a run is all of it only if it is there in the end. Raises `UsageError`."""
    if await ledger.runs.is_gone(run):
        raise UsageError("the run was deleted meanwhile; nothing is written of it")


class _Written:
    """Outcomes on their way into a file; one that may take its time is written in a thread."""

    def __init__(self, file: OutcomeFile) -> None:
        self._file = file
        self._slow = ThreadWriter(file.write) if file.is_slow else None

    async def write(self, outcome: WrittenOutcome) -> None:
        if self._slow is None:
            self._file.write((outcome,))
        else:
            await self._slow.add(outcome)

    async def finish(self) -> None:
        if self._slow is None:
            self._file.finish()
        else:
            await self._slow.finish()
            await to_thread.run_sync(self._file.finish)


def outcome_line(job: FinishedJob, include: Collection[Include] = ()) -> bytes:
    """The line of `job` in JSON lines, with what it is to `include`."""
    outcome = file_outcome(job, include)
    return encode_outcome(outcome)


def file_outcome(job: FinishedJob, include: Collection[Include] = ()) -> WrittenOutcome:
    """`job` for a file of results or errors, with what its row is to `include`."""
    return WrittenOutcome(
        number=job.line,
        line=_row(job, include),
        more=_more(job, include) if include else None,
        input=None if job.stored_input is None else _input(job),
    )


def _row(job: FinishedJob, include: Collection[Include]) -> ResultLine | ErrorLine:
    metadata = msgspec.UNSET if job.metadata is None else msgspec.Raw(job.metadata)
    if job.trouble is None:
        output = job.output
        return ResultLine(
            custom_id=job.custom_id,
            job_id=job.remote_id,
            output=msgspec.Raw(b"null" if output is None else output),
            attempts=job.attempts,
            paid_at_most=job.paid_at_most,
            delay_ms=job.delay_ms,
            execution_ms=job.execution_ms,
            reused=msgspec.UNSET
            if job.reused is None
            else ReusedFrom(run=job.reused.run, custom_id=job.reused.custom_id),
            metadata=metadata,
        )
    text = job.message or ""
    has_times = Include.TIMES in include
    return ErrorLine(
        custom_id=job.custom_id,
        job_id=job.remote_id,
        status=job.status,
        error=ErrorClass(job.trouble, summary_of(text), text if Include.TEXT in include else msgspec.UNSET),
        attempts=job.attempts,
        paid_at_most=job.paid_at_most,
        delay_ms=job.delay_ms if has_times else msgspec.UNSET,
        execution_ms=job.execution_ms if has_times else msgspec.UNSET,
        metadata=metadata,
    )


def _more(job: FinishedJob, include: Collection[Include]) -> OutcomeDetails:
    has_times = Include.TIMES in include
    return OutcomeDetails(
        line=job.line if Include.LINE in include else msgspec.UNSET,
        worker=job.worker if Include.WORKER in include else msgspec.UNSET,
        endpoint=job.endpoint if Include.ENDPOINT in include else msgspec.UNSET,
        sent_at=_iso(job.sent_at) if has_times else msgspec.UNSET,
        ended_at=_iso(job.ended_at) if has_times else msgspec.UNSET,
        input=_input(job) if Include.INPUT in include else msgspec.UNSET,
    )


def _iso(at: int | None) -> str | None:
    """Microseconds UTC as programs elsewhere read them."""
    return (
        None if at is None else f"{datetime.fromtimestamp(at // SECOND_US, UTC):%Y-%m-%dT%H:%M:%S}.{at % SECOND_US:06}Z"
    )


def _input(job: FinishedJob) -> msgspec.Raw:
    """It may stand over several lines where it was given by a program; in a file it is one."""
    try:
        return msgspec.Raw(b"null" if job.input is None else compact(job.input))
    except DamagedError:
        return msgspec.Raw(b"null")
