"""Compares the results and errors files of a run with its ledger, line by line, holding a page of either."""

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from orchestrator.api.audit import Findings, Kind, Progress
from orchestrator.api.export import Rows, finished_jobs
from orchestrator.api.files import line_of
from orchestrator.core.lifecycle import unfinished
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs import Place
from orchestrator.ledger.results import FinishedJob
from orchestrator.settings import Include

NS_US: Final = 1_000

LINE_SHOWN_CHARS: Final = 80


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """What the comparison has gone through."""

    results: int
    """Lines of the results file."""

    errors: int
    newer: int
    """Jobs that ended after the files were written, and are not in them yet, or still as they had ended before."""

    lacks: tuple[str, ...] = ()
    """What is not in them for that, or since it has no outcome yet: a sentence each."""


class _Named(msgspec.Struct):
    custom_id: str


_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_named: Final = msgspec.json.Decoder(_Named)


async def compare_files(
    ledger: Ledger, run: int, output: Path, errors: Path, findings: Findings, progress: Progress
) -> Files:
    """Whether each job that has ended stands in exactly one of the files, once, in input order, as the ledger has it.

    Raises `UsageError` where one of them cannot be read.
    """
    results = _Comparison(ledger, run, output, Rows.RESULTS, findings, progress)
    failures = _Comparison(ledger, run, errors, Rows.ERRORS, findings, progress)
    await results.go()
    await failures.go()
    left = unfinished(await ledger.runs.counts(run))
    lacks = [each.lacks() for each in (results, failures) if each.newer]
    if left:
        lacks.append(f"{left:,} {'job has' if left == 1 else 'jobs have'} no outcome yet, and no line in either file")
    return Files(results=results.lines, errors=failures.lines, newer=results.newer + failures.newer, lacks=tuple(lacks))


class _Comparison:
    """One file beside the rows that the ledger has for it; both are in the order of the input."""

    def __init__(
        self, ledger: Ledger, run: int, path: Path, rows: Rows, findings: Findings, progress: Progress
    ) -> None:
        self._ledger, self._run = ledger, run
        self._path, self._rows = path, rows
        self._findings, self._progress = findings, progress
        self._include: tuple[Include, ...] = ()
        self.lines = 0
        self.newer = 0

    async def go(self) -> None:
        try:
            with self._path.open("rb") as file:
                written_at = self._path.stat().st_mtime_ns // NS_US
                line: bytes | None = self._next(file)
                self._include = _included_in(line)
                inputs = Include.INPUT in self._include
                async for job in finished_jobs(self._ledger, self._run, self._rows, inputs=inputs):
                    line = await self._match(file, line, job, written_at)
                    self._progress(str(self._path), self.lines, 0)
                while line is not None:
                    await self._surplus(line, written_at)
                    line = self._next(file)
        except OSError as error:
            raise UsageError(f"{self._path}: cannot be read ({error.strerror})") from error

    def lacks(self) -> str:
        """What the file is too old for."""
        jobs = "1 job" if self.newer == 1 else f"{self.newer:,} jobs"
        return f"{self._path} lacks {jobs} that ended after it was written"

    def _next(self, file: BinaryIO) -> bytes | None:
        line = file.readline()
        self.lines += bool(line)
        return line or None

    async def _match(self, file: BinaryIO, line: bytes | None, job: FinishedJob, written_at: int) -> bytes | None:
        """Takes lines until `job`'s own or one that comes later; returns the first that was not taken."""
        expected = line_of(job, self._include)
        while line is not None:
            if line == expected:
                return self._next(file)
            custom_id = _custom_id_of(line)
            if custom_id == job.custom_id:
                self._wrong(f"is not what the ledger has for {custom_id}")
                return self._next(file)
            place = await self._place(custom_id)
            if place is not None and place.state in self._rows.value and (place.line, place.job) > (job.line, job.job):
                break
            await self._surplus(line, written_at)
            line = self._next(file)
        if job.ended_at is not None and job.ended_at > written_at:
            self.newer += 1
        else:
            self._findings.add(Kind.FILES, f"{self._path} has no line for {job.custom_id}, or not in its place")
        return line

    async def _surplus(self, line: bytes, written_at: int) -> None:
        """Says what is wrong with a line that the ledger has no use for at this place."""
        custom_id = _custom_id_of(line)
        place = await self._place(custom_id)
        if custom_id is None:
            self._wrong(f"is none of ours: {line[:LINE_SHOWN_CHARS].decode(errors='replace').rstrip()}")
        elif place is None:
            self._wrong(f"is for {custom_id}, which is no job of this run")
        elif place.state not in self._rows.value and place.ended_at is not None and place.ended_at > written_at:
            pass  # its result came after the files were written, and is counted where it is missing
        elif place.state not in self._rows.value:
            self._wrong(f"is for {custom_id}, which is {place.state}")
        else:
            self._wrong(f"is for {custom_id}, which stands there twice or out of order")

    async def _place(self, custom_id: str | None) -> Place | None:
        if custom_id is None:
            return None
        return await self._ledger.jobs.place(run=self._run, custom_id=custom_id)

    def _wrong(self, what: str) -> None:
        self._findings.add(Kind.FILES, f"line {self.lines} of {self._path} {what}")


_SIGNS: Final[Mapping[Include, str]] = {
    Include.INPUT: "input",
    Include.LINE: "line",
    Include.WORKER: "worker",
    Include.TIMES: "ended_at",
}
"""By what member a row shows that it carries something besides."""


def _included_in(line: bytes | None) -> tuple[Include, ...]:
    """What the rows of a file carry besides, by its first one."""
    try:
        members = {} if line is None else _members.decode(line)
        error = _members.decode(members["error"]) if "error" in members else {}
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ()
    has_text = (Include.TEXT,) if "text" in error else ()
    return (*(each for each, sign in _SIGNS.items() if sign in members), *has_text)


def _custom_id_of(line: bytes) -> str | None:
    try:
        return _named.decode(line).custom_id
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
