"""A process of a ledger on a server, with the shards that it has: what it sees, takes, asks for and gives away."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import anyio
import msgspec

from orchestrator.core.ownership.beat_watch import SILENCE_US
from orchestrator.core.ownership.handover import EndpointsLeft
from orchestrator.core.ownership.lease import GONE_US
from orchestrator.core.ownership.shard_bids import Pair
from orchestrator.errors import LedgerBusyError
from orchestrator.ledger.postgres.connection import Connect
from orchestrator.ledger.processes.leases import LedgerSighting, TakenShard
from orchestrator.ledger.processes.lookout import LOOK_S, Lookout
from orchestrator.ledger.processes.membership import NOTHING_LEFT, Farewell, Membership, membership_of
from orchestrator.ledger.processes.owners_line import OwnersLine
from orchestrator.ledger.processes.processes import ProcessKind, ProcessName
from orchestrator.ledger.processes.shard_needs import ShardNeeds
from orchestrator.ledger.processes.this_process import THIS_PROCESS, ThisProcess
from orchestrator.ledger.schema.retirement import RETIRED, refuse_unknown, retired_error
from orchestrator.units import SECOND_US

ASKED_SHARE: Final = 20
"""What took so long to answer is asked again after so many times that."""

NEEDS_US: Final = SECOND_US
"""So old what there is to do may be where nobody has signalled anything: that a run has ended is nobody's hurry."""


class ShardOwner:
    """The process of that `membership`, which asks by `line`. `elapsed` tells its time."""

    def __init__(self, membership: Membership, lookout: Lookout, line: OwnersLine, elapsed: Callable[[], int]) -> None:
        self._membership = membership
        self._lookout = lookout
        self._line = line
        self.elapsed = elapsed
        self._since: dict[TakenShard, int] = {}
        """The shards that it has, and since when."""

        self._needs = ShardNeeds()
        self._seen_version = self._needs_version = ""
        self._needs_due_at = 0
        self._needs_at = 0
        self.endpoints_left = EndpointsLeft()
        self.refusals = membership.refusals()
        """Of what it looks for again and again."""

        self.loop = asyncio.get_running_loop()

    @property
    def number(self) -> int:
        """What the ledger knows it by; never that of another one."""
        return self._membership.number.id

    @property
    def slot(self) -> int:
        """Its own among those that live."""
        return self._membership.number.slot

    @property
    def why_lost(self) -> str | None:
        """Why it has nothing any more, once that is known."""
        return self._membership.why_lost

    @property
    def is_refused(self) -> bool:
        """Whether the server has let it in no more, and that is why."""
        return self._membership.is_refused

    def lost(self) -> str | None:
        """`why_lost`, of the ledger as its place."""
        return self.why_lost

    @property
    def fence(self) -> str:
        """The statement that finds one row as long as it was not declared dead, and keeps it so for its transaction."""
        return self._membership.number.fence

    def may_leave(self) -> bool:
        """Whether anything may leave for the service now."""
        return self._membership.may_leave()

    @property
    def shards(self) -> Collection[TakenShard]:
        """Those that it has, as far as it knows."""
        return self._since.keys()

    @property
    def is_successor(self) -> bool:
        """Whether an owner before it did not let go: requests of that one may still be under way."""
        return any(taken.was_left for taken in self.shards)

    async def look(self) -> LedgerSighting:
        """How the ledger is found now, once those that beat no more are declared dead. Raises what the driver does."""
        seen = await self._lookout.look(self.number)
        mine = [lease.as_taken for lease in seen.leases if lease.owner == self.number]  # whatever it was told
        if not {_tenure_of(each) for each in mine}.issubset(map(_tenure_of, self._since)):
            self.endpoints_left.forget_all()
        self._has(mine)
        self._seen_version = seen.needs_version
        return seen

    async def needs(self, *, anew: bool = False) -> ShardNeeds:
        """What there is to do, as it was at the last `look`, unless it takes long to find out: `anew`, as it is now.
        Raises what the driver does.
        """
        began_at, version = self.elapsed(), self._seen_version  # what comes meanwhile is asked for again
        is_old = version != self._needs_version or began_at - self._needs_at >= NEEDS_US
        if anew or (is_old and began_at >= self._needs_due_at):
            async with self._line.asking() as asked:
                self._needs = await asked.leases.needs()
            now = self.elapsed()
            self._needs_version, self._needs_at = version, began_at
            self._needs_due_at = now + ASKED_SHARE * (now - began_at)
        return self._needs

    async def take(self, shards: Iterable[int]) -> None:
        """Takes those of `shards` that nobody has. Raises what the driver does; `look` tells what it has then.

        Raises `LedgerVersionError` where a newer program has brought the ledger to another schema meanwhile, and
        `LedgerRetiredError` where it was copied elsewhere.
        """
        async with self._line.asking() as asked:
            taken = await asked.leases.take(self._membership.number, shards)
            if not taken:
                if (found := await asked.leases.schema()) == RETIRED:
                    raise retired_error(self._membership.name, await asked.leases.copied_to())
                refuse_unknown(self._membership.name, found)
        for each in taken:
            self.endpoints_left.find(each.endpoints, each.handover)
        self._has([*self._since, *(msgspec.structs.replace(each, handover=None, endpoints=()) for each in taken)])

    async def give(self, taken: TakenShard) -> None:
        """Lets go of one, in which nothing of this process goes on any more. Raises what the driver does."""
        async with self._line.asking() as asked:
            is_settled, left = self.is_settled(taken), self.endpoints_left.text
            gone = await asked.leases.give(self._membership.number, taken, is_settled=is_settled, handover=left)
        if gone is not None:
            self.endpoints_left.forget(gone)
        self._has(each for each in tuple(self._since) if each != taken)

    async def ask_for(self, shard: int) -> None:
        """Asks its owner for a shard. Raises what the driver does."""
        async with self._line.asking() as asked:
            await asked.leases.want(self._membership.number, shard)

    async def ask_for_nothing(self) -> None:
        """Leaves to others what it has asked for and has not got. Raises what the driver does."""
        async with self._line.asking() as asked:
            await asked.leases.want_nothing(self._membership.number)

    async def merge(self, pair: Pair) -> None:
        """Makes one of two shards of its own, in which nothing goes on now. Raises what the driver does."""
        async with self._line.asking() as asked:
            is_one = await asked.leases.merge(self._membership.number, pair)
        if is_one:
            self._has(each for each in tuple(self._since) if each.shard != pair.high)

    def farewell(self) -> Farewell:
        """What it says as it ends."""
        return Farewell([taken.shard for taken in self._since if self.is_settled(taken)], self.endpoints_left.text)

    def _has(self, taken: Iterable[TakenShard]) -> None:
        self._since = {each: self._since.get(each, self.elapsed()) for each in taken}

    def is_settled(self, taken: TakenShard) -> bool:
        """Whether nothing can be under way any more that an owner before this one has sent, which was declared dead."""
        return not taken.was_left or self.elapsed() - self._since[taken] >= GONE_US


def _tenure_of(taken: TakenShard) -> tuple[int, int]:
    return taken.shard, taken.epoch


@asynccontextmanager
async def shard_owner_of(
    name: str,
    connect: Connect,
    process: ProcessName,
    *,
    here: ThisProcess = THIS_PROCESS,
    kind: ProcessKind = ProcessKind.SHARES,
) -> AsyncIterator[ShardOwner]:
    """The process `here`, called `process`, is one of those of the ledger called `name` while the block runs, of that
    `kind`: it beats, and at the end lets go of all that it has.

    Raises `LedgerBusyError` where there are too many, or it is one already. Those that are too many may be dead: they
    are watched for long enough.
    """
    if name in here.owners:
        raise LedgerBusyError(f"{name}: this process works on this ledger already")
    line = OwnersLine(connect, process)
    lookout = Lookout(line, here.elapsed, with_needs=True)
    owner: ShardOwner | None = None

    def farewell() -> Farewell:
        return NOTHING_LEFT if owner is None else owner.farewell()

    async def joined() -> Membership:
        until = here.elapsed() + 2 * SILENCE_US
        while True:
            try:
                return await held.enter_async_context(membership_of(name, connect, process, here, farewell, kind))
            except LedgerBusyError:
                if here.elapsed() > until:
                    raise
            await lookout.look(None)
            await anyio.sleep(LOOK_S)

    try:
        async with AsyncExitStack() as held:
            owner = ShardOwner(await joined(), lookout, line, here.elapsed)
            here.owners[name] = owner
            try:
                yield owner
            finally:
                del here.owners[name]
    finally:
        line.end()
