"""The doors to a ledger on a server: to write, to read, and to ask one question.

One transaction writes at a time, whoever's it is: each takes the ledger's lock first, as SQLite's writers do. It also
counts in the row of its process, by which the others notice it.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
from sqlalchemy import Executable, MetaData, Result, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool
from sqlalchemy.util import await_only, greenlet_spawn

from orchestrator.errors import StorageError, UsageError
from orchestrator.ledger.database import BUSY_TIMEOUT_MS, Found, Parameters, Size
from orchestrator.ledger.postgres import statements as _statements  # noqa: F401  how it says what is executed on it
from orchestrator.ledger.postgres.connection import ALWAYS, Connect, Driver, Settings, is_lost, read_sums, server_driver
from orchestrator.ledger.postgres.dialect import COMPILED, URL
from orchestrator.ledger.postgres.feed_horizon import FeedHorizon
from orchestrator.ledger.postgres.server_errors import lost, shielded
from orchestrator.ledger.postgres.tables import orphans_of

READERS_MAX: Final = 4
STATEMENTS_KEPT: Final = 500
"""Statements that a connection has prepared; more than the ledger has."""

DAMAGE_ROWS_MAX: Final = 100
"""So many faults of each kind are asked for; more say nothing new."""

_LOCK: Final = "SELECT pg_advisory_xact_lock(1869767528, to_regnamespace(current_schema())::oid::int)"
"""The ledger's lock: no other program's, and no other schema's. It is let go of with the transaction."""

_BEGIN: Final = f"BEGIN; {_LOCK}"
_VIEW: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_JOIN: Final = "INSERT INTO writers DEFAULT VALUES RETURNING id"
_LEAVE: Final = (
    "WITH gone AS (DELETE FROM writers WHERE id = $1 RETURNING seq)"
    " UPDATE writers SET seq = writers.seq + gone.seq FROM gone WHERE id = 0"
)
_OTHERS: Final = text("SELECT coalesce(sum(seq), 0)::bigint FROM writers WHERE id <> :me")
_STRUCTURE: Final = text("SELECT version_num::bigint FROM alembic_version")
_BYTES: Final = text(
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
    " WHERE relkind = 'r' AND relnamespace = to_regnamespace(current_schema())"
)
_PAGE_BYTES: Final = text("SELECT current_setting('block_size')::bigint")
_SPOILED: Final = text("SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database()")


class ServerDatabase:
    """One ledger on a server: one writing connection, a few reading ones. `tables` are those that a ledger has.

    With `patience_s` it is there to be read only: no statement may take longer, and none can write.
    """

    def __init__(self, name: str, connect: Connect, tables: MetaData, *, patience_s: float | None = None) -> None:
        self.name = name
        self._tables = tables
        patience_ms = BUSY_TIMEOUT_MS if patience_s is None else round(patience_s * 1_000)
        reading = {"default_transaction_read_only": "on"}
        if patience_s is not None:
            reading["statement_timeout"] = str(patience_ms)
        writing = {"lock_timeout": str(patience_ms)} if patience_s is None else reading
        self._writer = _engine(connect, connections=1, settings=writing)
        self._readers = _engine(connect, connections=READERS_MAX, settings=reading)
        self._horizon = FeedHorizon(self.asked)
        self._me = 0
        """The number of this process's row in `writers`; 0 as long as it has written nothing."""

    async def open_readers(self) -> None:
        """Opens all connections that there will be: later the server may let us have no more."""
        with shielded(self.name):
            async with AsyncExitStack() as open_at_once:
                for _ in range(READERS_MAX):
                    await open_at_once.enter_async_context(self._readers.connect())

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that holds the ledger's lock; commits at the end, rolls back on any exception."""
        if not self._me:
            await self._join()
        begin = f"{_BEGIN}; UPDATE writers SET seq = seq + 1 WHERE id = {self._me:d}"  # noqa: S608  a number of ours
        async with self._transaction(self._writer, begin) as connection:
            yield connection

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[AsyncConnection]:
        """The same for who makes the tables, or changes them: there need be none yet."""
        async with self._transaction(self._writer, _BEGIN) as connection:
            yield connection

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """One view of the ledger for several questions."""
        async with self._transaction(self._readers, _VIEW) as connection:
            yield connection

    @asynccontextmanager
    async def _transaction(self, engine: AsyncEngine, begin: str) -> AsyncIterator[AsyncConnection]:
        """A transaction that `begin` begins. It is ours, not SQLAlchemy's, which would ask once more for each step."""
        async with self._connected(engine) as connection:
            driver = server_driver(connection)
            await driver.execute(begin)
            yield connection
            await driver.execute("COMMIT")

    @asynccontextmanager
    async def _connected(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        """A connection. An error leaves no transaction on it, and where it is lost, another one for who comes next."""
        with shielded(self.name):
            async with engine.connect() as connection:
                driver = server_driver(connection)
                try:
                    yield connection
                except BaseException as error:
                    if await is_lost(driver):
                        await connection.invalidate()
                        raise lost(self.name) from error
                    raise

    async def asked(
        self, question: Executable, parameters: Parameters | None, found: Callable[[Result[Any]], Found]
    ) -> Found:
        """What is `found` in the answer to one question, which is a view of its own without a transaction."""

        def ask() -> Found:
            with self._readers.sync_engine.connect() as connection:
                driver = server_driver(connection)
                try:
                    return found(connection.execute(question, parameters))
                except Exception as error:
                    if await_only(is_lost(driver)):
                        connection.invalidate()
                        raise lost(self.name) from error
                    raise

        with shielded(self.name):
            return await greenlet_spawn(ask)

    async def commits_of_others(self) -> int:
        """A number that is another one once anybody else has committed; our own commits leave it as it is."""
        return await self.asked(_OTHERS, {"me": self._me}, lambda found: int(found.scalar_one()))

    async def horizon(self) -> int:
        """Up to which number all events are there, although transactions end in another order than they began."""
        return await self._horizon.now()

    async def structure(self) -> int:
        """The version of the tables."""
        return await self.asked(_STRUCTURE, None, lambda found: int(found.scalar_one()))

    async def shrink(self) -> None:
        """Nothing: what was written is kept by the server, within its own bounds."""

    async def give_back(self, pages: int) -> int:  # noqa: ARG002  the other database's
        """None: the server sweeps up what is of no use, and uses it again."""
        return 0

    async def damage(self) -> list[str]:
        """Pages that the server could not read as they were written, and rows that lack the row they belong to."""
        async with self.reading() as connection:
            spoiled = (await connection.execute(_SPOILED)).scalar()
            found = [f"{spoiled} pages were not as the server had written them"] if spoiled else []
            for table, parent, question in orphans_of(self._tables, most=DAMAGE_ROWS_MAX):
                orphans = (await connection.execute(question)).scalars()
                found += [f"a row of {table} belongs to row {row} of {parent}, which is not there" for row in orphans]
        return found

    async def file_bytes(self) -> int:
        """What its tables take, indexes and large values included."""
        return await self.asked(_BYTES, None, lambda found: int(found.scalar_one()))

    async def size(self) -> Size:
        """Its pages. Those of no use are the server's affair, and count as used."""
        page_bytes = await self.asked(_PAGE_BYTES, None, lambda found: int(found.scalar_one()))
        return Size(await self.file_bytes() // page_bytes, page_bytes, 0)

    async def compact(self) -> None:
        """Writes each table anew. Nobody else reads or writes it meanwhile."""
        async with self._connected(self._writer) as connection:
            for table in self._tables.sorted_tables:
                await server_driver(connection).execute(f"VACUUM (FULL, ANALYZE) {table.name}")

    async def copy_to(self, path: Path) -> None:
        """Raises `UsageError`."""
        raise UsageError(f"{path}: a ledger on a server is copied by pg_dump, not into a file of SQLite's")

    async def aclose(self) -> None:
        """Closes every connection. What we have written counts as that of somebody who has ended; where the server
        cannot be reached any more, our row is left there, and counts as well.
        """
        with anyio.CancelScope(shield=True):
            with suppress(StorageError):
                await self._leave()
            await self._readers.dispose()
            await self._writer.dispose()

    async def _join(self) -> None:
        async with self._connected(self._writer) as connection:
            self._me = await server_driver(connection).fetchval(_JOIN)

    async def _leave(self) -> None:
        if self._me:
            async with self._connected(self._writer) as connection:
                await server_driver(connection).execute(_LEAVE, self._me)


def _engine(connect: Connect, *, connections: int, settings: Settings) -> AsyncEngine:
    """Up to so many connections. No transaction is begun unless it is asked for: the doors do."""

    async def connected() -> Driver:
        driver = await connect({**ALWAYS, **settings})
        await read_sums(driver)
        return driver

    def create() -> Any:
        return engine.sync_engine.dialect.loaded_dbapi.connect(
            async_creator_fn=connected, prepared_statement_cache_size=STATEMENTS_KEPT
        )

    engine = create_async_engine(
        URL,
        creator=create,
        execution_options={"compiled_cache": COMPILED},
        isolation_level="AUTOCOMMIT",
        poolclass=AsyncAdaptedQueuePool,
        pool_size=connections,
        max_overflow=0,
        pool_reset_on_return=None,
        pool_use_lifo=True,  # each connection has prepared the statements that it has executed, and knows their tables
    )
    return engine
