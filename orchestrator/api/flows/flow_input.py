"""The input of a flow: a file that somebody renames into place, or what a command prints.

What was read is told by its SHA-256, which is written down before any of its rows is taken in.
"""

import hashlib
import shlex
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import anyio
from anyio import to_thread

from orchestrator.api.messages.subprocesses import carry_out
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.pipelines.flow_paths import filled_template, moment
from orchestrator.core.pipelines.pipeline import Pipeline
from orchestrator.core.pipelines.placeholders import Moment, expanded, variables
from orchestrator.core.text.durations import format_duration
from orchestrator.engine.flows.command_output import CommandFailed
from orchestrator.engine.intake.intake import InputBatch
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.formats.input.rows import RowProblem
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.units import MIB, SECOND_US
from orchestrator.views.flows import AwaitedInput

LOOK_S: Final = 5.0
"""How often it is looked whether an input is there."""


class FlowInput(NamedTuple):
    """An input that is there."""

    path: Path
    name: str
    """What it is called: its path, or the command that printed it."""

    fingerprint: tuple[int, ...]
    """What of the file is another once it is changed."""

    sha256: str

    @classmethod
    async def at(cls, path: Path, name: str) -> "FlowInput":
        """What is there now. Raises `UsageError` where it cannot be read."""
        return cls(path, name, _fingerprint(path), await to_thread.run_sync(_sha256, path))

    def watched(self, batches: Iterator[InputBatch]) -> Iterator[InputBatch]:
        """`batches` of the file, which is refused at its end if it is not what it was before."""
        line = 0
        for batch in batches:
            line += len(batch.rows) + len(batch.faults)
            yield batch
        if _fingerprint(self.path) != self.fingerprint:
            yield InputBatch([], [RowProblem(line=line, text="the file was changed meanwhile; rename it into place")])


def awaited_input(flow: Flow, pipeline: Pipeline) -> AwaitedInput | None:
    """What a flow waits for whose first stage has not begun; None where it reads no file, or the file is there."""
    if flow.state is not FlowState.RUNNING or pipeline.input is None:
        return None
    path = filled_template(pipeline, pipeline.input, moment(pipeline, flow.fire_at, flow.again))
    return None if Path(path).is_file() else AwaitedInput(path=path, until=_awaited_until(flow, pipeline))


@asynccontextmanager
async def flow_source(
    flow: Flow,
    pipeline: Pipeline,
    ledger: Ledger,
    dependencies: Dependencies,
    say: Callable[[str], None],
    *,
    scrubbed: Callable[[str], str],
) -> AsyncIterator[FlowInput]:
    """The input of a flow, for as long as it is read; `say` is told what it waits for. Raises `UsageError` where it is
    not there in time, or its command fails: with what that said, `scrubbed`.
    """
    at = moment(pipeline, flow.fire_at, flow.again)
    if pipeline.input is not None:
        there = Path(filled_template(pipeline, pipeline.input, at))
        await _until_there(there, flow, pipeline, ledger, say)
        yield await FlowInput.at(there, str(there))
        return
    command = [expanded(each, at, {}) for each in pipeline.input_command]
    with tempfile.NamedTemporaryFile(prefix="orchestrator-", suffix=".jsonl") as file:
        printed = Path(file.name)
        try:
            await _print(command, printed, pipeline, at, dependencies)
        except CommandFailed as failed:
            raise UsageError(scrubbed(str(failed))) from None
        yield await FlowInput.at(printed, shlex.join(command))


def _awaited_until(flow: Flow, pipeline: Pipeline) -> int:
    return (flow.started_at or flow.recorded_at) + pipeline.wait_for_input_us


async def _until_there(there: Path, flow: Flow, pipeline: Pipeline, ledger: Ledger, say: Callable[[str], None]) -> None:
    until = _awaited_until(flow, pipeline)
    is_told = False
    while not await to_thread.run_sync(there.is_file):
        left = until - ledger.now()
        if left <= 0:
            wait = pipeline.wait_for_input_us
            after = f" after {format_duration(wait)} (wait-for-input)" if wait else ""
            raise UsageError(f"{there}: the input is not there{after}")
        if not is_told:
            is_told = True
            say(f"{flow.name} waits for {there}, for {format_duration(pipeline.wait_for_input_us)} at most")
        await anyio.sleep(min(LOOK_S, left / SECOND_US))


async def _print(command: list[str], printed: Path, pipeline: Pipeline, at: Moment, dependencies: Dependencies) -> None:
    """Has a command print the input, which is then read like any other."""
    environ = {**dependencies.environ, **variables(at)}
    told, folder = f"the input-command {command[0]}", Path(pipeline.folder)
    with printed.open("wb") as file:
        await carry_out(command, told=told, folder=folder, environ=environ, printed=file)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(MIB):
                digest.update(block)
    except OSError as error:
        raise UsageError(f"{path}: cannot read the input ({error.strerror})") from None
    return digest.hexdigest()


def _fingerprint(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError as error:
        raise UsageError(f"{path}: cannot read the input ({error.strerror})") from None
    return found.st_ino, found.st_size, found.st_mtime_ns
