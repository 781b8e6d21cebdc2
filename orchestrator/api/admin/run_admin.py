"""Renaming, deleting and exporting runs, also beside the process that works on their ledger."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.api.outcomes.job_queries import filter_of
from orchestrator.api.outcomes.result_files import check_outputs, write_files
from orchestrator.api.runs.process_commands import ask_process, beside
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import LedgerBusyError, OrchestratorError, UsageError
from orchestrator.formats.output.atomic_file import errors_for, is_stream
from orchestrator.formats.output.writers import forms_of, part_of, parts_pattern
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.ledger.actions.action_rows import Act, Ended, SubjectKind
from orchestrator.ledger.actions.asker import Asker
from orchestrator.ledger.commands.command_types import JOBS_THERE, Action, Argument, NewName
from orchestrator.ledger.reports.exports import Writing
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_request
from orchestrator.settings.output_settings import AS_NAMED, OutputSettings
from orchestrator.settings.parsers.name_parsers import parse_run_name
from orchestrator.settings.words_and_defaults import Include

_COLLECT_FIRST: Final = "collect them first (orchestrator resume), or give them up (orchestrator cancel)"


class Renamed(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has another name now."""

    run: str
    was: str


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is gone, and how many jobs went with it."""

    run: str
    jobs: int


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a run was written to, and how many lines each has."""

    run: str
    output: str
    errors: str
    results: int
    failures: int
    empty_columns: tuple[str, ...] = ()
    """The columns of outputs, or of members of them, that are null in every row of the results."""


async def rename(ledger: Path, name: str, to: str, dependencies: Dependencies | None = None) -> Renamed:
    """Gives the run `name` another name, under which whoever serves it goes on.

    Raises `UsageError` where there is no such run, or the new name is no name or another run's, and `LedgerBusyError`
    where whoever works on the ledger does not answer.
    """
    try:
        parse_run_name(to)
    except ValueError as error:
        raise UsageError(f"{to!r}: {error}") from None
    given = dependencies or Dependencies()
    async with beside(ledger, given) as opened:
        run = await run_named(opened, name)
        if to != run.name:
            with given.holding_intakes(ledger)(run.name), given.holding_intakes(ledger)(to):
                await opened.runs.intakes.clear(to)
                await _carried_out(opened, Action.RENAME, run, given.asked, NewName(to))
        return Renamed(run=to, was=run.name)


async def delete(ledger: Path, name: str, dependencies: Dependencies | None = None) -> Deleted:
    """Deletes the run `name` with everything that is known of it.

    Raises `UsageError` where there is no such run, or jobs of it are at the service: unless the run is to be cancelled
    and nobody works on the ledger, who could see to that. Raises `LedgerBusyError` as `rename`.
    """
    given = dependencies or Dependencies()
    async with beside(ledger, given) as opened:
        run = await run_named(opened, name)
        with given.holding_intakes(ledger)(run.name):
            await opened.runs.intakes.clear(run.name)
            counts = await opened.runs.counts(run.id)
            try:
                with given.lock(ledger, now=given.clock.now(), doing="runs delete"):
                    if not await opened.runs.take_back(run.id):
                        raise UsageError(f"{run.name}: {JOBS_THERE}; {_COLLECT_FIRST}")
                    act = Act(verb=Action.DELETE, subject=SubjectKind.RUN, number=run.id, name=run.name)
                    await opened.actions.note(given.asked, act, Ended("it is deleted"))
                    opened.runs.intakes.pace.is_beside = lambda: False
                    await opened.runs.intakes.clear(run.name)
            except LedgerBusyError:
                await _carried_out(opened, Action.DELETE, run, given.asked)
                await opened.runs.intakes.clear(run.name)
        return Deleted(run=run.name, jobs=sum(counts.get(state.value, 0) for state in State))


async def _carried_out(
    ledger: Ledger, action: Action, run: Run, asked: Asker, argument: Argument | None = None
) -> None:
    """Has `action` carried out for `run`. Raises `UsageError` where it is refused, and `LedgerBusyError`."""
    acknowledged = await ask_process(ledger, action, run=run.id, argument=argument, asked=asked)
    if acknowledged.outcome is None:
        raise LedgerBusyError(
            f"{acknowledged.by or 'another process'} works on this ledger and has not answered; it was asked to"
            f" {action} {run.name}, and may yet do so: look with orchestrator runs"
        )


async def export_run(
    ledger: Path,
    name: str | None,
    output: Path | None,
    errors: Path | None,
    *,
    include: Collection[Include] = (),
    where: str = "",
    writing: OutputSettings = AS_NAMED,
) -> Exported:
    """Writes the results and the errors of the run `name`, or of the only one, to files, with what their rows are to
    `include`: to those that it was written to last, where none are named. With a filter `where` only those of the jobs
    that it means, to a file that has to be named: those of before are of the whole run.

    Raises `UsageError` where there is no such run, or no file to write to, and where it cannot be written as it is to
    be (`MisfitError`: for a value), and `StorageError` where one cannot be written at all.
    """
    async with read_ledger(ledger) as opened:
        run = await run_named(opened, name)
        if where.strip() and output is None:
            raise UsageError(f"name a file for the results of these jobs with {run_request.OUTPUT}")
        output, errors = _files(run, output, errors)
        found = await exported(opened, run, output, errors, include=include, where=where, writing=writing)
    with suppress(OrchestratorError):  # a ledger that can only be read is exported, too
        async with beside(ledger, None) as opened:
            await note_export(opened, run, output, where=where, writing=writing)
    return found


async def note_export(ledger: Ledger, run: Run, output: Path, *, where: str, writing: OutputSettings) -> None:
    """Has the ledger know whose results stand in `output`, for `verify`, and by which filter they were chosen."""
    if not is_stream(output):
        told = Writing(where=where.strip(), format=writing.format, order=writing.order)
        await ledger.reports.exports.note(_full(output), run.id, told)


def _full(path: Path) -> str:
    return str(path.absolute())


async def exported(
    ledger: Ledger,
    run: Run,
    output: Path,
    errors: Path,
    *,
    include: Collection[Include],
    where: str,
    writing: OutputSettings,
) -> Exported:
    """The same of a ledger that is open, to these files."""
    chosen = filter_of(where, now=ledger.now()) if where.strip() else None
    forms_of(output, errors, writing, include)
    check_outputs(ledger.path, (output if writing.split is None else part_of(output, 1), errors))
    written = await write_files(ledger, run.id, output, errors, include=include, chosen=chosen, writing=writing)
    named = output if writing.split is None else parts_pattern(output)
    return Exported(run=run.name, output=str(named), errors=str(errors), **msgspec.structs.asdict(written))


def _files(run: Run, output: Path | None, errors: Path | None) -> tuple[Path, Path]:
    if output is not None:
        return output, errors or errors_for(output)
    if run.settings.output is None or run.settings.errors is None:
        raise UsageError(f"{run.name} was never written to files; name one for its results with {run_request.OUTPUT}")
    return Path(run.settings.output), errors or Path(run.settings.errors)
