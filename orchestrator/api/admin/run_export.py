"""Runs written to files, as they stand, also beside the process that works on their ledger."""

from collections.abc import Collection
from contextlib import suppress

import msgspec

from orchestrator.api.outcomes.job_queries import filter_of
from orchestrator.api.outcomes.output_places import check_outputs
from orchestrator.api.outcomes.result_files import write_files
from orchestrator.api.runs.file_owners import is_path_of
from orchestrator.api.runs.process_commands import beside
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.formats.output.atomic_file import errors_for, is_stream
from orchestrator.formats.output.writers import forms_of, part_of, parts_pattern
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.ledger.holder_text import machine_name
from orchestrator.ledger.reports.exports import Writing
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.output_settings import AS_NAMED, OutputSettings
from orchestrator.settings.words_and_defaults import Include
from orchestrator.stores.object_url import Location, asked_about, location_of


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a run was written to, and how many lines each has."""

    run: str
    output: str
    errors: str
    results: int
    failures: int
    empty_columns: tuple[str, ...] = ()
    """The columns of outputs, or of members of them, that are null in every row of the results."""


async def export_run(
    ledger: LedgerAddress,
    name: str | None,
    output: Location | None,
    errors: Location | None,
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


async def note_export(ledger: Ledger, run: Run, output: Location, *, where: str, writing: OutputSettings) -> None:
    """Has the ledger know whose results stand in `output`, for `verify`, and by which filter they were chosen."""
    if not is_stream(output):
        told = Writing(where=where.strip(), format=writing.format, order=writing.order)
        await ledger.reports.exports.note(_full(output), run.id, told)


def _full(path: Location) -> str:
    return str(path.absolute())


async def exported(
    ledger: Ledger,
    run: Run,
    output: Location,
    errors: Location,
    *,
    include: Collection[Include],
    where: str,
    writing: OutputSettings,
) -> Exported:
    """The same of a ledger that is open, to these files."""
    chosen = filter_of(where, now=ledger.now()) if where.strip() else None
    forms_of(output, errors, writing, include)
    places = (output if writing.split is None else part_of(output, 1), errors)
    await asked_about(lambda: check_outputs(ledger.address, places), *places)
    written = await write_files(ledger, run.id, output, errors, include=include, chosen=chosen, writing=writing)
    named = output if writing.split is None else parts_pattern(output)
    return Exported(run=run.name, output=str(named), errors=str(errors), **msgspec.structs.asdict(written))


def places_of_files(output: str, errors: str | None) -> tuple[Location, Location]:
    """Where results go that are to be written to `output`, and errors. Raises `UsageError`."""
    place = location_of(output, is_written=True)
    return place, errors_for(place) if errors is None else location_of(errors, is_written=True)


def _files(run: Run, output: Location | None, errors: Location | None) -> tuple[Location, Location]:
    if output is not None:
        return output, errors or errors_for(output)
    if run.settings.output is None or run.settings.errors is None:
        raise UsageError(f"{run.name} was never written to files; name one for its results with {run_request.OUTPUT}")
    known = location_of(run.settings.output), location_of(run.settings.errors)
    here = machine_name()
    if not all(is_path_of(path, run, here) for path in known[: 1 if errors else 2]):
        raise UsageError(
            f"{run.name} was written last to {known[0]} on {run.settings.files_on}, and this is {here}; name a file for"
            f" its results with {run_request.OUTPUT}"
        )
    return known[0], errors or known[1]
