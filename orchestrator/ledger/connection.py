"""A connection to SQLite that costs one change of threads for each statement.

aiosqlite's own cursors change threads to be made, to execute, to fetch and to be closed; beside a short statement that
is most of its cost (measured: a seventh more steps a second without it). Ours execute, fetch and close in one go. All
rows of a statement are in memory then, as with SQLAlchemy's adapter anyway, and the ledger's reads are bounded.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any, Self

import aiosqlite

Row = tuple[Any, ...]


class Connection(aiosqlite.Connection):
    """An aiosqlite connection with such cursors."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connect, iter_chunk_size=1)

    def cursor(self) -> Any:  # aiosqlite's is typed as a wrapped coroutine
        """A cursor; nothing is asked of the database yet."""
        return Cursor(self)


class Cursor:
    """What SQLAlchemy's adapter uses of an aiosqlite cursor."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: list[Row] = []
        self.description: tuple[Row, ...] | None = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Self:
        """Executes one statement and fetches its rows."""
        return await self._in_thread(sqlite3.Cursor.execute, sql, parameters)

    async def executemany(self, sql: str, parameters: Iterable[Sequence[Any]]) -> Self:
        """Executes one statement for each of `parameters`."""
        return await self._in_thread(sqlite3.Cursor.executemany, sql, parameters)

    async def _in_thread(self, method: Callable[..., object], *arguments: object) -> Self:
        # Private, and what aiosqlite's own cursor calls.
        await self._connection._execute(self._run, method, *arguments)  # type: ignore[no-untyped-call]  # noqa: SLF001
        return self

    def _run(self, method: Callable[..., object], *arguments: object) -> None:
        with closing(self._connection._conn.cursor()) as cursor:  # noqa: SLF001
            method(cursor, *arguments)
            self._rows = cursor.fetchall()
            self.description, self.rowcount, self.lastrowid = cursor.description, cursor.rowcount, cursor.lastrowid

    async def fetchall(self) -> list[Row]:
        """The rows of the last statement, once."""
        rows, self._rows = self._rows, []
        return rows

    async def close(self) -> None:
        """There is nothing left to close."""
