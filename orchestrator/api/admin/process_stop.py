"""Asks whoever works on a ledger to end (`orchestrator stop`), and waits for that: of several each, or one of them."""

from collections.abc import Collection, Mapping
from typing import Final

import anyio
import msgspec

from orchestrator.api.runs.process_commands import ask_process, asker_of, beside
from orchestrator.core.ownership.beat_watch import Beat, BeatWatch
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, who_and_since
from orchestrator.ledger.actions.asker import Asker
from orchestrator.ledger.administration.server_inspection import ServerInspection
from orchestrator.ledger.commands.command_types import OF_ANOTHER, Action, StoppedProcess
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.words_and_defaults import IN_FLIGHT_S_MAX
from orchestrator.units import SECOND_US

ENDED_S_MAX: Final = 2 * IN_FLIGHT_S_MAX
"""So long its end is waited for: what is in flight may take half of it."""

LOOK_S: Final = 0.1


class ProcessEnd(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking one process to end."""

    process: str
    ended: bool
    """Whether nothing of it is left. Else it was asked, and has not ended yet."""

    was_gone: bool = False
    """Whether it was dead already: it neither beats nor has a connection."""


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking for the end of whoever works on a ledger."""

    ledger: str
    was: str | None
    """Who worked on it; None where nobody did."""

    ended: bool
    """Whether nothing is left of those that were asked."""

    outcome: str | None = None
    """What it answered; None where it has not. Of several, the one that answered first."""

    holder: str | None = msgspec.field(default=None, name="held_by")
    """Who works on the ledger now, if anybody does."""

    processes: tuple[ProcessEnd, ...] = ()
    """Each that was asked, of a ledger on a server; the first that came first."""


async def stop(
    ledger: LedgerAddress,
    name: str | None = None,
    dependencies: Dependencies | None = None,
    *,
    within_s: float = ENDED_S_MAX,
) -> Stopped:
    """Asks whoever works on the ledger to end, and whoever waits to take its place, and waits for it for so long. On a
    server that are all of its processes, or the one whose name has `name` in it.

    Raises `UsageError` where there is no ledger, where a program of somebody's works on it, which ends itself, and
    where not exactly one process has that name.
    """
    async with beside(ledger, dependencies) as opened:
        was, asked = await opened.holder(), asker_of(dependencies)
        if opened.server is not None:
            return await _stop_several(opened, opened.server, was, name, asked, within_s)
        if name is not None:
            _named(name, {0: was} if was else {}, str(ledger))
        if was is None:
            return Stopped(ledger=str(ledger), was=None, ended=True)
        answer = await ask_process(opened, Action.STOP, asked=asked)
        with anyio.move_on_after(within_s):
            while await opened.holder() == was:  # noqa: ASYNC110  the system has no event for it
                await anyio.sleep(LOOK_S)
        now = await opened.holder()
        return Stopped(ledger=str(ledger), was=was, ended=now != was, outcome=answer.outcome, holder=now)


async def _stop_several(
    ledger: Ledger, server: ServerInspection, was: str | None, name: str | None, asked: Asker, within_s: float
) -> Stopped:
    found = (await server.processes()).names
    chosen = found if name is None else _named(name, found, str(ledger.address))
    if not chosen:
        return Stopped(ledger=str(ledger.address), was=None, ended=True)
    if name is None:
        commands = dict.fromkeys(chosen, await ledger.commands.ask(Action.STOP, asked=asked))
    else:
        commands = {
            number: await ledger.commands.ask(Action.STOP_PROCESS, argument=StoppedProcess(number), asked=asked)
            for number in chosen
        }
    left, were_gone = await _left(server, chosen, within_s)
    answers = {number: await ledger.commands.one(command) for number, command in commands.items()}
    refused = next((each for each in answers.values() if each.is_refused and each.code != OF_ANOTHER.code), None)
    if refused is not None and left:
        raise UsageError(f"{', '.join(chosen[number] for number in left)}: {refused.outcome}")
    ends = tuple(
        ProcessEnd(process=process, ended=number not in left, was_gone=number in were_gone)
        for number, process in chosen.items()
    )
    first = next(iter(answers.values()))
    return Stopped(
        ledger=str(ledger.address),
        was=was or ends[0].process,
        ended=not left,
        outcome=first.outcome,
        holder=await ledger.holder(),
        processes=ends,
    )


async def _left(
    server: ServerInspection, chosen: Collection[int], within_s: float
) -> tuple[Collection[int], Collection[int]]:
    """Those of these processes that are there still after that time, and those that were dead before they were asked:
    nobody may be there who would declare them so.
    """
    left, were_gone, watch, first = list(chosen), set[int](), BeatWatch(), dict[int, int]()
    with anyio.move_on_after(within_s):
        while left:
            asked_at, present = _now(), await server.processes()
            now, beats = _now(), dict(present.beats)
            first = first or beats
            if now - asked_at > SECOND_US:  # nobody could beat, perhaps
                watch = BeatWatch()
            watch.saw((Beat(*beat) for beat in present.beats), now)
            connected = {number for number, each in zip(beats, present.processes, strict=True) if each.is_connected}
            dead = dict(beat for beat in watch.silent(now) if beat.process not in connected)
            were_gone |= {number for number, beat in dead.items() if beat == first.get(number)}
            left = [number for number in left if number in beats and number not in dead]
            if left:
                await anyio.sleep(LOOK_S)
    return left, were_gone


def _now() -> int:
    return round(anyio.current_time() * SECOND_US)


def _named(name: str, processes: Mapping[int, str], ledger: str) -> Mapping[int, str]:
    """The one of these that is called so, or has it in its name. Raises `UsageError`."""
    names = {number: who_and_since(process)[0] for number, process in processes.items()}
    found = {number: process for number, process in processes.items() if names[number] == name}
    found = found or {number: process for number, process in processes.items() if name in names[number]}
    if len(found) != 1:
        known = "; ".join(names.values())
        which = f"{len(found)} processes have {name!r} in their names" if found else f"no process is called {name!r}"
        raise UsageError(f"{ledger}: {which}; " + (f"there are: {known}" if known else "nobody works on it"))
    return found
