"""A ledger on a server: owned by one process at a time, lost to another one that takes its place."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from sqlalchemy import Result, text

from orchestrator.clock import Clock
from orchestrator.ledger import migrations
from orchestrator.ledger.administration import roles
from orchestrator.ledger.administration.server_inspection import ServerInspection
from orchestrator.ledger.holder_text import left_behind, older_owner_error, since_then
from orchestrator.ledger.postgres.connection import Connect, connecting, server_driver, way_of
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.postgres.identity.ledger_identity import LedgerIdentity
from orchestrator.ledger.postgres.identity.tables_found import version_found
from orchestrator.ledger.postgres.server_clock import server_time
from orchestrator.ledger.processes.processes import statement_of
from orchestrator.ledger.processes.server_locks import ServerIntakeLock, server_intake_lock
from orchestrator.ledger.processes.tenure import tenure_of
from orchestrator.ledger.processes.this_process import THIS_PROCESS, ThisProcess
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION, metadata
from orchestrator.ledger.schema.retirement import COPIED_TO, RETIRED, refuse_unknown, retired_error
from orchestrator.ledger.sites.sent_marks import Boot
from orchestrator.ledger.sites.site import LedgerPlace, Owners, Ownership
from orchestrator.ledger.sites.slot_marks import Latest, SlotFiles, SlotMarks
from orchestrator.ledger.sites.webhook_key import noted_key
from orchestrator.settings.addresses.ledger_address import LedgerUrl

# Only as long as it has a connection: what becomes of one that has none is seen by who bids.
_HAVE: Final = """
SELECT {what} FROM leases JOIN processes ON processes.id = owner {of}
WHERE {{is_connected}} ORDER BY shard
"""
_OF_ENDPOINTS: Final = "JOIN endpoints ON {its_shard} = shard"
_ANYBODY: Final = text(statement_of(_HAVE.format(what="name, taken_at", of="")))
_AT_ENDPOINT: Final = text(
    statement_of(_HAVE.format(what="name, taken_at", of=f"{_OF_ENDPOINTS} AND endpoints.id = :endpoint"))
)
_EACH: Final = text(statement_of(_HAVE.format(what="endpoints.id, name, taken_at", of=_OF_ENDPOINTS)))
_TAKEN_AT: Final = text("SELECT taken_at FROM leases WHERE owner IS NOT NULL AND shard = 0")

OWNED_SINCE: Final = "0053"
"""Older tables have no room for who works on it, and stands by."""


class ServerSite:
    """That of the schema at `address`, for the process `here`. With `patience_s` it is there to be read only."""

    is_fixed = False
    """Who may do what is the server's to say."""

    def __init__(
        self,
        address: LedgerUrl,
        *,
        connect: Connect | None = None,
        patience_s: float | None = None,
        here: ThisProcess | None = None,
    ) -> None:
        self.address = address
        self._given = connect
        self._connect = connect or connecting(address)
        self._patience_s = patience_s
        self._here = here or THIS_PROCESS
        self._database: ServerDatabase | None = None
        self.ownership: Ownership | None = None

    @property
    def database(self) -> ServerDatabase:
        """The schema, connected to once it is asked."""
        if self._database is None:
            self._database = ServerDatabase(str(self.address), self._connect, metadata, patience_s=self._patience_s)
        return self._database

    async def aclose(self) -> None:
        """Closes its database, if it was asked for."""
        if self._database is not None:
            await self._database.aclose()

    async def version(self) -> str | None:
        """That of the tables; None where there are none. Raises `UsageError` where others' are, or ours cannot be."""
        found = await version_found(self.database, self.address)
        if found == RETIRED:
            async with self.database.reading() as view:
                raise retired_error(self.address, (await view.execute(text(COPIED_TO))).scalar_one())
        return found

    async def make_room(self) -> None:
        """Its schema."""
        connect = self._given or connecting(roles.without_schema(self.address), named=self.address)
        beside = ServerDatabase(str(self.address), connect, metadata)
        try:
            async with beside.changing() as connection:
                await roles.make_schema(connection, self.address.schema)
        finally:
            await beside.aclose()

    async def migrate(self) -> None:
        """Under the ledger's lock, so that two who do it at once wait for each other."""
        await self.version()
        await migrations.migrate_server(self.database)

    @asynccontextmanager
    async def holding(
        self,
        *,
        now: int,  # noqa: ARG002  the server has its own
        doing: str = "",
    ) -> AsyncIterator[None]:
        """As its owner. Where there are no tables yet, they are made first: a row of one says who owns it."""
        self.refuse_abandoned()
        try:
            await self._make_room_for_owners()
        finally:
            await self.aclose()
            self._database = None
        name, process = str(self.address), self._here.called(doing)
        async with tenure_of(name, self._connect, process, here=self._here):
            yield

    async def _make_room_for_owners(self) -> None:
        found = await self.version()
        refuse_unknown(self.address, found)
        if found == SCHEMA_VERSION:
            return
        if found is not None:
            holder = await self.holder()
            if holder is None:
                await self.inspection.check_upgrade()
            if found >= OWNED_SINCE:
                return
            if holder is not None:
                raise older_owner_error(f"{self.address}:", holder)
        await self.migrate()

    @asynccontextmanager
    async def holding_intake(self, run: str, *, now: int) -> AsyncIterator[ServerIntakeLock]:  # noqa: ARG002  the server has its own
        """By another one."""
        async with server_intake_lock(str(self.address), self._connect, run) as lock:
            yield lock

    async def holder(self, endpoint: int | None = None) -> str | None:
        """As the ledger says."""
        given = None if endpoint is None else {"endpoint": endpoint}
        row = await self.database.asked(_ANYBODY if endpoint is None else _AT_ENDPOINT, given, Result.first)
        return None if row is None else since_then(row.name, row.taken_at)

    async def owners(self, held_by: str) -> Owners:  # noqa: ARG002  others may have the most of it
        """As the ledger says."""
        rows = await self.database.asked(_EACH, None, Result.all)
        return Owners(at={row.id: since_then(row.name, row.taken_at) for row in rows})

    async def taken_at(self) -> int | None:
        """When the keeper became that; None where there is none."""
        at: int | None = await self.database.asked(_TAKEN_AT, None, Result.scalar)
        return at

    def is_locked_here(self) -> bool:
        """Whether we own it."""
        return str(self.address) in self._here.owners

    def refuse_abandoned(self) -> None:
        """See `left_behind`."""
        owner = self._here.owners.get(str(self.address))
        if owner is not None and owner.loop.is_closed():
            raise left_behind(f"{self.address}:")

    async def accept_lost_commits(self) -> bool:
        """Notes that they are accepted."""
        return await LedgerIdentity(self.database).accept_loss()

    @property
    def inspection(self) -> ServerInspection:
        """What the server tells this role."""
        return ServerInspection(
            database=self.database, address=self.address, way_there=lambda view: way_of(server_driver(view))
        )

    async def grants(self) -> Mapping[str, Sequence[str]]:
        """By the role whose the tables are."""
        async with self.database.reading() as view:
            return await roles.grants(view, self.address)

    def place(self) -> LedgerPlace:
        """Lost once another process has what we had of it."""
        return self._here.owners.get(str(self.address)) or OthersPlace()

    def own(self) -> None:
        """With each transaction it is proved from now on that we were not declared dead, if we own anything."""
        self.ownership = owner = self._here.owners.get(str(self.address))
        if owner is not None:
            self.database.fence = owner.fence

    def timed(self, clock: Clock) -> AbstractAsyncContextManager[Clock]:
        """The server's, where `clock` is this machine's."""
        return server_time(self.database, clock)

    async def marks(self, boot: Boot, latest: Latest) -> SlotMarks:
        """Those in files of this machine, our own in that of our slot."""
        slot = 0 if self.ownership is None else self.ownership.slot
        files = SlotFiles(self.address, LedgerIdentity(self.database), boot(), latest)
        return SlotMarks(*await files.own_of(slot), slot=slot, files=files)

    def hurry(self) -> None:
        """Tries for a moment only from now on to reach a server that is away."""
        self.database.line.hurry()

    async def webhook_key(self, environ: Mapping[str, str]) -> bytes:
        """That of the environment, or in a file of this machine; the ledger has its fingerprint."""
        return await noted_key(self.address, self.key_notes, environ)

    @property
    def key_notes(self) -> LedgerIdentity:
        """In the ledger itself."""
        return LedgerIdentity(self.database, 0 if self.ownership is None else self.ownership.number)


class OthersPlace:
    """A ledger of which this process has nothing."""

    def lost(self) -> None:
        """Nothing can be."""
