"""What a user reads when the file, not the program, is to blame; and that our own defects are not taken for that."""

import sqlite3
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, StatementError

from orchestrator.errors import LedgerUnavailableError, StorageError
from orchestrator.ledger import open_ledger
from orchestrator.ledger.migrations import migrate
from orchestrator.ledger.runs.runs import Runs
from orchestrator.ledger.schema.row_codec import PACK_BYTES_MIN, pack, unpack
from orchestrator.ledger.sqlite.database import READERS_MAX, Database
from orchestrator.ledger.sqlite.file_errors import storage_errors
from tests.few_files import no_file_left
from tests.ledger.ledgers import dump
from tests.simulation.clock import VirtualClock

pytestmark = pytest.mark.anyio


def said(code: int) -> sqlite3.OperationalError:
    """What SQLite says with that code."""
    error = sqlite3.OperationalError("so it is")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (sqlite3.SQLITE_IOERR_READ, "cannot use the ledger (so it is)"),
        (sqlite3.SQLITE_READONLY, "the ledger is read-only (so it is); make the file, the -wal and -shm beside it"),
        (sqlite3.SQLITE_CORRUPT, "the ledger is damaged (so it is); restore it from a copy"),
        (sqlite3.SQLITE_NOTADB, "the ledger is damaged (so it is); restore it from a copy"),
        (sqlite3.SQLITE_CANTOPEN, "cannot use the ledger (so it is); its folder must be there"),
        (sqlite3.SQLITE_ERROR, "cannot use the ledger (so it is)"),
    ],
)
def test_each_trouble_with_the_file_says_what_happened_where_and_what_to_do(code: int, told: str) -> None:
    with pytest.raises(StorageError) as caught, storage_errors(Path("/data/l.db")):
        raise said(code)

    assert not isinstance(caught.value, LedgerUnavailableError), "nobody waits for that"
    assert str(caught.value).startswith(f"/data/l.db: {told}")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (sqlite3.SQLITE_FULL, "cannot write the ledger (so it is); free some space on its disk"),
        (sqlite3.SQLITE_IOERR_WRITE, "cannot write the ledger (so it is); free some space on its disk"),
        (sqlite3.SQLITE_IOERR_FSYNC, "cannot write the ledger (so it is); free some space on its disk"),
        (sqlite3.SQLITE_BUSY, "another program has locked the ledger (so it is); close it"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "another program has locked the ledger (so it is); close it"),
    ],
)
def test_what_may_pass_by_itself_can_be_waited_for(code: int, told: str) -> None:
    with pytest.raises(LedgerUnavailableError) as caught, storage_errors(Path("/data/l.db")):
        raise said(code)

    assert caught.value.while_waiting == f"/data/l.db: {told}"
    assert str(caught.value) == f"/data/l.db: {told}, then resume"


@pytest.mark.parametrize("defect", [sqlite3.IntegrityError, sqlite3.ProgrammingError, LookupError])
def test_a_defect_of_ours_passes_as_it_is(defect: type[Exception]) -> None:
    with pytest.raises(defect), storage_errors(Path("l.db")):
        raise defect("ours")


async def test_a_constraint_is_no_trouble_with_the_file_and_rolls_back(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    migrate(path)
    database = Database(path)

    async def write() -> None:
        async with database.writing() as connection:
            await connection.execute(text("INSERT INTO counts VALUES (2, 'b', 1)"))
            await connection.execute(text("INSERT INTO counts VALUES (1, 'a', 1), (1, 'a', 1)"))

    with pytest.raises(IntegrityError):
        await write()
    with pytest.raises(StatementError):
        async with database.writing() as connection:
            await connection.execute(text("INSERT INTO counts VALUES (2, :name, 1)"))
    await database.aclose()

    assert dump(path)["counts"] == []


async def test_a_full_disk_rolls_back_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    migrate(path)
    database = Database(path)
    insert = text("INSERT INTO events (job_id, at, event, attempt, reason) VALUES (:job, 1, 'e', 1, :reason)")

    async def fill() -> None:
        async with database.writing() as connection:
            await connection.execute(text("PRAGMA max_page_count = 1"))
            await connection.execute(insert, [{"job": n, "reason": "x" * 1000} for n in range(500)])

    with pytest.raises(StorageError, match=r"l\.db: cannot write the ledger \(database or disk is full\); free some"):
        await fill()
    async with database.writing() as connection:
        await connection.execute(text("INSERT INTO counts VALUES (1, 'after', 1)"))
    await database.aclose()

    assert dump(path)["events"] == []
    assert dump(path)["counts"] == [(1, "after", 1)]


@pytest.mark.parametrize("journal", ["delete", "wal"])
async def test_a_ledger_that_cannot_be_written_is_told_when_it_is_opened(tmp_path: Path, journal: str) -> None:
    path = tmp_path / "l.db"
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
    with path.open("r+b") as file:
        file.seek(18)  # "file format write version": above 2 the file is read-only, for root, too
        file.write(b"\x03")

    with pytest.raises(StorageError, match=r"l\.db: the ledger is read-only"):
        async with open_ledger(path, clock=VirtualClock()):
            raise AssertionError("a ledger that nothing can be written to was opened to work on")


async def test_a_ledger_has_all_its_connections_from_the_start(tmp_path: Path) -> None:
    async with open_ledger(tmp_path / "l.db", clock=VirtualClock()) as ledger:
        await ledger.runs.all()
        with no_file_left():
            async with AsyncExitStack() as at_once:
                for _ in range(READERS_MAX):
                    connection = await at_once.enter_async_context(ledger._site.database.reading())
                    assert await Runs(ledger.jobs._access.within(connection)).all() == []


async def test_the_ledger_is_as_durable_as_it_says(tmp_path: Path) -> None:
    database = Database(tmp_path / "l.db")
    found = {}
    async with database.writing() as connection:
        for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout"):
            found[name] = (await connection.execute(text(f"PRAGMA {name}"))).scalar_one()
    await database.aclose()

    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}


@pytest.mark.parametrize("blob", [None, b"", b"x" * (PACK_BYTES_MIN - 1), b"x" * PACK_BYTES_MIN, b"xy" * 50_000])
def test_what_is_packed_is_unpacked_as_it_was(blob: bytes | None) -> None:
    stored, packed = pack(blob)

    assert packed == (blob is not None and len(blob) >= PACK_BYTES_MIN)
    if stored is not None:
        assert unpack(stored, packed) == blob
