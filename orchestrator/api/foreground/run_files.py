"""The files of one run in the foreground: checked before it begins, growing while it works, written at its end."""

from functools import partial
from pathlib import Path

import anyio
import msgspec
from anyio.abc import TaskGroup

from orchestrator.api.foreground.partial_results import PartialResults
from orchestrator.api.outcomes.output_places import check_outputs
from orchestrator.api.outcomes.result_files import WrittenFiles, write_files
from orchestrator.api.runs.file_owners import FileStates, check_not_appeared, file_states
from orchestrator.api.runs.run_defaults import outputs_of, written_to
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import StorageError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_request
from orchestrator.settings.run_request import RunRequest, partial_of
from orchestrator.settings.words_and_defaults import Include
from orchestrator.stores.object_url import Location, ObjectUrl
from orchestrator.user_code import absolute
from orchestrator.views.status import Summary


class RunFiles:
    """Where the outcomes of a run go, as `request` says; nowhere, where that names no files."""

    def __init__(self, request: RunRequest, console: Console, before: FileStates) -> None:
        """`before` is what was there before the run began."""
        self._request = request
        self._console = console
        self._places: tuple[Location, Location] | None = None
        """Results and errors."""

        if request.output is not None and request.errors is not None:
            self._places = _absolute(request.output), _absolute(request.errors)
        self._before = before
        self._growing: PartialResults | None = None
        self._written: WrittenFiles | None = None

    def grow(self, tasks: TaskGroup, ledger: Ledger, run: Run) -> None:
        """Lets the results so far stand in a file beside the output, for as long as `tasks` last."""
        self._growing = self._growing_of(ledger, run)
        if self._places is not None and isinstance(self._places[0], ObjectUrl):
            self._console.info(f"until the end the results grow in {partial_of(self._places[0], ledger.address)}")
        tasks.start_soon(self._growing.serve)

    def _growing_of(self, ledger: Ledger, run: Run) -> PartialResults:
        output = None if self._places is None else self._places[0]
        include = self._request.include
        if run.settings.members and Include.WORKER in include:
            include = (*include, Include.ENDPOINT)
        return PartialResults(ledger, run.id, output, include, self._console.warn)

    async def write(self, ledger: Ledger, run: Run, stop: anyio.Event) -> None:
        """Writes both files whole; a `stop` is waited for as `write_files` does, and what that raises is raised. Raises
        `UsageError` where another file has appeared there, too.
        """
        if self._places is None:
            return
        (output, errors), include, writing = self._places, self._request.include, self._request.writing
        await check_not_appeared(ledger, run, self._before, output, writing.format)
        growing = self._growing or self._growing_of(ledger, run)
        write = partial(write_files, ledger, run.id, output, errors, include=include, writing=writing, stop=stop)
        try:
            self._written = await write()
        except StorageError:  # what has grown takes as much room
            if isinstance(output, ObjectUrl):
                raise
            growing.remove()
            self._written = await write()
        growing.remove()

    def named_in(self, summary: Summary) -> Summary:
        """`summary`, with where the files are that were written."""
        if self._written is None:
            return summary
        output, errors = str(written_to(self._request)), str(self._request.errors)
        return msgspec.structs.replace(summary, output=output, errors=errors, empty_columns=self._written.empty_columns)


def _absolute(place: Location) -> Location:
    return absolute(place) if isinstance(place, Path) else place


def checked_files(request: RunRequest, *, are_remembered: bool) -> FileStates:
    """How the files are found that carrying `request` out writes; none, where it may overwrite. Raises `UsageError` for
    files that cannot be written; `are_remembered`: an earlier command has named them.
    """
    outputs = outputs_of(request)
    try:
        check_outputs(request.ledger, outputs)
    except UsageError as error:
        if not are_remembered:
            raise
        raise UsageError(
            f"{error.message} (the run's files were written there before; {run_request.OUTPUT} names another)"
        ) from error
    return {} if request.overwrite else file_states(map(_absolute, outputs))
