"""The time for which a process owns a ledger on a server: how it waits for it, takes it, and lets go.

It is one of the ledger's processes (`membership.py`), and has all of its shards: whoever has the keeper's takes the
others, and who waits for it takes none.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import anyio

from orchestrator.core.ownership.beat_watch import SILENCE_US
from orchestrator.core.ownership.lease import BEAT_US, GONE_US
from orchestrator.errors import LedgerBusyError
from orchestrator.ledger.holder_text import since_then
from orchestrator.ledger.postgres.connection import Connect
from orchestrator.ledger.processes.leases import KEEPERS, LeaseRow, TakenShard
from orchestrator.ledger.processes.lookout import Lookout
from orchestrator.ledger.processes.membership import Membership, membership_of
from orchestrator.ledger.processes.owners_line import OwnersLine
from orchestrator.ledger.processes.processes import Process, ProcessName
from orchestrator.ledger.processes.this_process import THIS_PROCESS, ThisProcess
from orchestrator.units import SECOND_US

log = logging.getLogger(__name__)

LOOK_S: Final = 0.25
"""How often whoever stands by looks."""


class Tenure:
    """Of the process of that `membership`, which has all shards of a ledger, once it has taken them."""

    def __init__(self, membership: Membership, line: OwnersLine, *, now: Callable[[], int]) -> None:
        self.membership = membership
        self._line = line
        self._now = now
        self._taken: dict[TakenShard, int] = {}
        """Its shards, and since when by the clock `now`."""

        self.loop = asyncio.get_running_loop()
        self.is_successor = False
        """Whether it took the place of a process that did not let go: requests of that one may still be under way."""

    @property
    def why_lost(self) -> str | None:
        """Why it owns the ledger no more, once that is known."""
        return self.membership.why_lost

    @property
    def fence(self) -> str:
        """The statement that finds one row as long as it owns the ledger, and keeps it so for its transaction."""
        return self.membership.number.fence

    def may_leave(self) -> bool:
        """Whether anything may leave for the service now."""
        return self.membership.may_leave()

    async def take(self, leases: Sequence[LeaseRow]) -> bool:
        """Takes what nobody has of `leases`, once it has the keeper's, and that first. Returns whether it has."""
        number = self.membership.number
        self._own(lease.as_taken for lease in leases if lease.owner == number.id)
        free = [lease.shard for lease in leases if lease.owner is None]
        for shards in ([each for each in free if each == KEEPERS], [each for each in free if each != KEEPERS]):
            if shards:
                async with self._line.asking() as asked:
                    self._own(await asked.leases.take(number, shards))
            if not any(taken.shard == KEEPERS for taken in self._taken):
                return False
        return True

    def _own(self, taken: Iterable[TakenShard]) -> None:
        """It has these, whether or not it was told when it took them."""
        for each in taken:
            self._taken.setdefault(each, self._now())
            self.is_successor |= each.was_left

    async def serve(self, lookout: Lookout) -> None:
        """Takes each shard that there is later, until cancelled, and looks after those who stand by."""
        while True:
            await anyio.sleep(BEAT_US / SECOND_US)
            try:
                seen = await lookout.look(self.membership.number.id)
                await self.take(seen.leases)
            except Exception as error:  # noqa: BLE001  what the driver raises for a lost line is as varied as its moments
                log.info("which shards nobody has is unknown: %s", error)

    def settled(self) -> list[int]:
        """The shards of which nothing can be under way any more that an owner has sent which was declared dead."""
        return [taken.shard for taken, since in self._taken.items() if self._now() - since >= GONE_US]


@asynccontextmanager
async def tenure_of(
    name: str,
    connect: Connect,
    process: ProcessName,
    *,
    here: ThisProcess = THIS_PROCESS,
    stands_by: Callable[[str], object] | None = None,
) -> AsyncIterator[Tenure]:
    """The process `here`, called `process`, owns the ledger called `name` while the block runs, unless it loses it.

    Raises `LedgerBusyError`, which says who owns it. With `stands_by`, which is called with that and with each further
    owner, it waits for the end of that one instead, and takes its place. One whose connections have ended counts as
    gone once its beat has stood still for long enough.
    """
    line = OwnersLine(connect, process)
    try:
        async with _Candidate(name, connect, process, line, here, stands_by) as candidate:
            tenure = await candidate.taken()
            serving = asyncio.ensure_future(tenure.serve(candidate.lookout))  # noqa: TID251  as beats are
            here.tenures[name] = tenure
            try:
                yield tenure
            finally:
                del here.tenures[name]
                serving.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([serving])
    finally:
        line.end()


class _Candidate(AsyncExitStack):
    """A `process` that is to own the ledger called `name`: one of its processes while it waits for another one, and as
    long as it owns it.
    """

    def __init__(
        self,
        name: str,
        connect: Connect,
        process: ProcessName,
        line: OwnersLine,
        here: ThisProcess,
        stands_by: Callable[[str], object] | None,
    ) -> None:
        super().__init__()
        self._name = name
        self._connect = connect
        self._process = process
        self._line = line
        self._here = here
        self._stands_by = stands_by
        self.lookout = Lookout(line, here.elapsed)
        self._tenure: Tenure | None = None
        self._met: Process | None = None
        self._began_at = here.elapsed()

    async def taken(self) -> Tenure:
        """The ledger, once it is nobody's, or its owner's beat has stood still for long enough."""
        tenure = await self._look()
        while tenure is None:
            await anyio.sleep(LOOK_S)
            try:
                tenure = await self._look()
            except LedgerBusyError:
                raise
            except Exception as error:
                if self._stands_by is None:
                    raise
                log.info("%s: who owns this ledger is unknown: %s", self._name, error)
        return tenure

    async def _look(self) -> Tenure | None:
        me = None if self._tenure is None else self._tenure.membership.number.id
        seen = await self.lookout.look(me)
        keepers = seen.leases[0]
        if keepers.owner in (None, me):
            tenure = await self._joined()
            return tenure if tenure is not None and await tenure.take(seen.leases) else None
        if (owner := seen.processes.get(keepers.owner)) is not None:
            await self._meet(owner, since_then(owner.name, keepers.taken_at or owner.began_at))
        return None

    async def _joined(self) -> Tenure | None:
        """It is one of the ledger's processes, also where it was declared dead meanwhile; None where there is no room
        yet: some of the others may be dead.
        """
        if self._tenure is not None and self._tenure.why_lost is not None:
            await self.aclose()
            self._tenure = None
        if self._tenure is None:
            try:
                membership = await self.enter_async_context(
                    membership_of(self._name, self._connect, self._process, self._here, self._settled)
                )
            except LedgerBusyError:
                if self._here.elapsed() - self._began_at <= 2 * SILENCE_US:
                    return None
                raise
            self._tenure = Tenure(membership, self._line, now=self._here.elapsed)
        return self._tenure

    def _settled(self) -> list[int]:
        return [] if self._tenure is None else self._tenure.settled()

    async def _meet(self, owner: Process, text: str) -> None:
        before, self._met = self._met, owner
        if self._stands_by is not None:
            if before is None or before.id != owner.id:
                self._stands_by(text)
            await self._joined()
        elif (before is not None and before.beat != owner.beat) or await self._is_connected(owner):
            raise LedgerBusyError(
                f"{self._name}: {text} is working on this ledger; wait for it, stop it, or use another <setting ledger>"
            )

    async def _is_connected(self, owner: Process) -> bool:
        async with self._line.asking() as asked:
            return await asked.processes.is_connected(owner)
