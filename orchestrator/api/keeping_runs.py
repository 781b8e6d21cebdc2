"""Renaming, deleting and exporting runs, while nobody works on their ledger."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from orchestrator import declared, written
from orchestrator.api.controlling import beside
from orchestrator.api.files import check_outputs, write_files
from orchestrator.api.naming import run_named
from orchestrator.clock import SystemClock
from orchestrator.core.lifecycle import State
from orchestrator.engine.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.ledger.runs import Run
from orchestrator.settings import Include, errors_beside


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


async def rename(ledger: Path, name: str, to: str, dependencies: Dependencies | None = None) -> Renamed:
    """Gives the run `name` another name.

    Raises `UsageError` where there is no such run, the new name is no name or another run's, or somebody works on the
    ledger.
    """
    try:
        written.parse_name(to)
    except ValueError as error:
        raise UsageError(f"{to!r}: {error}") from None
    given = dependencies or Dependencies()
    async with _alone(ledger, name, given, doing="runs rename") as (opened, run):
        if to != run.name:
            with given.holding_intakes(ledger)(to):
                await opened.intakes.clear(to)
                if not await opened.runs.rename(run.id, to):
                    raise UsageError(f"{ledger}: there is a run called {to!r} already; choose another name")
        return Renamed(run=to, was=run.name)


async def delete(ledger: Path, name: str, dependencies: Dependencies | None = None) -> Deleted:
    """Deletes the run `name` with everything that is known of it.

    Raises `UsageError` where there is no such run, somebody works on the ledger, or jobs of it are at the service and
    it is not to be cancelled.
    """
    async with _alone(ledger, name, dependencies or Dependencies(), doing="runs delete") as (opened, run):
        counts = await opened.runs.counts(run.id)
        if not await opened.runs.take_back(run.id):
            raise UsageError(
                f"{run.name}: jobs of it are at the service, and their results would be lost; collect them first"
                " (orchestrator resume), or give them up (orchestrator cancel)"
            )
        opened.intakes.pace.is_beside = lambda: False
        await opened.intakes.clear(run.name)
        return Deleted(run=run.name, jobs=sum(counts.get(state.value, 0) for state in State))


@asynccontextmanager
async def _alone(ledger: Path, name: str, given: Dependencies, *, doing: str) -> AsyncIterator[tuple[Ledger, Run]]:
    """The ledger and its run `name`, on which nobody works and for which nobody takes in while the block runs."""
    async with beside(ledger, given) as opened:
        with given.lock(ledger, now=given.clock.now(), doing=doing):
            run = await run_named(opened, name)
            with given.holding_intakes(ledger)(run.name):
                await opened.intakes.clear(run.name)
                yield opened, run


async def export_run(
    ledger: Path, name: str | None, output: Path | None, errors: Path | None, *, include: Collection[Include] = ()
) -> Exported:
    """Writes the results and the errors of the run `name`, or of the only one, to files, with what their rows are to
    `include`: to those that it was written to last, where none are named.

    Raises `UsageError` where there is no such run, or no file to write to, and `StorageError` where one cannot be
    written.
    """
    async with read_ledger(ledger, clock=SystemClock()) as opened:
        run = await run_named(opened, name)
        output, errors = _files(run, output, errors)
        check_outputs(ledger, (output, errors))
        results, failures = await write_files(opened, run.id, output, errors, include=include)
        return Exported(run=run.name, output=str(output), errors=str(errors), results=results, failures=failures)


def _files(run: Run, output: Path | None, errors: Path | None) -> tuple[Path, Path]:
    if output is not None:
        return output, errors or errors_beside(output)
    if run.settings.output is None or run.settings.errors is None:
        raise UsageError(f"{run.name} was never written to files; name one for its results with {declared.OUTPUT}")
    return Path(run.settings.output), errors or Path(run.settings.errors)
