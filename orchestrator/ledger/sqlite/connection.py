"""A connection to SQLite that changes threads only where an answer is waited for.

aiosqlite's own cursors change threads to be made, to execute, to fetch and to be closed; beside a short statement that
is most of its cost (measured: a seventh more steps a second without it). Ours execute, fetch and close in one go. All
rows of a statement are in memory then, as with SQLAlchemy's adapter anyway, and the ledger's reads are bounded.

What has no answer, a BEGIN and an INSERT or UPDATE of many rows, goes along with the next statement that has one, or
with the COMMIT: each change of threads can cost a thread switch on both sides while the event loop is busy. If it
fails, that statement fails in its place, and with it the transaction.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Self, TypeVar

import aiosqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.errors import TookTooLongError

Row = tuple[Any, ...]
Result = TypeVar("Result")


class ThreadedConnection(aiosqlite.Connection):
    """An aiosqlite connection with such cursors. A statement may take `patience_s`, None: as long as it takes."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], *, patience_s: float | None = None) -> None:
        super().__init__(connect, iter_chunk_size=1)
        self._waiting: list[Callable[[sqlite3.Cursor], object]] = []
        self._patience_s = patience_s

    def put_off(self, statement: Callable[[sqlite3.Cursor], object]) -> None:
        """Executes `statement` before whatever is executed next."""
        self._waiting.append(statement)

    async def in_thread(self, statement: Callable[[sqlite3.Cursor], Result]) -> Result:
        """Executes what was put off and then `statement`, in the connection's thread."""
        waiting, self._waiting = self._waiting, []
        if self._patience_s is None:
            # Private, and what aiosqlite's own cursor calls.
            return await self._execute(self._run, waiting, statement)  # type: ignore[no-any-return, no-untyped-call]
        return await self._hurried(waiting, statement, self._patience_s)

    async def _hurried(
        self,
        waiting: Sequence[Callable[[sqlite3.Cursor], object]],
        statement: Callable[[sqlite3.Cursor], Result],
        patience_s: float,
    ) -> Result:
        """The same, ended once it has taken too long: it has its thread, and others wait for its place.

        To interrupt a connection that is at nothing does nothing, so a timer that is late hits no other statement.
        """
        loop = asyncio.get_running_loop()
        timer = loop.call_later(patience_s, self._conn.interrupt)
        try:
            return await self._execute(self._run, waiting, statement)  # type: ignore[no-any-return, no-untyped-call]
        except sqlite3.OperationalError as error:
            if loop.time() < timer.when():
                raise
            raise TookTooLongError from error
        finally:
            timer.cancel()

    def _run(
        self, waiting: Sequence[Callable[[sqlite3.Cursor], object]], statement: Callable[[sqlite3.Cursor], Result]
    ) -> Result:
        with closing(self._conn.cursor()) as cursor:
            for each in waiting:
                each(cursor)
            return statement(cursor)

    async def commit(self) -> None:
        """Commits, with everything that was put off, or rolls back: SQLAlchemy takes a failed COMMIT for an end."""
        try:
            await self.in_thread(lambda cursor: cursor.connection.commit())
        except sqlite3.Error:
            await self.rollback()
            raise

    async def rollback(self) -> None:
        """Rolls back; what was put off never happened. Who began nothing need not change threads."""
        self._waiting.clear()
        if self.in_transaction:
            await super().rollback()

    def cursor(self) -> Any:  # aiosqlite's is typed as a wrapped coroutine
        """A cursor; nothing is asked of the database yet."""
        return Cursor(self)


class Cursor:
    """What SQLAlchemy's adapter uses of an aiosqlite cursor."""

    arraysize = 1

    def __init__(self, connection: ThreadedConnection) -> None:
        self._connection = connection
        self._rows: list[Row] = []
        self.description: tuple[Row, ...] | None = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Self:
        """Executes one statement and fetches its rows; a BEGIN waits for the next one."""
        if sql.startswith("BEGIN"):
            self._connection.put_off(lambda cursor: cursor.execute(sql))
            return self

        def run(cursor: sqlite3.Cursor) -> None:
            cursor.execute(sql, parameters)
            self._rows = cursor.fetchall()
            self.description, self.rowcount, self.lastrowid = cursor.description, cursor.rowcount, cursor.lastrowid

        await self._connection.in_thread(run)
        return self

    async def executemany(self, sql: str, parameters: Sequence[Sequence[Any]]) -> Self:
        """Executes one statement for each of `parameters`, with the next one that has an answer."""
        self._connection.put_off(lambda cursor: cursor.executemany(sql, parameters))
        return self

    async def fetchall(self) -> list[Row]:
        """The rows of the last statement, once."""
        rows, self._rows = self._rows, []
        return rows

    async def close(self) -> None:
        """There is nothing left to close."""


async def driver_of(connection: AsyncConnection) -> ThreadedConnection:
    """The driver's own connection beneath SQLAlchemy's."""
    driver: ThreadedConnection | None = (await connection.get_raw_connection()).driver_connection
    assert driver is not None
    return driver
