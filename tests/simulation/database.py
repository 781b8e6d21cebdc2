"""aiosqlite without its thread: SQLite on virtual time.

The connection's queue, instead of feeding a thread, runs each call in the thread of the loop. A call takes the
virtual time that `delay` says: half of it before the call has its effect and half before the answer arrives, so that
calls of several connections interleave and a crash can come between a commit and the news of it. Calls of one
connection stay in order.

A locked database cannot be waited for inside SQLite, because the holder of the lock runs in the same thread. SQLite's
own busy timeout is therefore kept at zero, and a locked call is tried again on virtual time.
"""

import asyncio
import sqlite3
import types
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from os import PathLike, fspath
from queue import SimpleQueue
from typing import Any, Literal, Protocol, Self

import aiosqlite
import anyio

from orchestrator.ledger.sqlite.connection import Cursor, ThreadedConnection
from tests.simulation.loop import VirtualLoop, running_loop

BUSY_TIMEOUT_S = 5.0
"""Virtual seconds after which a locked database is an error, as with SQLite's own busy timeout."""

BUSY_RETRY_S = 0.005
"""Virtual seconds between two tries of a locked call."""

ITER_CHUNK_ROWS = 64
"""Rows fetched at once by an iterated cursor, aiosqlite's own default."""

IsolationLevel = Literal["DEFERRED", "IMMEDIATE", "EXCLUSIVE"] | None

_Call = tuple[asyncio.Future[Any] | None, Callable[[], Any]]


class CommitWatch(Protocol):
    """Told of every commit that changes something; may kill the world before or after it."""

    def committing(self) -> bool:
        """Before a commit. False: the world was killed, the commit must not happen."""
        ...

    def committed(self) -> None:
        """After a commit, before anybody hears of it."""
        ...


def async_creator(
    path: str | PathLike[str],
    *,
    delay: Callable[[], float] | None = None,
    commits: CommitWatch | None = None,
    isolation_level: IsolationLevel = None,
    whole: bool = True,
    sent: set[str] | None = None,
) -> Callable[[], Awaitable[aiosqlite.Connection]]:
    """What `sqlalchemy.ext.asyncio.create_async_engine(..., async_creator=)` takes, for the file at `path`.

    Give the engine the URL of a file (`sqlite+aiosqlite:///{path}`) too: for `sqlite+aiosqlite://` SQLAlchemy believes
    that the database is in memory and shares one connection between all users.

    Args:
        path: the database file.
        delay: called once for each call of the database; the virtual seconds that the call takes. None: no time, but
            each call still lets other tasks run.
        commits: told of every commit of a transaction that changed something.
        isolation_level: as for `sqlite3.connect`; by default the caller writes BEGIN and COMMIT.
        whole: a statement is one call, as with the ledger's own connections, and not one to execute, one to fetch and
            so on, as with aiosqlite's; worlds are played twice as fast.
        sent: gets each statement that is executed, as SQLite has it.
    """
    make, raw_type = (_WholeConnection, _RawConnection) if whole else (SimulatedConnection, _CursorKeeper)

    def connector() -> sqlite3.Connection:
        raw = sqlite3.connect(
            fspath(path), timeout=0, isolation_level=isolation_level, cached_statements=256, factory=raw_type
        )
        raw.commits, raw.sent = commits, sent
        return raw

    async def connect() -> aiosqlite.Connection:
        return await make(connector, running_loop(), delay)

    return connect


class SimulatedConnection(aiosqlite.Connection):
    """An aiosqlite connection whose calls run on the loop, and which a crash of the loop takes away."""

    def __init__(
        self, connector: Callable[[], sqlite3.Connection], loop: VirtualLoop, delay: Callable[[], float] | None
    ) -> None:
        self._begin(connector)
        self._tx = _CallQueue(loop, delay)
        loop.perishes(self)

    def _begin(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, ITER_CHUNK_ROWS)

    def __await__(self) -> Generator[Any, None, Self]:
        yield from self._connect().__await__()  # aiosqlite starts its thread here
        return self

    def abandon(self) -> None:
        """Close the file without a commit."""
        raw, self._connection = self._connection, None
        if raw is not None:
            assert isinstance(raw, _RawConnection)
            raw.abandon()


class _WholeConnection(SimulatedConnection, ThreadedConnection):
    """One with the ledger's own cursors."""

    def __init__(
        self, connector: Callable[[], sqlite3.Connection], loop: VirtualLoop, delay: Callable[[], float] | None
    ) -> None:
        super().__init__(connector, loop, delay)
        self._loop, self._is_at_once = loop, delay is None

    def _begin(self, connector: Callable[[], sqlite3.Connection]) -> None:
        ThreadedConnection.__init__(self, connector)

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A call that takes no time waits as many rounds of the loop as one in the queue, and needs no place in it."""
        if not self._is_at_once or not self._connection or self._loop.crashed_at_s is not None:
            return await super()._execute(fn, *args, **kwargs)  # type: ignore[no-untyped-call]  # aiosqlite's
        busy_until_s = self._loop.time() + BUSY_TIMEOUT_S
        while True:
            try:
                return fn(*args, **kwargs)
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or self._loop.time() >= busy_until_s:
                    raise
            finally:
                await _two_rounds()
            await anyio.sleep(BUSY_RETRY_S)

    def cursor(self) -> Any:  # aiosqlite's is typed as a wrapped coroutine
        return _WholeCursor(self)


class _WholeCursor(Cursor):
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Coroutine[Any, Any, Self]:
        return super().execute(_harmless(sql), parameters)


class _CallQueue(SimpleQueue[_Call]):
    """The calls of one connection, run one after the other on the loop."""

    def __init__(self, loop: VirtualLoop, delay: Callable[[], float] | None) -> None:
        self._loop = loop
        self._delay = delay
        self._calls: deque[_Call] = deque()

    def put_nowait(self, item: _Call) -> None:
        if self._loop.crashed_at_s is not None:
            return  # the step that pulled the trigger runs on to its next await, but must not write any more
        if self._loop.is_closed():
            item[1]()  # aiosqlite closes a connection that nobody closed in time
            return
        self._calls.append(item)
        if len(self._calls) == 1:
            self._begin()

    def _begin(self) -> None:
        if self._delay is None:
            self._execute(0.0, self._loop.time() + BUSY_TIMEOUT_S)
            return
        half_s = self._delay() / 2
        self._loop.call_later(half_s, self._execute, half_s, self._loop.time() + half_s + BUSY_TIMEOUT_S)

    def _execute(self, answer_s: float, busy_until_s: float) -> None:
        future, function = self._calls[0]
        try:
            result, error = function(), None
        except Exception as raised:  # noqa: BLE001  # whatever it is belongs to the caller, as with aiosqlite's thread
            if _is_busy(raised) and self._loop.time() < busy_until_s:
                self._loop.call_later(BUSY_RETRY_S, self._execute, answer_s, busy_until_s)
                return
            result, error = None, raised
        if answer_s:
            self._loop.call_later(answer_s, self._answer, future, result, error)
        else:
            self._loop.call_soon(self._answer, future, result, error)

    def _answer(self, future: asyncio.Future[Any] | None, result: object, error: Exception | None) -> None:
        if future is not None and not future.done():  # done: the caller was cancelled, the call took effect
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        self._calls.popleft()
        if self._calls:
            self._begin()


class _RawConnection(sqlite3.Connection):
    """A connection whose commits are watched, and which a crash can take away between two whole statements."""

    commits: CommitWatch | None = None
    sent: set[str] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._changes = 0

    def cursor(self, factory: Any = None) -> Any:
        cursor = super().cursor(factory or (sqlite3.Cursor if self.sent is None else _NotingCursor))
        if isinstance(cursor, _NotingCursor):
            cursor.sent = self.sent
        return cursor

    def commit(self) -> None:
        if self.commits is None or self.total_changes == self._changes:
            super().commit()
            return
        self._changes = self.total_changes
        if self.commits.committing():
            super().commit()
            self.commits.committed()

    def abandon(self) -> None:
        self.rollback()
        self.close()


class _CursorKeeper(_RawConnection):
    """One that knows its cursors.

    SQLite keeps a closed connection alive, with its locks, while a statement of it is unfinished; a crash leaves
    cursors open in the middle of their rows.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()

    def cursor(self, factory: Any = None) -> Any:
        cursor = super().cursor(factory or _RawCursor)
        self._cursors.add(cursor)
        return cursor

    def abandon(self) -> None:
        for cursor in tuple(self._cursors):
            cursor.close()
        super().abandon()


class _NotingCursor(sqlite3.Cursor):
    """A cursor that notes what it executes."""

    sent: set[str] | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        self._note(sql)
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> Self:
        self._note(sql)
        return super().executemany(sql, parameters)

    def _note(self, sql: str) -> None:
        assert self.sent is not None
        self.sent.add(sql)


class _RawCursor(sqlite3.Cursor):
    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        return super().execute(_harmless(sql), parameters)


@types.coroutine
def _two_rounds() -> Generator[None, None, None]:
    yield
    yield


def _harmless(sql: str) -> str:
    """`sql`, but the busy timeout stays zero, and the disk is left alone, whatever the program asks for.

    A simulated crash is one of the process: what was handed to the operating system survives it.
    """
    if not sql.startswith("PRAGMA"):
        return sql
    if "busy_timeout" in sql:
        return "PRAGMA busy_timeout"
    return "PRAGMA synchronous = OFF" if "PRAGMA synchronous" in sql else sql


def _is_busy(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == sqlite3.SQLITE_BUSY
