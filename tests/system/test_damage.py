"""What happens to the ledger's files while nobody looks: damage, power loss, no permission, somebody else's lock."""

import random
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.crashes.kills import copied, verified
from tests.system.processes import FAST, Desk, Program, Service

pytestmark = pytest.mark.system

JOBS = 300
LEDGER = "orchestrator.db"
PAGE_BYTES = 4096
CUTS = 8
"""Write-ahead logs cut off at so many random bytes."""


def root_page_of(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0])


@pytest.mark.slow
def test_a_damaged_page_is_recognised_where_it_is_met_and_found_by_verify(desk: Desk, service: Service) -> None:
    desk.inputs(JOBS)
    command = ("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, *FAST)
    assert desk.call(*command).exit_code == 0
    page = root_page_of(desk.folder / LEDGER, "outcomes")
    with (desk.folder / LEDGER).open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(random.Random(1).randbytes(PAGE_BYTES))

    met = desk.call("results", "prompts")
    found = desk.call("verify")

    assert (met.exit_code, met.stdout) == (3, "")
    assert "the ledger is damaged" in met.stderr
    assert "restore it from a copy, or start with another --ledger" in met.stderr
    assert "Traceback" not in met.stderr
    assert found.exit_code == 1, found
    assert found.stdout.startswith("damage: ")
    assert "what to do: " in found.stdout


@pytest.mark.slow
def test_a_file_that_is_no_ledger_any_more_cannot_be_read_at_all(desk: Desk, service: Service) -> None:
    desk.inputs(3)
    assert desk.call("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url).exit_code == 0
    with (desk.folder / LEDGER).open("r+b") as file:
        file.seek(100)  # behind the words by which it is known: the root of the list of tables
        file.write(bytes(PAGE_BYTES - 100))

    ended = desk.call("verify")

    assert (ended.exit_code, ended.stdout) == (3, "")
    assert "the ledger is damaged" in ended.stderr


@pytest.fixture
def stopped(desk: Desk, service: Service) -> Program:
    """A run in its middle, stopped where it stands, with the write-ahead log of many commits."""
    desk.inputs(JOBS)
    command = ("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--json")
    program = desk.start(*command, "--limit", "run=300/1:20", "--uncertain-after", "100ms")
    service.wait("accepted", JOBS // 2)
    program.signal(signal.SIGSTOP)
    return program


@pytest.mark.slow
def test_files_copied_at_any_moment_and_cut_off_anywhere_hold_a_prefix_of_the_commits(
    desk: Desk, service: Service, stopped: Program
) -> None:
    copies = copied(desk.folder, desk.folder / "copies")
    log = (copies / f"{LEDGER}-wal").read_bytes()
    stopped.kill()
    whole = events_of(copied(copies, desk.folder / "whole"))
    assert verified(desk.folder / "whole").ok
    assert len(whole) > JOBS // 2
    chance = random.Random(2)
    lengths = set()

    for number, end in enumerate([*(chance.randrange(len(log)) for _ in range(CUTS)), 0]):
        cut = desk.folder / f"cut{number}"
        cut.mkdir()
        (cut / LEDGER).write_bytes((copies / LEDGER).read_bytes())
        (cut / f"{LEDGER}-wal").write_bytes(log[:end])
        if not (cut / LEDGER).stat().st_size and end < PAGE_BYTES * 2:
            continue  # nothing was ever committed
        audit = verified(cut)
        assert audit.ok, (end, audit.findings)
        events = events_of(cut)
        assert events == whole[: len(events)]
        lengths.add(len(events))
    assert len(lengths) > 2, "cuts at different places lose different commits"

    again = Desk(desk.folder / "whole").call("resume", "prompts", "--output", "results.jsonl", "--json", *FAST)

    assert again.exit_code == 0, again
    assert again.summary["jobs"]["succeeded"] == JOBS
    assert len(service.accepted()) <= JOBS + again.summary["uncertain"]["resubmitted"]


def events_of(folder: Path) -> list[tuple[int, str]]:
    """All events of the ledger in `folder`, oldest first."""
    with closing(sqlite3.connect(folder / LEDGER)) as connection:
        return connection.execute("SELECT job_id, event FROM events ORDER BY id").fetchall()


@pytest.mark.slow
def test_a_ledger_that_cannot_be_written_is_told_and_nothing_is_sent(desk: Desk, service: Service) -> None:
    desk.inputs(3)
    command = ("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url)
    assert desk.call(*command).exit_code == 0
    desk.inputs(5)
    with closing(sqlite3.connect(desk.folder / LEDGER)) as connection:
        # Root may write to any file, whatever its mode says; SQLite itself refuses a format newer than it knows.
        assert connection.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    with (desk.folder / LEDGER).open("r+b") as file:
        file.seek(18)
        file.write(b"\x03")  # "file format write version": above 2 the file is read-only

    ended = desk.call(*command)

    assert ended.exit_code == 3, ended
    assert "the ledger is read-only" in ended.stderr
    assert "make the file, the -wal and -shm beside it, and its folder writable, then resume" in ended.stderr
    assert len(service.accepted()) == 3
    assert len(desk.call("results", "prompts").stdout.splitlines()) == 3


@pytest.mark.slow
def test_another_program_that_takes_the_lock_again_and_again_is_waited_for(
    desk: Desk, service: Service, stopped: Program
) -> None:
    stopped.signal(signal.SIGCONT)
    with closing(sqlite3.connect(desk.folder / LEDGER, isolation_level=None, timeout=60)) as other:
        for accepted in range(JOBS // 2, JOBS, 10):
            service.wait("accepted", accepted)
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")

    ended = stopped.ended()

    assert ended.exit_code == 0, ended
    assert ended.summary["jobs"]["succeeded"] == JOBS
