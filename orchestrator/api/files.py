"""Inputs read into batches of rows, and outcomes written to files."""

import os
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from anyio import to_thread
from msgspec import UNSET

from orchestrator.api.export import Rows, chosen_jobs, finished_jobs
from orchestrator.core.compact import compact
from orchestrator.core.error_messages import told
from orchestrator.core.filters import Filter
from orchestrator.engine.intake import InputBatch
from orchestrator.errors import DamagedError, StorageError, UsageError
from orchestrator.formats.outcome_lines import ErrorClass, ErrorLine, More, ResultLine, encoded
from orchestrator.formats.reading import Places, Reading, read_inputs, sources_of
from orchestrator.formats.replace import Replacement, check_writable, same_file
from orchestrator.formats.rows import Problem, Row, batches
from orchestrator.ledger import INTAKE_LOCK, Ledger
from orchestrator.ledger.pace import ROWS_ALONE
from orchestrator.ledger.results import FinishedJob
from orchestrator.settings import Include
from orchestrator.units import SECOND_US

STREAM_BYTES: Final = 256 * 1024
"""So much is handed to a stream at once."""

LEDGER_COMPANIONS: Final = ("-wal", "-shm", "-journal", ".lock", ".key", ".sent", ".log")
"""What is added to the ledger's name for the files that belong to it: SQLite's, and ours."""


def check_outputs(ledger: Path, outputs: Iterable[Path]) -> None:
    """Raises `UsageError` for an output that cannot be written, or whose writing would destroy part of the ledger."""
    real = Path(os.path.realpath(ledger))  # where a link leads to is where the others are, too
    parts = (real, *(real.with_name(real.name + suffix) for suffix in LEDGER_COMPANIONS))
    for path in outputs:
        if os.path.realpath(path).startswith(str(real) + INTAKE_LOCK) or any(same_file(path, part) for part in parts):
            raise UsageError(f"{path}: this file belongs to the ledger {ledger}; write to another file")
        check_writable(path)


def row_batches(source: str, reading: Reading, places: Places | None = None) -> Iterator[InputBatch]:
    """The rows of an input, which may be several (one on each line), checked, in batches; `places` learns where they
    stand. Raises `UsageError` where one cannot be opened.

    It opens and closes the input itself, in whatever thread it is read: a pipe nobody writes to blocks both.
    """
    rows = read_inputs(sources_of(source.splitlines()), reading, places)
    for batch in batches(rows, rows_max=ROWS_ALONE):
        faults = [item for item in batch if isinstance(item, Problem)]
        yield InputBatch([item for item in batch if isinstance(item, Row)], faults)


async def write_files(
    ledger: Ledger,
    run: int,
    output: Path,
    errors: Path,
    *,
    include: Collection[Include] = (),
    chosen: Filter | None = None,
) -> tuple[int, int]:
    """Both files of a run, as it stands now, with what their rows are to `include`, each written beside and renamed;
    returns how many lines they have. Of jobs that are `chosen`, if so, in the order in which they were taken in.

    Raises `StorageError` where they cannot be written any more: they could when the run began.
    """
    try:
        return await _write_files(ledger, run, output, errors, include, chosen)
    except UsageError as error:
        raise StorageError(f"{error}; everything is in the ledger") from error


async def _write_files(
    ledger: Ledger, run: int, output: Path, errors: Path, include: Collection[Include], chosen: Filter | None
) -> tuple[int, int]:
    inputs = Include.INPUT in include
    if chosen is None:
        jobs = finished_jobs(ledger, run, Rows.ALL, inputs=inputs)
    else:
        jobs = chosen_jobs(ledger, run, Rows.ALL, chosen, inputs=inputs)
    with Replacement(output) as results, Replacement(errors) as failures:
        good, bad = _Lines(results), _Lines(failures)
        async for job in jobs:
            await (good if job.trouble is None else bad).write(line_of(job, include))
        await check_is_there(ledger, run)
        await good.commit()
        await bad.commit()
    return good.lines, bad.lines


async def check_is_there(ledger: Ledger, run: int) -> None:
    """What was read of a run is all of it only if it is there in the end. Raises `UsageError`."""
    if await ledger.runs.is_gone(run):
        raise UsageError("the run was deleted meanwhile; nothing is written of it")


class _Lines:
    """Lines on their way into a file.

    A stream is written in a thread: its reader may take its time, and meanwhile signals are to be obeyed.
    """

    def __init__(self, file: Replacement) -> None:
        self._file = file
        self._held: list[bytes] = []
        self._bytes = 0
        self.lines = 0

    async def write(self, line: bytes) -> None:
        self.lines += 1
        if not self._file.is_stream:
            self._file.write(line)
            return
        self._held.append(line)
        self._bytes += len(line)
        if self._bytes >= STREAM_BYTES:
            await self._hand_over()

    async def commit(self) -> None:
        if not self._file.is_stream:
            self._file.commit()
            return
        await self._hand_over()
        await to_thread.run_sync(self._file.commit)

    async def _hand_over(self) -> None:
        held, self._held, self._bytes = self._held, [], 0
        await to_thread.run_sync(self._file.write, b"".join(held))


def line_of(job: FinishedJob, include: Collection[Include] = ()) -> bytes:
    """The line of `job` in the results or the errors file, with what it is to `include`."""
    more = _more(job, include) if include else None
    if job.trouble is None:
        output = job.output
        result = ResultLine(
            custom_id=job.custom_id,
            job_id=job.remote_id,
            output=msgspec.Raw(b"null" if output is None else output),
            attempts=job.attempts,
            paid_at_most=job.paid_at_most,
            delay_ms=job.delay_ms,
            execution_ms=job.execution_ms,
        )
        return encoded(result, more)
    text = job.message or ""
    has_times = Include.TIMES in include
    error = ErrorLine(
        custom_id=job.custom_id,
        job_id=job.remote_id,
        status=job.status,
        error=ErrorClass(job.trouble, told(text), text if Include.TEXT in include else UNSET),
        attempts=job.attempts,
        paid_at_most=job.paid_at_most,
        delay_ms=job.delay_ms if has_times else UNSET,
        execution_ms=job.execution_ms if has_times else UNSET,
    )
    return encoded(error, more)


def _more(job: FinishedJob, include: Collection[Include]) -> More:
    has_times = Include.TIMES in include
    return More(
        line=job.line if Include.LINE in include else UNSET,
        worker=job.worker if Include.WORKER in include else UNSET,
        sent_at=_iso(job.sent_at) if has_times else UNSET,
        ended_at=_iso(job.ended_at) if has_times else UNSET,
        input=_input(job) if Include.INPUT in include else UNSET,
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
