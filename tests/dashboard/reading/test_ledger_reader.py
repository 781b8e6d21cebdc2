"""The ledger is opened anew where there is another one, and pages say what is wrong with one that cannot be read."""

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest
from sqlalchemy import text

from orchestrator.clock import SystemClock
from orchestrator.dashboard.reading.ledger_reader import (
    READS_AT_ONCE,
    LedgerReader,
    UnreadableError,
    open_reader,
)
from orchestrator.errors import TookTooLongError
from orchestrator.ledger.sqlite.file_locks import dispatcher_lock
from tests.dashboard.harness import dashboard
from tests.dashboard.samples import SEARCHED, SamplePages
from tests.engine.rows import empty_ledger

pytestmark = pytest.mark.anyio


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return empty_ledger(tmp_path / "ledger.db")


@asynccontextmanager
async def reader_of(ledger: Path) -> AsyncIterator[LedgerReader]:
    async with open_reader(ledger, clock=SystemClock()) as reader:
        yield reader


async def test_one_ledger_is_open_for_all_who_read(ledger: Path) -> None:
    async with reader_of(ledger) as reader, reader.borrowed() as first, reader.borrowed() as second:
        assert first is second


async def test_another_file_at_its_path_is_opened_and_the_first_kept_for_who_reads_it(ledger: Path) -> None:
    async with reader_of(ledger) as reader, reader.borrowed() as first:
        version = await reader.version()
        shutil.copy(ledger, ledger.with_name("copy"))
        for beside in ("-wal", "-shm"):
            ledger.with_name(ledger.name + beside).unlink(missing_ok=True)
        ledger.with_name("copy").rename(ledger)
        async with reader.borrowed() as second:
            assert second is not first
            assert await second.runs.all() == await first.runs.all()
        assert await reader.version() != version


async def test_a_ledger_that_comes_later_is_shown_then_and_one_that_goes_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "later.db"
    async with reader_of(path) as reader:
        with pytest.raises(UnreadableError, match="there is no ledger here"):
            await reader.version()
        empty_ledger(path)
        await reader.version()
        path.unlink()
        with pytest.raises(UnreadableError, match="there is no ledger here"):
            await reader.version()


async def test_one_that_a_newer_program_has_changed_is_left_alone(ledger: Path) -> None:
    async with reader_of(ledger) as reader:
        await reader.version()
        with closing(sqlite3.connect(ledger)) as connection, connection:
            connection.execute("CREATE TABLE later (id INTEGER)")
            connection.execute("UPDATE alembic_version SET version_num = '9999'")
        with pytest.raises(UnreadableError, match="upgrade the program"):
            await reader.version()


async def test_one_that_an_older_program_works_on_is_left_alone_and_what_to_do_is_said(ledger: Path) -> None:
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    async with reader_of(ledger) as reader:
        with dispatcher_lock(ledger, now=0), pytest.raises(UnreadableError, match="start it again with this version"):
            await reader.version()


async def test_a_commit_of_somebody_else_is_another_version(ledger: Path) -> None:
    async with reader_of(ledger) as reader:
        before = await reader.version()
        assert await reader.version() == before
        with closing(sqlite3.connect(ledger)) as connection, connection:
            connection.execute("PRAGMA user_version = 7")
        assert await reader.version() != before


async def test_nothing_can_be_written_through_it(ledger: Path) -> None:
    async with reader_of(ledger) as reader, reader.borrowed() as opened:
        for door in (opened._site.database.writing, opened._site.database.reading):
            with pytest.raises(Exception, match=r"readonly|read-only"):
                async with door() as connection:
                    await connection.execute(text("DELETE FROM runs"))


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1e12) SELECT count(*) FROM n"


async def test_a_question_that_takes_too_long_is_really_ended(ledger: Path) -> None:
    async with reader_of(ledger) as reader, reader.borrowed() as opened:
        with anyio.fail_after(60):
            with pytest.raises(TookTooLongError):
                await opened._site.database.asked(text(ENDLESS), None, lambda found: found.scalar_one())
            assert await opened.runs.all() == [], "its connection answers the next question"


async def test_no_more_pages_are_read_at_once_than_there_are_connections(ledger: Path) -> None:
    inside = 0
    most = 0
    full, looked = anyio.Event(), anyio.Event()

    async def read(reader: LedgerReader) -> None:
        nonlocal inside, most
        async with reader.borrowed():
            inside += 1
            most = max(most, inside)
            if inside == READS_AT_ONCE:
                full.set()
            await looked.wait()
            inside -= 1

    async with reader_of(ledger) as reader, anyio.create_task_group() as group:
        for _ in range(3 * READS_AT_ONCE):
            group.start_soon(read, reader)
        await full.wait()
        for _ in range(3 * READS_AT_ONCE):  # each takes as long as the others would need to get in
            await reader.version()
        looked.set()
    assert most == READS_AT_ONCE


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.unlink(), "there is no ledger here"),
        (lambda path: path.write_bytes(b"x" * 9_000), "damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:5_000] + bytes(30_000)), "damaged"),
    ],
    ids=["missing", "no ledger", "damaged"],
)
async def test_each_page_says_what_is_wrong_with_the_ledger(ledger: Path, spoil: object, said: str) -> None:
    options: dict[str, Any] = {"pages": [SamplePages().page], "templates": SEARCHED, "connect": None}
    async with dashboard(ledger, clock=SystemClock(), **options) as site:
        assert (await site.get("/healthz")).status == 200
        spoil(ledger)  # type: ignore[operator]
        page = await site.get("/samples/1")
        assert (page.status, said in page.text) == (503, True), page.text
        assert page.headers["retry-after"]
        health = await site.get("/healthz")
        assert (health.status, str(ledger) in health.html) == (503, False), "it names nothing"


@pytest.mark.slow
async def test_a_ledger_that_another_program_has_locked_is_said_to_be(ledger: Path) -> None:
    async with reader_of(ledger) as reader:
        with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN EXCLUSIVE")
            with pytest.raises(UnreadableError, match="locked"):
                await reader.version()
