"""A ledger file is brought to this program's schema, whole or not at all."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateIndex, CreateTable

from orchestrator.clock import SystemClock
from orchestrator.core.jobs.reasons import Detail, ReasonCode
from orchestrator.core.text.error_text import error_key
from orchestrator.errors import LedgerBusyError, LedgerVersionError, UsageError
from orchestrator.ledger import command_ledger, read_ledger
from orchestrator.ledger.jobs.history import EventRow
from orchestrator.ledger.migrations import SCRIPTS, _exclusively, _upgrade, migrate, version_of
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION, metadata
from orchestrator.ledger.sqlite.file_locks import dispatcher_lock

CUT_OFF = """
import resource, signal, sys
from pathlib import Path
from orchestrator.errors import StorageError
from orchestrator.ledger.jobs.history import EventRow
from orchestrator.ledger.migrations import migrate

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    migrate(Path(sys.argv[1]))
except StorageError as error:
    sys.exit(str(error))
"""


OPENED_AND_CLOSED = """
import sqlite3, sys

connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT 1 FROM runs").fetchall()
connection.close()
"""


def schema(path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Each table and index with its columns and constraints, in any order and layout."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: _parts(sql) for name, sql in found if not name.startswith(("alembic", "sqlite"))}


def _parts(sql: str) -> tuple[str, frozenset[str]]:
    """What stands before the outermost parenthesis and after it, and the parts inside it."""
    text = " ".join(sql.split())
    inside = text[text.index("(") + 1 : text.rindex(")") if text.startswith("CREATE TABLE") else len(text)]
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(inside):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(inside[begin:at].strip())
            begin = at + 1
    parts.append(inside[begin:].strip())
    outside = text[: text.index("(")] + (text[text.rindex(")") :] if text.startswith("CREATE TABLE") else "")
    return outside, frozenset(parts)


def by_all_migrations(path: Path) -> None:
    with _exclusively(path) as connection:
        _upgrade(connection)


WAYS = pytest.mark.parametrize("make", [migrate, by_all_migrations])


@WAYS
def test_a_ledger_equals_the_tables_whichever_way_it_was_made(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "migrated.db")
    with create_engine(f"sqlite:///{tmp_path / 'made.db'}", poolclass=NullPool).begin() as connection:
        for table in metadata.sorted_tables:
            connection.execute(CreateTable(table))
            for index in table.indexes:
                connection.execute(CreateIndex(index))

    assert schema(tmp_path / "migrated.db") == schema(tmp_path / "made.db")
    assert version_of(tmp_path / "migrated.db") == SCHEMA_VERSION


@WAYS
def test_alembic_finds_nothing_to_migrate_in_it(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "l.db")
    with create_engine(f"sqlite:///{tmp_path / 'l.db'}", poolclass=NullPool).connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_the_schema_version_is_the_latest_migration() -> None:
    assert ScriptDirectory(str(SCRIPTS)).get_heads() == [SCHEMA_VERSION]


def test_migrating_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    assert version_of(path) is None
    migrate(path)
    before = path.read_bytes()
    migrate(path)

    assert path.read_bytes() == before
    assert version_of(path) == SCHEMA_VERSION


def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    path.touch()
    migrate(path)

    assert version_of(path) == SCHEMA_VERSION


def test_a_database_without_tables_becomes_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("DROP TABLE t")
    migrate(path)

    assert version_of(path) == SCHEMA_VERSION


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be read \(Is a directory\); name another file with ledger="):
        migrate(tmp_path)


@pytest.mark.parametrize("name", ["what?mode=memory.db", "100%.db", "with space.db"])
def test_any_file_name_will_do(name: str, tmp_path: Path) -> None:
    migrate(tmp_path / name)

    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert version_of(tmp_path / name) == SCHEMA_VERSION


def test_a_newer_ledger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()

    told = rf"l\.db: this ledger has version 9999, this program knows up to {SCHEMA_VERSION}; upgrade the program"
    with pytest.raises(LedgerVersionError, match=told):
        migrate(path)

    async def look() -> None:
        async with read_ledger(path, clock=SystemClock()):
            raise AssertionError("opened")

    with pytest.raises(LedgerVersionError, match=told):
        anyio.run(look)


@pytest.mark.parametrize(
    "tables", [["CREATE TABLE songs (title)"], ["CREATE TABLE jobs (x)"], ["CREATE TABLE alembic_version (x)"]]
)
def test_the_database_of_another_program_is_left_alone(tables: list[str], tmp_path: Path) -> None:
    path = tmp_path / "music.db"
    with closing(sqlite3.connect(path)) as connection:
        for table in tables:
            connection.execute(table)
    before = path.read_bytes()

    with pytest.raises(UsageError, match=r"music\.db: this database is not a ledger"):
        migrate(path)
    assert path.read_bytes() == before


def test_what_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("milk, bread\n" * 100)

    with pytest.raises(UsageError, match=r"notes\.txt: this file is not a ledger; name another file with ledger="):
        migrate(path)


def test_a_ledger_to_look_at_has_to_be_there(tmp_path: Path) -> None:
    async def look() -> None:
        async with read_ledger(tmp_path / "l.db", clock=SystemClock()):
            raise AssertionError("opened")

    with pytest.raises(UsageError, match=r"l\.db: there is no ledger here; name it with ledger="):
        anyio.run(look)


@pytest.mark.parametrize("size", [20_000, pytest.param(65_536, marks=pytest.mark.slow)])
def test_a_migration_that_is_cut_off_leaves_nothing_behind(size: int, tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    cut = subprocess.run(
        [sys.executable, "-c", CUT_OFF, str(path), str(size)], capture_output=True, text=True, check=False
    )
    assert cut.returncode == 1
    assert "cannot write the ledger" in cut.stderr
    assert "free some space on its disk, then resume" in cut.stderr

    migrate(path)
    assert version_of(path) == SCHEMA_VERSION


@pytest.mark.slow
def test_the_scripts_are_found_inside_an_installed_package(tmp_path: Path) -> None:
    import orchestrator

    package = Path(orchestrator.__file__).parent
    installed = tmp_path / "site" / "orchestrator"
    installed.parent.mkdir()
    subprocess.run(["cp", "-r", package, installed], check=True)
    subprocess.run(["cp", "-r", SCRIPTS, installed / "migrations"], check=True)
    code = (
        "import sys; from pathlib import Path; from orchestrator.ledger.migrations import SCRIPTS, migrate; "
        "migrate(Path('l.db')); print(SCRIPTS)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(installed.parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stdout.strip() == str((installed / "migrations").resolve())
    assert version_of(tmp_path / "l.db") == SCHEMA_VERSION


def old_ledger(path: Path, version: str) -> Path:
    """A ledger as an older program left it."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    with _exclusively(path) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, version)
    return path


async def look_at(path: Path) -> int:
    async with read_ledger(path, clock=SystemClock()) as ledger:
        return len(await ledger.runs.limits.all())


def test_a_ledger_of_an_older_program_is_brought_up_before_it_is_looked_at(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "l.db", "0001")
    assert version_of(path) == "0001"
    assert anyio.run(look_at, path) == 0
    assert version_of(path) == SCHEMA_VERSION


def test_a_ledger_that_an_older_program_works_on_is_left_alone(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "l.db", "0001")
    with (
        dispatcher_lock(path, now=0),
        pytest.raises(LedgerBusyError, match=r"older version .* start it again with this"),
    ):
        anyio.run(look_at, path)
    assert version_of(path) == "0001"


@pytest.mark.parametrize("content", [b"", None], ids=["empty", "a ledger"])
def test_a_ledger_with_a_second_name_is_refused_even_an_empty_one(tmp_path: Path, content: bytes | None) -> None:
    path, second = tmp_path / "l.db", tmp_path / "second.db"
    if content is None:
        migrate(path)
    else:
        path.write_bytes(content)
    second.hardlink_to(path)

    for name in (path, second):
        with pytest.raises(UsageError, match=r"has 2 names \(hard links\)"):
            migrate(name)
    second.unlink()
    second.symlink_to(path)
    migrate(second)
    assert version_of(path) == SCHEMA_VERSION


LEFT_BY_0_1 = """
    INSERT INTO endpoints VALUES (1, 'https://api.example', 'abc');
    INSERT INTO runs (id, name, endpoint_id, source, settings, created_at, intake_accepted, pause_requested,
        cancel_requested) VALUES (1, 'goes on', 1, '-', '{}', 1, 1, 0, 0), (2, 'paused', 1, '-', '{}', 1, 2, 1, 0),
        (3, 'cancelled', 1, '-', '{}', 1, 3, 0, 1);
    INSERT INTO intakes VALUES (1, 1, 1, 1, 1), (2, 2, 1, 1, 2), (3, 3, 1, 1, 3);
    INSERT INTO jobs (id, run_id, endpoint_id, custom_id, intake_id, line, state, submission_id, attempt, unfinished_at)
        VALUES (1, 1, 1, 'a', 1, 1, 'outstanding', 1700000000000001, 1, 5), (2, 2, 1, 'b', 2, 1, 'queued', NULL, 0, NULL),
        (3, 3, 1, 'c', 3, 1, 'queued', NULL, 0, NULL);
    INSERT INTO submissions (id, job_id, attempt, remote_id, sent_at, ttl_at) VALUES (1700000000000001, 1, 1, 'r', 2, 9);
    INSERT INTO events VALUES (1, 1, 2, 'claimed', 1700000000000001, 1, NULL, 'run');
    INSERT INTO limits VALUES (1, 'run', 5, 1000000, NULL, 7);
    INSERT INTO meters VALUES (1, 'run', 1, 5, 0, 7);
    INSERT INTO vitals VALUES (1, 'janitor', '{"at": 7, "failing": []}', 7);
"""


def test_a_ledger_of_the_first_release_keeps_its_runs_and_how_they_stand(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "l.db", "0004")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(LEFT_BY_0_1)
    kept = (
        "SELECT name, pause_requested, cancel_requested FROM runs",
        "SELECT id, state FROM jobs",
        "SELECT id, remote_id, sent_at, ttl_at FROM submissions",
        "SELECT * FROM limits",
    )
    with closing(sqlite3.connect(path)) as connection:
        before = [connection.execute(sql).fetchall() for sql in kept]
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        assert [connection.execute(sql).fetchall() for sql in kept] == before
        assert connection.execute("SELECT owner, epoch FROM submissions").fetchall() == [(0, 0)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []

    async def controls() -> dict[str, tuple[bool, bool]]:
        async with read_ledger(path, clock=SystemClock()) as ledger:
            found = {run.name: await ledger.runs.controls(run.id) for run in await ledger.runs.all()}
            return {name: (each.pause, each.cancel) for name, each in found.items()}

    assert anyio.run(controls) == {"goes on": (False, False), "paused": (True, False), "cancelled": (False, True)}


LEFT_BY_0006 = """
    INSERT INTO endpoints VALUES (1, 'https://api.example', 'abc');
    INSERT INTO runs (id, name, endpoint_id, source, settings, created_at, intake_accepted)
        VALUES (1, 'one', 1, '-', '{}', 1, 2), (2, 'two', 1, '-', '{}', 1, 2);
    WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 4100)
        INSERT INTO jobs (id, run_id, endpoint_id, custom_id, intake_id, line, state, trouble, ended_at)
        SELECT i, 1 + i / 4100, 1, i, 1, i, iif(i % 2, 'failed', 'succeeded'), iif(i % 2, 'lost', NULL), 1000 + i FROM n;
    INSERT INTO outcomes (job_id, trouble, message)
        SELECT id, trouble, iif(state = 'failed', 'no news of ' || id, NULL) FROM jobs;
    UPDATE jobs SET state = 'failed', trouble = 'failed' WHERE id = 4100;
    UPDATE outcomes SET trouble = 'failed', message = NULL WHERE job_id = 4100;
"""


def test_failures_of_an_older_ledger_are_clustered(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "l.db", "0006")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(LEFT_BY_0006)
    migrate(path)
    lost, failed = error_key("lost", "no news of 1"), error_key("failed", None)
    with closing(sqlite3.connect(path)) as connection:
        keys = connection.execute("SELECT error_key, count(*) FROM outcomes GROUP BY 1 ORDER BY 2").fetchall()
        clusters = connection.execute("SELECT * FROM clusters").fetchall()
    assert keys == [(failed, 1), (None, 2049), (lost, 2050)]
    assert clusters == [(1, lost, 2050, 1001, 5099), (2, failed, 1, 5100, 5100)]


LEFT_BY_0028 = """
    INSERT INTO events (job_id, at, event, attempt, trouble, reason) VALUES
        (1, 1, 'claimed', 1, NULL, 'run'),
        (1, 2, 'claimed', 1, NULL, 'run; not reused: there is none; it had ended with: no'),
        (1, 3, 'accepted', 1, NULL, 'retry unanswered'),
        (1, 4, 'accepted', 1, NULL, 'retry refused'),
        (1, 5, 'retried', 1, 'failed', 'status'),
        (1, 6, 'retried', 1, 'failed', 'status; with endpoint big'),
        (1, 7, 'retried', 1, 'failed', 'status, which costs no attempt; with endpoint big'),
        (1, 8, 'retried', 1, 'failed', 'webhook, which costs no attempt'),
        (1, 9, 'reopened', 1, NULL, 'asked for'),
        (1, 10, 'reopened', 1, NULL, 'asked for, with TTL 10 s and 1 attempt'),
        (1, 11, 'reopened', 1, NULL, 'asked for; it had ended with: no, with "that"'),
        (1, 12, 'reopened', 1, NULL, 'asked for, with 1 attempt; it had ended with: no; with that'),
        (1, 13, 'abandoned', 1, 'failed', 'it failed; with that');
"""


def test_reasons_of_an_older_ledger_are_read_as_they_were_and_have_their_codes(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "l.db", "0028")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(LEFT_BY_0028)
        before = connection.execute("SELECT reason FROM events ORDER BY id").fetchall()

    async def history() -> list[EventRow]:
        async with read_ledger(path, clock=SystemClock()) as ledger:
            return await ledger.jobs.history.of(1)

    rows = anyio.run(history)
    assert [(row.reason,) for row in rows] == before
    assert [row.code for row in rows] == [
        None,
        ReasonCode.NOT_REUSED,
        ReasonCode.RETRY_UNANSWERED,
        ReasonCode.RETRY_REFUSED,
        *[None] * 4,
        *[ReasonCode.REQUESTED] * 4,
        None,
    ]
    assert rows[1].detail.because == "there is none; it had ended with: no"
    assert [row.detail.settings for row in rows[5:7]] == ["endpoint big"] * 2
    assert [row.detail.is_free for row in rows[4:8]] == [False, False, True, True]
    assert rows[11].detail == Detail(settings="1 attempt", error="no; with that")


def test_looking_at_a_ledger_leaves_the_locks_of_an_open_connection_alone(tmp_path: Path) -> None:
    """Else another process that closes it takes itself for the last one, and removes the log that is in use."""
    path = tmp_path / "l.db"
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("UPDATE runs SET name = name")
        connection.commit()
        connection.execute("SELECT count(*) FROM runs").fetchall()
        assert version_of(path) == SCHEMA_VERSION
        subprocess.run([sys.executable, "-c", OPENED_AND_CLOSED, str(path)], check=True)
        assert path.with_name("l.db-wal").exists()


def test_who_opens_a_ledger_as_its_last_user_leaves_knows_its_files(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    migrate(path)
    last = sqlite3.connect(path)
    last.execute("PRAGMA journal_mode=WAL")
    last.execute("UPDATE runs SET name = name")
    last.commit()

    async def lost() -> str | None:
        async with command_ledger(path, clock=SystemClock()) as ledger:
            last.close()
            for name in "abcd":  # a new file would get the number of one that was removed
                (tmp_path / name).touch()
            await ledger.runs.all()
            return ledger.place.lost()

    assert anyio.run(lost) is None


LEFT_BY_0031 = """
    INSERT INTO pipelines (id, name, definition_id, created_at) VALUES (1, 'p', 1, 1);
    INSERT INTO definitions (id, pipeline_id, version, body, applied_at) VALUES (1, 1, 1, x'7b7d', 1);
    INSERT INTO flows (pipeline_id, definition_id, fire_at, name, kind, state, recorded_at, ended_at) VALUES
        (1, 1, 1, 'a', 'scheduled', 'failed', 1, 2),
        (1, 1, 2, 'b', 'scheduled', 'failed', 1, 2),
        (1, 1, 3, 'c', 'scheduled', 'partial', 1, 2),
        (1, 1, 4, 'd', 'scheduled', 'running', 1, NULL);
"""


def test_flows_of_an_older_ledger_have_ended_as_they_stand(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "l.db", "0031")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(LEFT_BY_0031)
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM flow_ends ORDER BY 2").fetchall() == [
            (1, "failed", 2),
            (1, "partial", 1),
        ]


def test_messages_of_an_older_ledger_that_were_settled_are_counted(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "l.db", "0034")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """
            INSERT INTO outbox (pipeline_id, news, body, owed_at, due_at, told_at, given_up_at, target) VALUES
                (1, 'failed', x'7b7d', 1, 1, 2, NULL, 'ops'),
                (1, 'failed', x'7b7d', 1, 1, NULL, 2, 'ops'),
                (1, 'failed', x'7b7d', 1, 1, NULL, NULL, 'ops');
            INSERT INTO run_outbox (run_id, news, body, owed_at, due_at, told_at, target) VALUES
                (1, 'failed', x'7b7d', 1, 1, 2, 'ops');
            """
        )
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM message_ends ORDER BY 2").fetchall() == [
            ("ops", "given_up", 1),
            ("ops", "told", 2),
        ]
