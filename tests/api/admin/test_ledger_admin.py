"""The ledger as a file: figures, a copy while it is in use, and unused room."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
import pytest

from orchestrator.api.admin.ledger_admin import ledger_backup, ledger_compact, ledger_info
from orchestrator.api.admin.run_admin import delete
from orchestrator.api.inspect.status import show
from orchestrator.errors import LedgerBusyError, UsageError
from orchestrator.ledger import Ledger, dispatcher_lock
from orchestrator.ledger.holder_text import process_name
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION
from tests.ledger.ledgers import a_run, write_ledger


def a_ledger(folder: Path) -> Path:
    """A ledger with a run of 2,000 jobs."""

    async def made(ledger: Ledger) -> None:
        await a_run(ledger, 2_000)
        await ledger.runs.heartbeats.beat(ProcessReport())

    write_ledger(folder / "l.db", made)
    return folder / "l.db"


def test_what_is_in_it_and_who_works_on_it(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    found = anyio.run(ledger_info, ledger)
    assert (found.schema, found.holder, found.at_work) == (SCHEMA_VERSION, None, ())
    assert (found.rows["jobs"], found.rows["runs"], found.rows["events"]) == (2_000, 1, 0)
    assert found.file_bytes == ledger.stat().st_size > 100_000
    with dispatcher_lock(ledger, now=0):
        held = anyio.run(ledger_info, ledger)
    assert held.holder is not None
    assert [each.process for each in held.at_work] == [process_name()]


def test_a_copy_is_whole_while_somebody_writes_and_takes_no_place(tmp_path: Path) -> None:
    ledger, copy = a_ledger(tmp_path), tmp_path / "copy.db"
    with closing(sqlite3.connect(ledger, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM payloads WHERE job_id = 1")
        found = anyio.run(ledger_backup, ledger, copy)
        writer.execute("ROLLBACK")
    assert found.file_bytes == copy.stat().st_size
    assert anyio.run(ledger_info, copy).rows == anyio.run(ledger_info, ledger).rows
    assert anyio.run(show, copy, None).jobs["queued"] == 2_000
    assert not list(tmp_path.glob(".copy*"))
    before = copy.read_bytes()
    with pytest.raises(UsageError, match=r"copy.db: there is a file already, and nothing is overwritten"):
        anyio.run(ledger_backup, ledger, copy)
    assert copy.read_bytes() == before
    with pytest.raises(UsageError, match="belongs to the ledger"):
        anyio.run(ledger_backup, ledger, tmp_path / "l.db.key")
    with pytest.raises(UsageError, match="does not exist; create it"):
        anyio.run(ledger_backup, ledger, tmp_path / "none" / "copy.db")


def test_what_is_deleted_is_given_back_by_a_ledger_of_an_older_version_too(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("VACUUM")
    with dispatcher_lock(ledger, now=0), pytest.raises(LedgerBusyError):
        anyio.run(ledger_compact, ledger)
    anyio.run(delete, ledger, "run")
    assert anyio.run(ledger_info, ledger).free_bytes > 100_000
    found = anyio.run(partial(ledger_compact, ledger))
    assert found.bytes_after < found.bytes_before - 100_000
    info = anyio.run(ledger_info, ledger)
    assert (info.free_bytes, info.rows["jobs"]) == (0, 0)
    with closing(sqlite3.connect(ledger)) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,), "from now on by itself"
