"""Who works on a ledger, or stands by, and what each has (`status --processes`)."""

from collections.abc import Sequence
from typing import Final

import anyio

from orchestrator.core.gates.gates import Gate
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.ledger.administration.present_processes import PresentProcesses
from orchestrator.ledger.administration.server_inspection import ServerInspection
from orchestrator.ledger.holder_text import who_and_since
from orchestrator.ledger.runs.heartbeats import Heartbeat, at_work
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.views.processes import LackShown, LedgerProcesses, ProcessShown

BEAT_S: Final = 1.5
"""Within this time whoever lives beats at least once."""


async def processes(ledger: LedgerAddress, dependencies: Dependencies | None = None) -> LedgerProcesses:
    """Those of the ledger, which on a server are looked at twice. Raises `UsageError` where there is none."""
    given = dependencies or Dependencies()
    async with read_ledger(ledger, clock=given.clock, connect=given.connect_to(ledger)) as opened:
        present = None if opened.server is None else await observed_processes(opened.server, within_s=BEAT_S)
        if present is not None:
            heard = at_work(await opened.runs.heartbeats.all(), opened.now(), since=0)  # also who has nothing
            lacking = {each.epoch: each.report.lacks for each in heard}
            present = present.heard({each.epoch: each.beaten_at for each in heard})
            return present.shown(str(ledger), await _lacks(opened, heard), lacking)
        held_by = await opened.holder()
        beats = await opened.beats_at_work(held_by)
        lacks = await _lacks(opened, beats)
        return LedgerProcesses(ledger=str(ledger), processes=tuple(await _of_file(opened, held_by, beats)), lacks=lacks)


async def observed_processes(server: ServerInspection, *, within_s: float) -> PresentProcesses:
    """The processes of a ledger on `server`, of which it is known whether they beat within that time."""
    before = await server.processes()
    if not before.processes:
        return before
    await anyio.sleep(within_s)
    return (await server.processes()).looked_at_again(before)


async def _of_file(ledger: Ledger, held_by: str | None, beats: Sequence[Heartbeat]) -> list[ProcessShown]:
    if held_by is None:
        return []
    who, since = who_and_since(held_by)
    said_at = max((each.beaten_at for each in beats), default=None)
    return [ProcessShown(process=who, since=since or ledger.now(), reported_at=said_at)]


async def _lacks(ledger: Ledger, beats: Sequence[Heartbeat]) -> tuple[LackShown, ...]:
    held = [
        (run, beat.process, said.blocked_by.why)
        for beat in beats
        for run, said in beat.report.runs.items()
        if said.blocked_by is not None and said.blocked_by.gate == Gate.UNSERVABLE
    ]
    names = {run.id: run.name for run in await ledger.runs.all([run for run, _, _ in held])} if held else {}
    return tuple(LackShown(run=names[run], process=process, why=why) for run, process, why in held if run in names)
