"""The connection that executes and fetches in one go, raw and under SQLAlchemy."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from orchestrator.ledger.sqlite.connection import ThreadedConnection
from orchestrator.ledger.sqlite.database import Database

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[ThreadedConnection]:
    """A connection that waits for no lock, to a database with one table."""
    connection = ThreadedConnection(partial(sqlite3.connect, path, isolation_level=None, timeout=0))
    await connection
    try:
        await connection.cursor().execute(
            "CREATE TABLE IF NOT EXISTS things (id INTEGER PRIMARY KEY, name TEXT UNIQUE)"
        )
        yield connection
    finally:
        await connection.close()


async def test_a_statement_leaves_its_rows_and_what_is_known_of_it(tmp_path: Path) -> None:
    async with connected(tmp_path / "a.db") as connection:
        cursor = connection.cursor()
        await cursor.execute("INSERT INTO things (name) VALUES (?), (?)", ("one", "two"))
        assert (cursor.rowcount, cursor.lastrowid, cursor.description) == (2, 2, None)
        await cursor.execute("SELECT id, name FROM things ORDER BY id")
        assert [column[0] for column in cursor.description] == ["id", "name"]
        assert await cursor.fetchall() == [(1, "one"), (2, "two")]
        assert await cursor.fetchall() == []


async def test_one_statement_is_executed_for_many_rows(tmp_path: Path) -> None:
    async with connected(tmp_path / "a.db") as connection:
        cursor = connection.cursor()
        await cursor.executemany("INSERT INTO things (name) VALUES (?)", [("one",), ("two",), ("three",)])
        assert cursor.rowcount == -1
        await cursor.execute("SELECT count(*) FROM things")
        assert await cursor.fetchall() == [(3,)]


async def test_what_was_put_off_is_committed_in_its_order(tmp_path: Path) -> None:
    async with connected(tmp_path / "a.db") as connection, connected(tmp_path / "a.db") as other:
        cursor = connection.cursor()
        await cursor.execute("BEGIN IMMEDIATE")
        await cursor.executemany("INSERT INTO things (name) VALUES (?)", [("one",), ("two",)])
        await cursor.executemany("UPDATE things SET name = name || ?", [("!",)])
        await connection.commit()
        looking = await other.cursor().execute("SELECT name FROM things ORDER BY id")
        assert await looking.fetchall() == [("one!",), ("two!",)]


async def test_what_was_put_off_is_forgotten_by_a_rollback(tmp_path: Path) -> None:
    async with connected(tmp_path / "a.db") as connection:
        cursor = connection.cursor()
        await cursor.execute("BEGIN IMMEDIATE")
        await cursor.executemany("INSERT INTO things (name) VALUES (?)", [("one",), ("two",)])
        await connection.rollback()
        await cursor.execute("SELECT count(*) FROM things")
        assert await cursor.fetchall() == [(0,)]


async def test_a_statement_that_was_put_off_and_fails_fails_the_transaction(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.db")
    try:
        async with database.writing() as door:
            await door.execute(text("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT UNIQUE)"))
        names = [{"name": "one"}, {"name": "two"}, {"name": "one"}]
        with pytest.raises(IntegrityError, match="UNIQUE constraint failed"):
            async with database.writing() as door:
                await door.execute(text("INSERT INTO things (name) VALUES (:name)"), names)
        async with database.writing() as door:
            found = await door.execute(text("SELECT count(*) FROM things"))
            assert found.scalar_one() == 0
    finally:
        await database.aclose()


async def test_returning_is_run_to_its_end(tmp_path: Path) -> None:
    async with connected(tmp_path / "a.db") as connection:
        cursor = connection.cursor()
        await cursor.executemany("INSERT INTO things (name) VALUES (?)", [("one",), ("two",)])
        await cursor.execute("UPDATE things SET name = name || '!' RETURNING id")
        await cursor.close()
        await cursor.execute("SELECT name FROM things ORDER BY id")
        assert await cursor.fetchall() == [("one!",), ("two!",)]


async def test_a_statement_that_fails_half_way_holds_no_lock(tmp_path: Path) -> None:
    async with connected(tmp_path / "a.db") as connection:
        cursor = connection.cursor()
        await cursor.execute("INSERT INTO things (name) VALUES ('one')")
        with pytest.raises(sqlite3.OperationalError, match="malformed JSON"):
            await cursor.execute("SELECT json(name) FROM things")
        async with connected(tmp_path / "a.db") as other:
            await other.cursor().execute("INSERT INTO things (name) VALUES ('two')")


async def test_sqlalchemy_sees_rows_counts_and_errors_as_ever(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.db")
    try:
        async with database.writing() as door:
            await door.execute(text("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT UNIQUE)"))
            made = await door.execute(text("INSERT INTO things (name) VALUES ('one'), ('two')"))
            assert made.rowcount == 2
            found = await door.execute(text("SELECT name FROM things WHERE id > :least"), {"least": 0})
            assert [row.name for row in found] == ["one", "two"]
        with pytest.raises(Exception, match="UNIQUE constraint failed") as failed:
            async with database.writing() as door:
                await door.execute(text("INSERT INTO things (name) VALUES ('one')"))
        assert type(failed.value).__name__ == "IntegrityError"
    finally:
        await database.aclose()
