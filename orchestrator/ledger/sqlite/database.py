"""The doors to the database (SQLite in WAL mode), and nothing else that opens a connection: to write, to read, and to
ask one question.

All doors shield *before* they take a connection: without that, some cancelled writes were committed although the
caller saw a cancellation, and one cancelled read could keep the process from ever exiting. Inside a door there is SQL
only, and little of it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiosqlite
import anyio
from sqlalchemy import Connection, Executable, Result, RootTransaction, event, text
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool
from sqlalchemy.util import greenlet_spawn

from orchestrator.errors import StorageError
from orchestrator.ledger.database import BUSY_TIMEOUT_MS, NUMBER_MAX, CommitsOfOthers, Company, Found, Parameters, Size
from orchestrator.ledger.sqlite import statements as _says  # noqa: F401  # registers how SQLite says what has no portable words
from orchestrator.ledger.sqlite.compiled_cache import COMPILED, URL
from orchestrator.ledger.sqlite.connection import ThreadedConnection, driver_of
from orchestrator.ledger.sqlite.file_errors import storage_errors
from orchestrator.ledger.sqlite.immutable_file import connected
from orchestrator.settings.addresses.companions import real_file

READERS_MAX: Final = 4
CHECKPOINT_PAGES: Final = 8_000
"""The write-ahead log is folded into the file at 32 MB: pages written often in between are folded once."""

CACHE_KIB: Final = 64 * 1024

DAMAGE_ROWS_MAX: Final = 100
"""So many faults of the file are asked for; more say nothing new."""

_STRUCTURE: Final = text("PRAGMA schema_version")

Connect = Callable[[], Awaitable[aiosqlite.Connection]]
"""Makes a raw connection to the database file; the simulation brings one without a thread."""


def threaded(path: Path, *, patience_s: float | None = None) -> Connect:
    """The ordinary way to connect: with a thread for each connection. A statement may take `patience_s`, where that is
    not None.
    """

    async def connect() -> aiosqlite.Connection:
        return await ThreadedConnection(
            partial(connected, path, isolation_level=None, cached_statements=256), patience_s=patience_s
        )

    return connect


class Database:
    """One SQLite file: one writing connection, a few reading ones.

    With `patience_s` it is there to be read only: no statement may take longer, and none can write.
    """

    waited_s = 0.0
    is_guest = False
    """It makes no difference: one transaction writes at a time, whoever's it is."""

    def __init__(self, path: Path, *, connect: Connect | None = None, patience_s: float | None = None) -> None:
        connect = connect or threaded(path, patience_s=patience_s)
        self.path, self.name = path, str(path)
        readers = READER_PRAGMAS if patience_s is None else _hasty(patience_s)
        self._writer = _engine(connect, connections=1, pragmas=WRITER_PRAGMAS if patience_s is None else readers)
        self._readers = _engine(connect, connections=READERS_MAX, pragmas=readers)

    async def open_readers(self) -> None:
        """Opens all connections that there will be: later the system may let us open no more files.

        Raises `StorageError`.
        """
        with _shielded(self.path):
            async with AsyncExitStack() as open_at_once:
                for _ in range(READERS_MAX):
                    await open_at_once.enter_async_context(self._readers.connect())

    @asynccontextmanager
    async def writing(
        self,
        company: Company = Company.ALONE,  # noqa: ARG002  it is alone
        *,
        is_proved: bool = True,  # noqa: ARG002  by the lock of its file
    ) -> AsyncIterator[AsyncConnection]:
        """A transaction that holds the write lock; commits at the end, rolls back on any exception.

        Raises `StorageError` where the file cannot be written or read.
        """
        async with self._transaction(self._writer, "BEGIN IMMEDIATE") as connection:
            yield connection

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A read transaction: one view of the ledger, which must be let go within a second."""
        async with self._transaction(self._readers, "BEGIN") as connection:
            yield connection

    @asynccontextmanager
    async def _transaction(self, engine: AsyncEngine, begin: str) -> AsyncIterator[AsyncConnection]:
        """A transaction that `begin` begins, with one greenlet for all of SQLAlchemy's steps before it and one for
        those behind it. Its own event of beginning would have it look for events at every step of every statement.
        """

        def enter() -> tuple[Connection, RootTransaction]:
            connection = engine.sync_engine.connect()
            try:
                transaction = connection.begin()
                with closing(connection.connection.cursor()) as cursor:
                    cursor.execute(begin)
            except BaseException:
                connection.close()
                raise
            return connection, transaction

        def leave(error: BaseException | None) -> None:
            with connection:
                transaction.__exit__(None if error is None else type(error), error, None)

        with _shielded(self.path):
            connection, transaction = await greenlet_spawn(enter)
            try:
                yield AsyncConnection(engine, connection)
            except BaseException as error:
                await greenlet_spawn(leave, error)
                raise
            await greenlet_spawn(leave, None)

    async def asked(
        self, question: Executable, parameters: Parameters | None, found: Callable[[Result[Any]], Found]
    ) -> Found:
        """What is `found` in the answer to one question, which is a view of its own without a transaction.

        Half of what a question costs is what stands around it: so there is one change of threads, and one greenlet for
        all of SQLAlchemy's steps. Raises `StorageError`.
        """

        def ask() -> Found:
            with self._readers.sync_engine.connect() as connection:
                return found(connection.execute(question, parameters))

        with _shielded(self.path):
            return await greenlet_spawn(ask)

    async def commits_of_others(self) -> CommitsOfOthers:
        """One number for all: to look costs next to nothing here, and there is seldom another process.

        It has to be the writer's connection that is asked: every other one sees our commits, too. It begins nothing and
        so takes no lock. Raises `StorageError`, also where the writer does not let go of its connection.
        """
        try:
            [(version,)] = await self._asked("PRAGMA data_version")
        except PoolTimeoutError:
            raise StorageError(f"{self.path}: a transaction takes very long") from None
        return CommitsOfOthers(version, version, version)

    async def signal(self, connection: AsyncConnection, *, notices: bool = False) -> None:
        """Nothing: each commit is noticed."""

    async def horizon(self) -> int:
        """None: one writes at a time, so events are there in the order of their numbers."""
        return NUMBER_MAX

    async def structure(self) -> int:
        """A number that is another one once anybody has changed the tables. Raises `StorageError`."""
        return await self.asked(_STRUCTURE, None, lambda found: int(found.scalar_one()))

    async def shrink(self) -> None:
        """Lets go of the pages that the writer's connection keeps: of large outputs nobody needs them again."""
        await self._asked("PRAGMA shrink_memory")

    async def give_back(self, pages: int) -> int:
        """Cuts up to so many pages that nothing uses off the file, and returns how many it were.

        None of a ledger that an older version made. Raises `StorageError`.
        """
        free = await self._free_pages()
        with _shielded(self.path):
            async with self._writer.connect() as connection:
                driver = await driver_of(connection)
                # Each page is a step of this statement, and of one without columns the driver makes only the first.
                await driver.executescript(f"PRAGMA incremental_vacuum({pages:d})")
        return free - await self._free_pages()

    async def _free_pages(self) -> int:
        [(pages,)] = await self._asked("PRAGMA freelist_count")
        return int(pages)

    async def _asked(self, sql: str, *parameters: str, of: Path | None = None) -> Any:
        """What the writer's connection answers outside of a transaction; errors are `of` another file than its own."""
        with anyio.CancelScope(shield=True), storage_errors(of or self.path):
            async with self._writer.connect() as connection:
                return await (await driver_of(connection)).execute_fetchall(sql, parameters)

    async def identity(self) -> tuple[int, int]:
        """What tells the file from every other one, and from a copy."""
        found = real_file(self.path).stat()
        return found.st_dev, found.st_ino

    async def number(self) -> int:
        """The number that was noted in the file's header (0: none). It is ours: SQLite does nothing with it."""
        async with self.reading() as connection:
            return int((await connection.exec_driver_sql("PRAGMA user_version")).scalar_one())

    async def set_number(self, number: int) -> None:
        """Notes another one, 31 bits at most."""
        async with self.writing() as connection:
            await connection.exec_driver_sql(f"PRAGMA user_version = {number:d}")

    async def damage(self) -> list[str]:
        """What is wrong with the file: pages, indexes, constraints, and rows that lack the row they belong to."""
        async with self.reading() as connection:
            rows = (await connection.exec_driver_sql(f"PRAGMA integrity_check({DAMAGE_ROWS_MAX})")).all()
            orphans = (await connection.exec_driver_sql("PRAGMA foreign_key_check")).all()
        return [str(row[0]) for row in rows if row[0] != "ok"] + [
            f"row {row} of {table} belongs to a row of {parent} that is not there"
            for table, row, parent, _ in map(tuple[Any, ...], orphans)
        ]

    async def file_bytes(self) -> int:
        """The size of the ledger, pages in the write-ahead log included."""
        async with self.reading() as connection:
            pages = (await connection.exec_driver_sql("PRAGMA page_count")).scalar_one()
            return int(pages) * int((await connection.exec_driver_sql("PRAGMA page_size")).scalar_one())

    async def size(self) -> Size:
        """The pages of the ledger, those in the write-ahead log included."""
        async with self.reading() as connection:
            names = ("page_count", "page_size", "freelist_count")
            found = [int((await connection.exec_driver_sql(f"PRAGMA {name}")).scalar_one()) for name in names]
        return Size(*found)

    async def compact(self) -> None:
        """Writes the file anew without unused pages; from then on `give_back` works on it, whoever made it.

        Nobody else writes meanwhile. Raises `StorageError`, also where the disk has no room for it: the file is then as
        it was.
        """
        for statement in ("PRAGMA auto_vacuum = INCREMENTAL", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
            await self._asked(statement)

    async def copy_to(self, path: Path) -> None:
        """Writes all that is committed into the empty file at `path`. Raises `StorageError`."""
        await self._asked("VACUUM INTO ?", str(path), of=path)

    async def aclose(self) -> None:
        """Closes every connection. The last one out folds the write-ahead log into the file."""
        with anyio.CancelScope(shield=True):
            await self._readers.dispose()
            await self._writer.dispose()


WRITER_PRAGMAS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}",
    "PRAGMA foreign_keys = ON",
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    f"PRAGMA cache_size = -{CACHE_KIB}",
)
READER_PRAGMAS: Final = (f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}", "PRAGMA query_only = ON")


def _hasty(patience_s: float) -> tuple[str, ...]:
    return (f"PRAGMA busy_timeout = {round(1_000 * patience_s)}", "PRAGMA query_only = ON")


def _engine(connect: Connect, *, connections: int, pragmas: tuple[str, ...]) -> AsyncEngine:
    engine = create_async_engine(
        URL,
        async_creator=connect,
        execution_options={"compiled_cache": COMPILED},
        poolclass=AsyncAdaptedQueuePool,
        pool_size=connections,
        max_overflow=0,
        pool_reset_on_return=None,
    )

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(pragma)
        cursor.close()

    return engine


@contextmanager
def _shielded(path: Path) -> Iterator[None]:
    """No cancellation comes between; errors are of `path`."""
    with anyio.CancelScope(shield=True), storage_errors(path):
        yield
