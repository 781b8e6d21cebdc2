"""The doors to a ledger on a server: to write, to read, and to ask one question.

Each transaction that writes takes the ledger's lock first, shared or alone (`locks/ledger_lock.py`). It also writes its
number into the row of its process: by that whoever follows the others notices it, and where the answer to its COMMIT
was cut the number tells whether it was committed. That comes before any number is given to an event: see
`feed_horizon.py`. Most are nothing to engines of other processes. Those that are raise another number, too (`signal`).
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from sqlalchemy import Executable, MetaData, Result, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.util import await_only, greenlet_spawn

from orchestrator.errors import DeposedError, LostCommitsError, StorageError, UsageError
from orchestrator.ledger.database import (
    BUSY_TIMEOUT_MS,
    ClashError,
    CommitInDoubtError,
    CommitsOfOthers,
    Company,
    Found,
    Parameters,
    Size,
)
from orchestrator.ledger.postgres import expressions as _expressions  # noqa: F401  how it says what is executed
from orchestrator.ledger.postgres import statements as _statements  # noqa: F401  the same
from orchestrator.ledger.postgres.connection import OUR_SCHEMA, Connect, Driver, LineBounds, Settings, server_driver
from orchestrator.ledger.postgres.feed_horizon import FeedHorizon
from orchestrator.ledger.postgres.identity.lost_commits import lost_commits, note_loss
from orchestrator.ledger.postgres.line import Line, pool_of
from orchestrator.ledger.postgres.locks.ledger_lock import FOR_LONG, LedgerLock
from orchestrator.ledger.postgres.server_errors import LineLostError, lost, shielded
from orchestrator.ledger.postgres.tables import orphans_of

READERS_MAX: Final = 4
WAITED_S: Final = 10.0
NOBODY: Final = -1
BOUNDS: Final = LineBounds()
PLANS_KEPT: Final = 64
"""For so many transactions it goes about statements as it has found to be best, or until it looks at a table anew, once
a minute: an intake that began with an empty one fell to a fourth of its pace. A writer never goes through whole tables.
"""

DAMAGE_ROWS_MAX: Final = 100
"""So many faults of each kind are asked for; more say nothing new."""

_COUNT: Final = "UPDATE writers SET seq = {number} WHERE id = {me} AND seq = {number} - 1"
_COUNTED: Final = "UPDATE 1"
_FENCED: Final = "WITH numbered AS ({count} RETURNING 1), fence AS ({fence}) SELECT FROM numbered, fence"
_PROVED: Final = "SELECT 1"
_NUMBERED: Final = "SELECT seq FROM writers WHERE id = $1"
"""That is the number which was to be given, unless somebody has changed the row since."""

_FOUND_OUT: Final = "UPDATE writers SET seq = seq WHERE id = $1 RETURNING seq"
"""Waits for the end of whatever has changed the row: the server may not know yet that we are gone."""

_VIEW: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
BACKEND: Final = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
END_BACKEND: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2"
_COMMIT: Final = "COMMIT"
_JOIN: Final = "INSERT INTO writers DEFAULT VALUES RETURNING id"
_LEAVE: Final = (
    "WITH gone AS (DELETE FROM writers WHERE id = $1 RETURNING seq, signals, notices)"
    " UPDATE writers SET seq = writers.seq + gone.seq, signals = writers.signals + gone.signals,"
    " notices = writers.notices + gone.notices FROM gone WHERE id = 0 RETURNING gone.seq"
)
_SIGNAL: Final = "UPDATE writers SET signals = signals + 1 WHERE id = $1"
_NOTICES: Final = "UPDATE writers SET notices = notices + 1 WHERE id = $1"
# Engines of one process hear of each other by signals, too.
_OTHERS: Final = text(
    "SELECT coalesce(sum(seq) FILTER (WHERE id <> :me), 0)::bigint, coalesce(sum(signals), 0)::bigint,"
    " coalesce(sum(notices) FILTER (WHERE id <> :me), 0)::bigint FROM writers"
)
_STRUCTURE: Final = text("SELECT version_num::bigint FROM alembic_version")
_BYTES: Final = text(
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"  # noqa: S608  text of ours
    f" WHERE relkind = 'r' AND relnamespace = {OUR_SCHEMA}"
)
_PAGE_BYTES: Final = text("SELECT current_setting('block_size')::bigint")
_SPOILED: Final = text("SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database()")


class ServerDatabase:
    """One ledger on a server: one writing connection, a few reading ones. `tables` are those that a ledger has.

    With `patience_s` it is there to be read only: no statement may take longer, and none can write.
    """

    def __init__(
        self,
        name: str,
        connect: Connect,
        tables: MetaData,
        *,
        patience_s: float | None = None,
        bounds: LineBounds = BOUNDS,
    ) -> None:
        self.name = name
        self._tables = tables
        self.waited_s = WAITED_S if patience_s is None else 0.0
        patience_ms = BUSY_TIMEOUT_MS if patience_s is None else round(patience_s * 1_000)
        # Questions come seldom, and with what they ask for changes how to go about it.
        reading = {"default_transaction_read_only": "on", "plan_cache_mode": "force_custom_plan"}
        if patience_s is not None:
            reading["statement_timeout"] = str(patience_ms)
            in_time_s = patience_s + bounds.undone_s  # the server ends what takes longer, unless nobody hears it
            bounds = bounds._replace(connected_s=min(bounds.connected_s, in_time_s), found_s=in_time_s)
        writing = {"lock_timeout": str(round(bounds.granted_s * 1_000))} if patience_s is None else reading
        changing = {"lock_timeout": str(patience_ms)} if patience_s is None else reading
        self.line = Line(name, connect, bounds)
        connected = self.line.connected
        self._writer = pool_of(partial(self._writing_connection, writing), connections=1)
        self._readers = pool_of(partial(connected, reading, answered_s=bounds.found_s), connections=READERS_MAX)
        self._changer = pool_of(partial(connected, changing, answered_s=bounds.rewritten_s), connections=1)
        self.horizon = FeedHorizon(self.asked).now
        """Up to which number all events are there, although transactions end in another order than they began."""

        self._lock = LedgerLock(name, bounds)
        self.is_guest = False
        self.fence: str | None = None
        """A statement that finds one row as long as this process may write; see `processes/leases.py`."""

        self._backend: tuple[int, datetime] | None = None
        """The server's process of our writing connection, or of the last one."""

        self._me = NOBODY
        """The number of this process's row in `writers`, once it writes."""

        self._committed = 0
        """The number of the last transaction that is known to be committed."""

        self._is_in_doubt = False
        """Whether the one after that may be as well."""

    async def open_readers(self) -> None:
        """Opens all connections that there will be: later the server may let us have no more."""
        with shielded(self.name):
            async with AsyncExitStack() as open_at_once:
                for _ in range(READERS_MAX):
                    await open_at_once.enter_async_context(self._readers.connect())

    @asynccontextmanager
    async def writing(
        self, company: Company = Company.ALONE, *, is_proved: bool = True
    ) -> AsyncIterator[AsyncConnection]:
        """A transaction that holds the ledger's lock; commits at the end, rolls back on any exception."""
        if self._me == NOBODY:
            await self._join()
        if self._is_in_doubt:  # of one that nobody waits for any more
            await self._find_out()
        number, is_committing = self._committed + 1, False
        try:
            async with self._connected(self._writer) as connection:
                driver = server_driver(connection)
                await self._begin(driver, number, company, self.fence if is_proved else None)
                yield connection
                is_committing = True
                await _commit(driver)
        except ClashError:
            self._lock.refused()
            raise
        except LostCommitsError:
            await self._note_loss()
            raise
        except LineLostError as error:
            if not is_committing:
                raise
            self._is_in_doubt = True
            raise CommitInDoubtError(error, self._find_out) from error
        self._committed = number
        self._lock.granted()

    async def _begin(self, driver: Driver, number: int, company: Company, fence: str | None) -> None:
        """Begins a transaction with its number, which must be ours to give, and with the proof that we may write."""
        count = _COUNT.format(number=number, me=self._me)
        begin = f"BEGIN; {self._lock.taking(company, is_guest=self.is_guest)}"
        if not number % PLANS_KEPT:
            begin = f"DISCARD PLANS; {begin}"
        if fence is None:
            is_ours = await self._lock.begun(driver, f"{begin}; {count}", company) == _COUNTED
        else:
            proved = _FENCED.format(count=count, fence=fence)
            is_ours = await self._lock.begun(driver, f"{begin}; {proved}", company) == _PROVED
            if not is_ours and await driver.fetchval(_NUMBERED, self._me) == number:
                raise DeposedError(f"{self.name}: another process has taken this ledger over; nothing is written here")
        if not is_ours:
            raise lost_commits(self.name)

    async def _find_out(self) -> bool:
        """Whether the transaction after the last one that is known to be committed is so as well."""
        async with self._connected(self._writer) as connection:
            found = await server_driver(connection).fetchval(_FOUND_OUT, self._me)
        if found is None or found < self._committed:
            await self._note_loss()
            raise lost_commits(self.name)
        is_committed, self._committed, self._is_in_doubt = found > self._committed, found, False
        return bool(is_committed)

    async def _note_loss(self) -> None:
        """Stops everybody who works on it. Where that fails, whoever finds it next does so."""
        with suppress(StorageError):
            async with self._connected(self._changer) as connection:
                await note_loss(server_driver(connection))

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[AsyncConnection]:
        """The same for who makes the tables, or changes them: there need be none yet."""
        async with self._transaction(self._changer, f"BEGIN; {FOR_LONG}") as connection:
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
            await _commit(driver)

    @asynccontextmanager
    async def _connected(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        """A connection. An error leaves no transaction on it, and where it is lost, another one for who comes next."""
        with shielded(self.name):
            async with engine.connect() as connection:
                driver = server_driver(connection)
                try:
                    yield connection
                except BaseException as error:
                    if await self.line.is_lost(driver, error):
                        raise lost(self.name) from error
                    raise

    async def _writing_connection(self, settings: Settings) -> Driver:
        """A new one. What the one before has left at the server ends: it could hold up everybody for long."""
        driver = await self.line.connected({**settings, "enable_seqscan": "off"})
        try:
            if self._backend is not None:
                await driver.execute(END_BACKEND, *self._backend)
            self._backend = tuple(await driver.fetchrow(BACKEND))
        except BaseException:
            driver.terminate()
            raise
        return driver

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
                    if await_only(self.line.is_lost(driver, error)):
                        raise lost(self.name) from error
                    raise

        with shielded(self.name):
            return await greenlet_spawn(ask)

    async def commits_of_others(self) -> CommitsOfOthers:
        """What others have committed by now."""
        return await self.asked(_OTHERS, {"me": self._me}, lambda found: CommitsOfOthers._make(found.one()))

    async def signal(self, connection: AsyncConnection, *, notices: bool = False) -> None:
        """Raises a number in the row of this process, in the transaction of `connection`."""
        await server_driver(connection).execute(_NOTICES if notices else _SIGNAL, self._me)

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
        async with self._connected(self._changer) as connection:
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
            await self._changer.dispose()

    async def _join(self) -> None:
        async with self._connected(self._writer) as connection:
            self._me = await server_driver(connection).fetchval(_JOIN)

    async def _leave(self) -> None:
        if self._me != NOBODY and self.line.away is None:
            async with self._connected(self._writer) as connection:
                left = await server_driver(connection).fetchval(_LEAVE, self._me)
            if left is None or left < self._committed:
                await self._note_loss()


async def _commit(driver: Driver) -> None:
    """Commits what was begun on it; a transaction that has failed before does not end so."""
    said = await driver.execute(_COMMIT)
    assert said == _COMMIT, f"a transaction was rolled back that went on after an error: {said}"
