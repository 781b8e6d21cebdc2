"""A ledger on a server: held by a lock of a session there, lost with that session."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from orchestrator.clock import Clock
from orchestrator.ledger import migrations
from orchestrator.ledger.postgres import server_locks
from orchestrator.ledger.postgres.connection import Connect, connecting
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.postgres.server_clock import server_time
from orchestrator.ledger.postgres.tables import tables_version
from orchestrator.ledger.postgres.tables_found import tables_found
from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.ledger.sqlite.sent_marks import Boot, Marks
from orchestrator.settings.addresses.ledger_address import LedgerUrl


class ServerSite:
    """That of the schema at `address`. With `patience_s` its database is there to be read only."""

    is_fixed = False
    """Who may do what is the server's to say."""

    def __init__(self, address: LedgerUrl, *, connect: Connect | None = None, patience_s: float | None = None) -> None:
        self.address = address
        self._connect = connect or connecting(address)
        self._patience_s = patience_s
        self._database: ServerDatabase | None = None

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
        if not await tables_found(self.database, self.address):
            return None
        async with self.database.reading() as view:
            return await view.run_sync(tables_version)

    async def migrate(self) -> None:
        """Under the ledger's lock, so that two who do it at once wait for each other."""
        await self.version()
        await migrations.migrate_server(self.database)

    @asynccontextmanager
    async def holding(self, *, now: int, doing: str = "") -> AsyncIterator[None]:  # noqa: ARG002  the server has its own
        """By a lock of a session."""
        async with server_locks.server_lock(self.address, self._connect, doing=doing):
            yield

    @asynccontextmanager
    async def holding_intake(self, run: str, *, now: int) -> AsyncIterator[None]:  # noqa: ARG002  the server has its own
        """By another one."""
        async with server_locks.server_intake_lock(self._connect, run):
            yield

    async def holder(self) -> str | None:
        """As the server shows the connection that has the lock."""
        found = await server_locks.session_holder(self.database)
        return None if found is None else server_locks.holder_text(*found)

    async def taken_at(self) -> int | None:
        """When that connection was made; None where nobody has the lock, or the server does not tell this role."""
        found = await server_locks.session_holder(self.database)
        return None if found is None else found[1]

    def is_locked_here(self) -> bool:
        """Whether the lock is ours."""
        return server_locks.is_session_ours(self.address)

    def refuse_abandoned(self) -> None:
        """See `left_behind`."""
        server_locks.refuse_abandoned_session(self.address)

    def place(self) -> "ServerPlace":
        """The session that keeps others away, if it is ours."""
        return ServerPlace(self.address)

    def timed(self, clock: Clock) -> AbstractAsyncContextManager[Clock]:
        """The server's, where `clock` is this machine's."""
        return server_time(self.database, clock)

    async def marks(self, boot: Boot, *, latest: int) -> tuple[Marks, str | None]:  # noqa: ARG002  they are of no use yet
        """Some that nobody finds after this process."""
        return Marks.unkept(floor=latest), f"{self.address}: what has left is marked beside a file, and this is none"


class ServerPlace:
    """The session by which this process holds the ledger at `address`."""

    def __init__(self, address: LedgerUrl) -> None:
        self._address = address

    def lost(self) -> str | None:
        """That it is cut."""
        return server_locks.why_lost(self._address)

    async def look(self) -> None:
        """Asks the server now and then."""
        await server_locks.ask_session(self._address)
