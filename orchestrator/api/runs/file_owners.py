"""Whose an output file is: what a run has written it may replace, and nothing else.

The ledger knows by where its runs were told to write. Of a file that appears while a run goes on, its rows tell:
another process of the same run may have written it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from anyio import to_thread

from orchestrator.core.pipelines.placeholders import placeholders
from orchestrator.errors import StorageError, UsageError
from orchestrator.formats.input.sources import places_of
from orchestrator.formats.output.atomic_file import holds_data, is_stream, same_file
from orchestrator.formats.output.readback import reader_of
from orchestrator.formats.output.writers import format_of, is_part, parts_of
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import output_settings, run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.run_request import partial_of
from orchestrator.settings.words_and_defaults import OutputFormat
from orchestrator.stores.object_state import ObjectState
from orchestrator.stores.object_url import Location, ObjectUrl, location_of

ROWS_LOOKED_AT: Final = 20
"""So many rows of a file tell whether it is a run's."""


def owner_of(
    path: Location, known: Sequence[Run], run: Run | None, ledger: LedgerAddress, *, machine: str | None
) -> Run | None:
    """Which run has written to `path` of that `machine` last, as far as the ledger knows; of two, `run`. Without a
    machine: to `path` of whichever.
    """
    owners = [
        each
        for each in known
        if (machine is None or is_path_of(path, each, machine))
        and any(same_file(path, file) for file in _files_of(each, path, ledger))
    ]
    return max(owners, key=lambda each: (each.settings.files_at, each == run), default=None)


def is_path_of(path: Location, run: Run, machine: str) -> bool:
    """Whether the `path` that a run was written to means that file on `machine`: on another one it is another file."""
    return isinstance(path, ObjectUrl) or run.settings.files_on in ("", machine)


def is_input(path: Location, run: Run) -> bool:
    """Whether `path` is one of the inputs of a run."""
    return any(same_file(path, each) for each in places_of(run.source.splitlines()))


def _files_of(run: Run, path: Location, ledger: LedgerAddress) -> Iterator[Location]:
    """The files that a run writes, or has written; of objects that it was split into only `path`, if it is one."""
    settings = run.settings
    if settings.output is not None:
        output = location_of(settings.output)
        yield from (output, partial_of(output, ledger))
        if output_settings.SPLIT.key in settings.cli_defaults:
            if not isinstance(output, ObjectUrl):
                yield from parts_of(output)
            elif is_part(path, output):
                yield path
    if settings.errors is not None:
        yield location_of(settings.errors)


def written_by_other(path: Location, owner: Run) -> UsageError:
    """That a file is another run's."""
    return UsageError(
        f"{path}: the run {owner.name!r} of this ledger has written this file; write to another, or move it"
    )


async def check_flow_owns(ledger: Ledger, flow: Flow, paths: Mapping[Location, str]) -> None:
    """Raises `UsageError` where a file of a flow, by the text that it was named with, is there already and is none that
    its pipeline has written.

    Of a file that has the same name each time, the run that wrote it may be gone: then it is the pipeline's if that has
    fired before.
    """
    known: Sequence[Run] | None = None
    for path, named in paths.items():
        if is_stream(path) or not await to_thread.run_sync(holds_data, path, abandon_on_cancel=True):
            continue
        known = await ledger.runs.all() if known is None else known
        owner = owner_of(path, known, None, ledger.address, machine=None)  # whoever has the flows has their files
        if owner is None:
            others = [each for each in await ledger.flows.latest(2, pipeline=flow.pipeline) if each.id != flow.id]
            if placeholders(named) or not others:
                raise UsageError(
                    f"{path}: this file is there already, and no flow of this pipeline has written it; move it, or name"
                    " another output"
                )
            continue
        part = await ledger.flows.part(owner.id)
        of = None if part is None else await ledger.flows.named(part.flow)
        if of is None or of.pipeline != flow.pipeline:
            raise written_by_other(path, owner)


FileStates = Mapping[Location, tuple[int, int, int] | ObjectState | None]
"""How files were found: their numbers, sizes and times, or what a store has in their place; None for one that is not
there, or is empty.
"""


def file_states(paths: Iterable[Location]) -> FileStates:
    """How they are found now."""
    return {path: _state(path) for path in paths if not is_stream(path)}


def _state(path: Location) -> tuple[int, int, int] | ObjectState | None:
    try:
        found = path.stat()
    except OSError:
        return None
    if isinstance(found, ObjectState):
        return found if found.size else None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if found.st_size else None


async def check_not_appeared(
    ledger: Ledger, run: Run, before: FileStates, output: Location, format_: OutputFormat | None
) -> None:
    """Raises `StorageError` where a file was put in a place of `before` meanwhile by somebody else."""
    for path, was in before.items():
        if path == partial_of(output, ledger.address) or await to_thread.run_sync(_state, path) in (None, was):
            continue
        kind = (format_ if path == output else None) or format_of(path) or OutputFormat.JSONL
        if not await _is_of(ledger, run, path, kind, is_errors=path != output):
            raise StorageError(
                f"{path}: this file has appeared while the run went on, and the run has not written it; everything is"
                f" in the ledger: move the file and give the command again, or: orchestrator runs export {run.name}"
                f" {run_request.OUTPUT} FILE"
            )


async def _is_of(ledger: Ledger, run: Run, path: Location, kind: OutputFormat, *, is_errors: bool) -> bool:
    """Whether the first rows of a file are of jobs of `run`, which another process of it has written."""

    def first_rows() -> list[str | None]:
        reader = reader_of(path, kind, is_errors=is_errors)
        return [reader.custom_id(row) for row, _ in zip(reader, range(ROWS_LOOKED_AT), strict=False)]

    try:
        rows = await to_thread.run_sync(first_rows)
    except (UsageError, msgspec.DecodeError, ValueError):
        return False
    names = [name for name in rows if name is not None]
    return len(names) == len(rows) and all([await ledger.jobs.place(run.id, name) is not None for name in names])
