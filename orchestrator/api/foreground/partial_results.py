"""The results of a run so far, in a file that grows while it runs: `OUTPUT.partial`, in the order in which jobs end.

It is for reading, and nothing depends on it: the ledger has every result, and at the end `OUTPUT` is written from it,
whole and in input order. So each process makes it anew, whatever an earlier one has left, and what goes wrong with it
is told, once, and holds up nothing else: it is written a batch at a time, in a thread.
"""

import errno
import os
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import anyio
from anyio import to_thread

from orchestrator.api.outcomes.outcome_pages import WantedRows, ended_since, finished_jobs
from orchestrator.api.outcomes.result_files import outcome_line
from orchestrator.errors import StorageError
from orchestrator.formats.output.atomic_file import is_stream
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.results import FinishedJob
from orchestrator.settings.run_request import partial_of
from orchestrator.settings.words_and_defaults import Include
from orchestrator.stores.object_url import Location
from orchestrator.units import MIB, MINUTE_US

APPEND_EVERY_S: Final = 1.0
"""How soon a result stands in the file; the longer, the less it costs."""

AGAIN_S: Final = 60.0
"""How long to wait where the file could not be written."""

LATE_US: Final = 15 * MINUTE_US
"""A job may have ended by its time for so long before the ledger has it: a server was away meanwhile."""

BATCH_BYTES: Final = MIB
"""So much is handed to the file at once."""


class PartialResults:
    """The growing file of the run `run`, whose results end in `output`. A stream has none."""

    def __init__(
        self,
        ledger: Ledger,
        run: int,
        output: Location | None,
        include: Collection[Include],
        warn: Callable[[str], None],
    ) -> None:
        self._ledger = ledger
        self._run = run
        self._path = None if output is None or is_stream(output) else partial_of(output, ledger.address)
        self._include = include
        self._warn = warn
        self._file: BinaryIO | None = None
        self._place = 0
        self._known: set[int] = set()
        """Jobs that may have ended while the file was made anew: they stand in it already."""

        self._is_told = False

    @property
    def _has_inputs(self) -> bool:
        return Include.INPUT in self._include

    async def serve(self) -> None:
        """Lets it grow until cancelled."""
        while self._path is not None:
            try:
                await self._grow(self._path)
            except (OSError, StorageError) as error:
                self._tell(error)
            finally:
                self._close()
            await anyio.sleep(AGAIN_S)

    async def _grow(self, path: Path) -> None:
        self._place, began_at = await self._ledger.reports.feed.end(), self._ledger.now()
        self._file = _opened(path)
        self._known.clear()
        await self._write(self._so_far(began_at))
        while True:
            await self._write(self._new())
            await anyio.sleep(APPEND_EVERY_S)

    async def _so_far(self, began_at: int) -> AsyncIterator[FinishedJob]:
        async for job in finished_jobs(self._ledger, self._run, WantedRows.RESULTS, inputs=self._has_inputs):
            if (job.ended_at or 0) >= began_at - LATE_US:
                self._known.add(job.job)
            yield job

    async def _new(self) -> AsyncIterator[FinishedJob]:
        ended = ended_since(
            self._ledger,
            self._run,
            WantedRows.RESULTS,
            after=self._place,
            inputs=self._has_inputs,
            bytes_max=BATCH_BYTES,
        )
        async for place, job in ended:
            self._place = place
            if job is not None and job.job not in self._known:
                yield job

    async def _write(self, jobs: AsyncIterator[FinishedJob]) -> None:
        lines: list[bytes] = []
        size = 0
        async for job in jobs:
            line = outcome_line(job, self._include)
            if lines and size + len(line) > BATCH_BYTES:
                await self._append(lines)
                lines, size = [], 0
            lines.append(line)
            size += len(line)
            if size >= BATCH_BYTES:
                await self._append(lines)
                lines, size = [], 0
        if lines:
            await self._append(lines)

    async def _append(self, lines: Sequence[bytes]) -> None:
        assert self._file is not None
        await to_thread.run_sync(_written, self._file, lines)

    def _tell(self, error: Exception) -> None:
        if not self._is_told:
            self._is_told = True
            why = error.strerror if isinstance(error, OSError) else str(error)
            self._warn(f"{self._path}: cannot be written ({why}); results are collected all the same")

    def _close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self._file = None

    def remove(self) -> None:
        """Removes the file: all of it stands elsewhere by now."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()


def _opened(path: Path) -> BinaryIO:
    # Without waiting: should a pipe be there that nobody reads, that is told like a full disk.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK
    return os.fdopen(os.open(path, flags, 0o666), "wb", buffering=0)


def _written(file: BinaryIO, lines: Sequence[bytes]) -> None:
    left = memoryview(lines[0] if len(lines) == 1 else b"".join(lines))  # a large one is not held twice
    while left:
        written = file.write(left)
        if written is None:  # of a pipe, which is full
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        left = left[written:]
