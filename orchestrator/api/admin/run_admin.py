"""Renaming and deleting runs, also beside the process that works on their ledger."""

from typing import Final

import msgspec

from orchestrator.api.runs.process_commands import ask_process, beside
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import LedgerBusyError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.actions.action_rows import Act, Ended, SubjectKind
from orchestrator.ledger.actions.asker import Asker
from orchestrator.ledger.commands.command_types import JOBS_THERE, PODS_THERE, Action, Argument, NewName
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.parsers.name_parsers import parse_run_name

_COLLECT_FIRST: Final = "collect them first (orchestrator resume), or give them up (orchestrator cancel)"
_END_FIRST: Final = "end it first (orchestrator runs tidy)"


class Renamed(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has another name now."""

    run: str
    was: str


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is gone, and how many jobs went with it."""

    run: str
    jobs: int


async def rename(ledger: LedgerAddress, name: str, to: str, dependencies: Dependencies | None = None) -> Renamed:
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
            async with given.holding_intakes(ledger)(run.name), given.holding_intakes(ledger)(to):
                await opened.runs.intakes.clear(to)
                await _carried_out(opened, Action.RENAME, run, given.asked, NewName(to))
        return Renamed(run=to, was=run.name)


async def delete(ledger: LedgerAddress, name: str, dependencies: Dependencies | None = None) -> Deleted:
    """Deletes the run `name` with everything that is known of it.

    Raises `UsageError` where there is no such run, a pod of it may still be paid, or jobs of it are at the service:
    unless the run is to be cancelled and nobody works on the ledger, who could see to that. Raises `LedgerBusyError` as
    `rename`.
    """
    given = dependencies or Dependencies()
    async with beside(ledger, given) as opened:
        run = await run_named(opened, name)
        async with given.holding_intakes(ledger)(run.name):
            await opened.runs.intakes.clear(run.name)
            counts = await opened.runs.counts(run.id)
            try:
                async with given.lock(ledger, now=given.clock.now(), doing="runs delete"):
                    if not await opened.runs.take_back(run.id):
                        has_pods = bool(await opened.runs.pod_leases.all(run=run.id, open_only=True))
                        why = f"{PODS_THERE}; {_END_FIRST}" if has_pods else f"{JOBS_THERE}; {_COLLECT_FIRST}"
                        raise UsageError(f"{run.name}: {why}")
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
