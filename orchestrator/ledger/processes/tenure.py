"""The time for which a process owns all of a ledger on a server: how it takes it, and lets go.

It is one of the ledger's processes (`membership.py`), and has all of its shards, once nobody has any: whoever has the
keeper's takes the others, and who finds one taken takes none.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

from orchestrator.core.ownership.beat_watch import SILENCE_US
from orchestrator.core.ownership.lease import BEAT_US
from orchestrator.core.ownership.shard_bids import KEEPERS
from orchestrator.errors import LedgerBusyError
from orchestrator.ledger.holder_text import since_then
from orchestrator.ledger.postgres.connection import Connect
from orchestrator.ledger.processes.leases import LedgerSighting
from orchestrator.ledger.processes.lookout import LOOK_S, Lookout
from orchestrator.ledger.processes.membership import NOTHING_LEFT, Farewell, membership_of
from orchestrator.ledger.processes.owners_line import OwnersLine, line_errors
from orchestrator.ledger.processes.processes import Process, ProcessKind, ProcessName
from orchestrator.ledger.processes.shard_owner import ShardOwner
from orchestrator.ledger.processes.this_process import THIS_PROCESS, ThisProcess
from orchestrator.units import SECOND_US

log = logging.getLogger(__name__)


class Tenure(ShardOwner):
    """Of a process that has all shards of a ledger, once it has taken them."""

    async def take_all(self) -> bool:
        """Takes the keeper's shard, after which no other process takes any, and then the rest. Returns whether it has
        all; where another one has a part, it has nothing.
        """
        await self.take([KEEPERS])
        seen = await self.look()
        if not any(taken.shard == KEEPERS for taken in self.shards):
            return False
        if not self._has_others(seen):
            await self.take(lease.shard for lease in seen.leases if lease.owner is None)
            seen = await self.look()  # whoever was taking some of it before we had the keeper's may have them only now
        if self._has_others(seen):
            for taken in tuple(self.shards):
                await self.give(taken)
            return False
        return True

    def _has_others(self, seen: LedgerSighting) -> bool:
        """Whether another process has a part of the ledger."""
        return any(lease.owner not in (None, self.number) for lease in seen.leases)

    async def serve(self) -> None:
        """Takes each shard that there is later, until cancelled, and looks after the other processes."""
        while True:
            await anyio.sleep(BEAT_US / SECOND_US)
            try:
                with self.refusals.watching():
                    seen = await self.look()
                    await self.take(lease.shard for lease in seen.leases if lease.owner is None)
            except Exception as error:  # noqa: BLE001  what the driver raises for a lost line is as varied as its moments
                log.info("which shards nobody has is unknown: %s", error)


@asynccontextmanager
async def tenure_of(
    name: str,
    connect: Connect,
    process: ProcessName,
    *,
    here: ThisProcess = THIS_PROCESS,
) -> AsyncIterator[Tenure]:
    """The process `here`, called `process`, owns the ledger called `name` while the block runs, unless it loses it.

    Raises `LedgerBusyError`, which says who owns it, or a part of it. One whose connections have ended is waited for:
    it counts as gone once its beat has stood still for long enough. Raises `StorageError` where the server refuses.
    """
    line = OwnersLine(connect, process)
    try:
        async with _Candidate(name, connect, process, line, here) as candidate:
            with line_errors(name):
                tenure = await candidate.taken()
            serving = asyncio.ensure_future(tenure.serve())  # noqa: TID251  as beats are
            here.owners[name] = tenure
            try:
                yield tenure
            finally:
                del here.owners[name]
                serving.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([serving])
    finally:
        line.end()


class _Candidate(AsyncExitStack):
    """A `process` that is to own the ledger called `name`: one of its processes as long as it owns it."""

    def __init__(
        self,
        name: str,
        connect: Connect,
        process: ProcessName,
        line: OwnersLine,
        here: ThisProcess,
    ) -> None:
        super().__init__()
        self._name = name
        self._connect = connect
        self._process = process
        self._line = line
        self._here = here
        self._lookout = Lookout(line, here.elapsed)
        self._tenure: Tenure | None = None
        self._met: Process | None = None
        self._began_at = here.elapsed()

    async def taken(self) -> Tenure:
        """The ledger, once it is nobody's, or its owner's beat has stood still for long enough."""
        while (tenure := await self._look()) is None:  # noqa: ASYNC110  the ledger tells nobody
            await anyio.sleep(LOOK_S)
        return tenure

    async def _look(self) -> Tenure | None:
        seen = await self._lookout.look(None)
        held = next((lease for lease in seen.leases if lease.owner is not None), None)
        if held is None:
            return await self._tried()
        if (owner := seen.processes.get(held.owner or 0)) is not None:
            await self._meet(owner, since_then(owner.name, held.taken_at or owner.began_at))
        return None

    async def _tried(self) -> Tenure | None:
        """It joins and takes all. None, and it has left, where another one was faster, or there is no room yet: some of
        the others may be dead.
        """
        try:
            membership = await self.enter_async_context(
                membership_of(self._name, self._connect, self._process, self._here, self._farewell, ProcessKind.ALONE)
            )
        except LedgerBusyError:
            if self._here.elapsed() - self._began_at <= 2 * SILENCE_US:
                return None
            raise
        self._tenure = Tenure(membership, self._lookout, self._line, self._here.elapsed)
        if await self._tenure.take_all():
            return self._tenure
        await self.aclose()
        return None

    def _farewell(self) -> Farewell:
        return NOTHING_LEFT if self._tenure is None else self._tenure.farewell()

    async def _meet(self, owner: Process, text: str) -> None:
        before, self._met = self._met, owner
        if (before is not None and before.beat != owner.beat) or await self._is_connected(owner):
            raise LedgerBusyError(
                f"{self._name}: {text} is working on this ledger; wait for it, stop it, or use another <setting ledger>"
            )

    async def _is_connected(self, owner: Process) -> bool:
        async with self._line.asking() as asked:
            return await asked.processes.is_connected(owner)
