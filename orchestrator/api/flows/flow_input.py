"""The input of a flow: a file that somebody renames into place, an object of a store, or what a command prints.

What was read is told by its SHA-256, or what a store has for that, which is written down before any row is taken in.
"""

import hashlib
import shlex
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import anyio

from orchestrator.api.messages.subprocesses import carry_out
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.pipelines.flow_paths import filled_template, moment, needs_folder
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
from orchestrator.stores.object_url import Location, ObjectUrl, has_appeared, location_of
from orchestrator.units import MIB, SECOND_US
from orchestrator.views.flows import AwaitedInput

LOOK_S: Final = 5.0
"""How often it is looked whether an input is there."""

ASK_S_MAX: Final = 60.0
"""A store is asked for it at pauses that grow so far: each question costs."""


class FlowInput(NamedTuple):
    """An input that is there."""

    path: Location
    name: str
    """What it is called: its path, or the command that printed it."""

    fingerprint: tuple[object, ...]
    """What of the file is another once it is changed."""

    sha256: str
    """Empty for an object: it is read once, and told by what its store has for that."""

    @classmethod
    async def at(cls, path: Location, name: str) -> "FlowInput":
        """What is there now. Raises `UsageError` where it cannot be read."""
        fingerprint = await anyio.to_thread.run_sync(_fingerprint, path, abandon_on_cancel=True)
        sha256 = await anyio.to_thread.run_sync(_sha256, path, abandon_on_cancel=True) if isinstance(path, Path) else ""
        return cls(path, name, fingerprint, sha256)

    @property
    def as_recorded(self) -> str:
        """What is written down of it: of an object its content, too."""
        return f"{self.name} ({self.fingerprint[0]})" if isinstance(self.path, ObjectUrl) else self.name

    def watched(self, batches: Iterator[InputBatch]) -> Iterator[InputBatch]:
        """`batches` of the file, which is refused at its end if it is not what it was before."""
        line = 0
        for batch in batches:
            line += len(batch.rows) + len(batch.faults)
            yield batch
        if _fingerprint(self.path) != self.fingerprint:
            advice = "" if isinstance(self.path, ObjectUrl) else "; rename it into place"
            yield InputBatch([], [RowProblem(line=line, text=f"the file was changed meanwhile{advice}")])


async def has_folder(pipeline: Pipeline, dependencies: Dependencies) -> bool:
    """Whether the folder in which the pipeline has something is on this machine."""
    if not needs_folder(pipeline):
        return True
    return await anyio.to_thread.run_sync(dependencies.is_folder, pipeline.folder, abandon_on_cancel=True)


def awaited_input(flow: Flow, pipeline: Pipeline) -> AwaitedInput | None:
    """What a flow waits for whose first stage has not begun; None where it reads no file, or the file is there.

    No store is asked: whoever looks on may have no credentials.
    """
    if flow.state is not FlowState.RUNNING or pipeline.input is None:
        return None
    place = location_of(filled_template(pipeline, pipeline.input, moment(pipeline, flow.fire_at, flow.again)))
    has_come = isinstance(place, Path) and place.is_file()
    return None if has_come else AwaitedInput(path=str(place), until=_awaited_until(flow, pipeline))


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
        there = location_of(filled_template(pipeline, pipeline.input, at))
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


async def _until_there(
    there: Location, flow: Flow, pipeline: Pipeline, ledger: Ledger, say: Callable[[str], None]
) -> None:
    until, look_s = _awaited_until(flow, pipeline), LOOK_S
    is_told = False
    while not await anyio.to_thread.run_sync(_found, there, abandon_on_cancel=True):
        left = until - ledger.now()
        if left <= 0:
            wait = pipeline.wait_for_input_us
            after = f" after {format_duration(wait)} (wait-for-input)" if wait else ""
            raise UsageError(f"{there}: the input is not there{after}")
        if not is_told:
            is_told = True
            say(f"{flow.name} waits for {there}, for {format_duration(pipeline.wait_for_input_us)} at most")
        await anyio.sleep(min(look_s, left / SECOND_US))
        look_s = LOOK_S if isinstance(there, Path) else min(2 * look_s, ASK_S_MAX)


def _found(place: Location) -> bool:
    try:
        return has_appeared(place)
    except OSError as error:
        raise UsageError(f"{place}: cannot read the input ({error.strerror})") from error


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


def _fingerprint(path: Location) -> tuple[object, ...]:
    try:
        if isinstance(path, ObjectUrl):
            at_store = path.stat()
            return at_store.identity, at_store.size
        found = path.stat()
    except OSError as error:
        raise UsageError(f"{path}: cannot read the input ({error.strerror})") from None
    return found.st_ino, found.st_size, found.st_mtime_ns
