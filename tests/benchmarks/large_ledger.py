"""A ledger of a million jobs to look at: real runs, whose rows are then copied until there are so many.

It takes minutes to make, so it is kept in a folder of the user's cache, under a name that says how it was made.
"""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from orchestrator.ledger.migrations import migrate
from orchestrator.units import DAY_US, SECOND_US
from tests.benchmarks import large_samples
from tests.benchmarks.large_samples import sample_rows
from tests.dashboard import showcase

JOBS: Final = 1_000_000
RUNS: Final = 50
PIPELINES: Final = 12
COPIED: Final = "night-1"
"""The finished run whose rows are copied."""

AGED_DAYS: Final = 400
UNFINISHED: Final = "night-2"
LARGEST: Final = 0.4
"""So much of all jobs has the largest run; another tenth are those of the run that is not finished."""

_JOB_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "jobs": {
        "id": "of.id + n.job",
        "run_id": ":run",
        "custom_id": "of.custom_id || '~' || n.copy",
        "intake_id": ":intake",
        "line": "of.line + n.copy * :lines",
        "submission_id": "of.submission_id + n.submission",
        "ended_at": "of.ended_at - n.copy * :pace",
    },
    "payloads": {"job_id": "of.job_id + n.job"},
    "outcomes": {"job_id": "of.job_id + n.job", "submission_id": "of.submission_id + n.submission"},
    "failed_executions": {"job_id": "of.job_id + n.job", "at": "of.at - n.copy * :pace"},
    "submissions": {
        "id": "of.id + n.submission",
        "job_id": "of.job_id + n.job",
        "sent_at": "of.sent_at - n.copy * :pace",
        "ended_at": "of.ended_at - n.copy * :pace",
    },
    "events": {
        "id": "of.id + n.event",
        "job_id": "of.job_id + n.job",
        "submission_id": "of.submission_id + n.submission",
        "at": "of.at - n.copy * :pace",
    },
}
"""What is another in a copy of a row; all else stays."""

SAMPLED: Final = 8
"""So many of the other runs have samples."""

PACE_US: Final = 8 * SECOND_US
"""Each copy happened so long before the one before it."""

_NEVER_COPIED: Final = ("outstanding", "submitting", "uncertain")
"""Nobody at the service knows of a copy."""

_RUN_TABLES: Final = (*("brakes", "clusters", "counts", "executions", "margins", "retried_kinds", "run_endpoints"),)
_COUNTED: Final = {"n", "told", "total_ms", "untold", "failed", "squares"}


def large_ledger(folder: Path, jobs: int = JOBS, runs: int = RUNS, pipelines: int = PIPELINES) -> Path:
    """A copy in `folder` of the ledger with so much in it, which is made where none is kept; nobody works on it."""
    kept = _cache() / f"large-{_digest(jobs, runs, pipelines)}.db"
    if not kept.exists():
        with TemporaryDirectory() as name:
            made = _real(Path(name), pipelines)
            _grow(made, jobs, runs)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made, kept.with_suffix(".part"))
            kept.with_suffix(".part").rename(kept)
    path = folder / showcase.LEDGER
    shutil.copyfile(kept, path)
    migrate(path)
    return path


def age(path: Path) -> None:
    """Has the run whose rows were copied last for as long as samples are kept, with all of them."""
    with closing(sqlite3.connect(path)) as connection, connection:
        run, endpoint = connection.execute("SELECT id, endpoint_id FROM runs WHERE name = ?", (COPIED,)).fetchone()
        (until,) = connection.execute("SELECT max(ended_at) FROM jobs WHERE run_id = ?", (run,)).fetchone()
        sample_rows(connection, [run], [endpoint], until, days=AGED_DAYS)
        connection.execute("UPDATE runs SET created_at = ? WHERE id = ?", (until - AGED_DAYS * DAY_US, run))


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orchestrator-benchmarks"


def _digest(*sizes: int) -> str:
    """Of what it is made by: an older ledger is migrated."""
    made_by = [Path(name).read_text(encoding="utf-8") for name in (__file__, large_samples.__file__, showcase.__file__)]
    return hashlib.sha256(msgspec.json.encode([made_by, sizes])).hexdigest()[:12]


def _real(folder: Path, pipelines: int) -> Path:
    with showcase.at_work(folder, pipelines=pipelines):
        pass
    with closing(sqlite3.connect(folder / showcase.LEDGER)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder / showcase.LEDGER


def _grow(path: Path, jobs: int, runs: int) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = OFF")
        _offsets(connection, jobs)
        there = connection.execute(
            "SELECT count(*) FROM runs WHERE id NOT IN (SELECT run_id FROM stages WHERE run_id IS NOT NULL)"
        ).fetchone()[0]
        begun = connection.execute("SELECT count(*) FROM jobs").fetchone()[0]
        source, other = _run(connection, COPIED), _run(connection, UNFINISHED)
        size = connection.execute("SELECT count(*) FROM jobs WHERE run_id = ?", (source,)).fetchone()[0]
        new = [_new_run(connection, source, f"batch-{n:02}") for n in range(there, runs)]
        copies = max((jobs - begun) // size, 1)
        used = _copied(connection, source, source, 0, round(copies * LARGEST))
        used += _copied(connection, other, other, used, round(copies * size * 0.1 / (10 * size)))
        each = -(-(copies - round(copies * (LARGEST + 0.1))) // max(len(new), 1))
        for run in new:
            used += _copied(connection, source, run, used, each)
        until = connection.execute("SELECT max(beaten_at) FROM heartbeats").fetchone()[0]
        endpoints = [row[0] for row in connection.execute("SELECT id FROM endpoints")]
        sample_rows(connection, [source, other, *new[:SAMPLED]], endpoints, until)
        connection.execute("PRAGMA optimize")


def _run(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute("SELECT id FROM runs WHERE name = ?", (name,)).fetchone()[0])


def _offsets(connection: sqlite3.Connection, copies: int) -> None:
    """By how much the numbers of each copy differ from those of the first."""
    strides = {
        name: connection.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()[0]
        for name, table in {"job": "jobs", "submission": "submissions", "event": "events"}.items()
    }
    connection.execute(
        "CREATE TEMP TABLE copies (copy INTEGER PRIMARY KEY, job INTEGER, submission INTEGER, event INTEGER)"
    )
    connection.execute(
        "WITH RECURSIVE up(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM up WHERE i < :copies) INSERT INTO copies"
        " SELECT i, i * :job, i * :submission, i * :event FROM up",
        {"copies": copies // 100 + 10, **strides},
    )


def _new_run(connection: sqlite3.Connection, source: int, name: str) -> int:
    """A run without jobs, with the settings of another."""
    connection.execute(
        _copy(connection, "runs", {"id": "NULL", "name": ":name"}, "of.id = :source"), {"name": name, "source": source}
    )
    run = int(connection.execute("SELECT last_insert_rowid()").fetchone()[0])
    values = {"source": source, "run": run}
    connection.execute(_copy(connection, "intakes", {"id": "NULL", "run_id": ":run"}, "of.run_id = :source"), values)
    for table in _RUN_TABLES:
        if _columns(connection, table):
            connection.execute(_copy(connection, table, {"run_id": ":run"}, "of.run_id = :source"), values)
    return run


def _copied(connection: sqlite3.Connection, source: int, run: int, used: int, copies: int) -> int:
    """Copies the jobs of `source` so often into `run`, with numbers that the `used` first copies have not; how often."""
    lines = connection.execute("SELECT max(line) FROM jobs WHERE run_id = ?", (source,)).fetchone()[0]
    intake = connection.execute("SELECT max(id) FROM intakes WHERE run_id = ?", (run,)).fetchone()[0]
    values = {
        "source": source, "run": run, "intake": intake, "lines": lines, "after": used, "until": used + copies,
        "pace": PACE_US,
    }  # fmt: skip
    states = ", ".join(f"'{state}'" for state in _NEVER_COPIED)
    connection.execute(
        f"CREATE TEMP TABLE copied AS SELECT id FROM jobs WHERE run_id = :source AND state NOT IN ({states})"
        f" AND instr(custom_id, '~') = 0",
        values,
    )
    for table, changed in _JOB_TABLES.items():
        key = "id" if table == "jobs" else "job_id"
        select = _copy(
            connection, table, changed, f"of.{key} IN (SELECT id FROM copied) AND n.copy > :after AND n.copy <= :until"
        )
        connection.execute(select.replace(" AS of", " AS of, copies AS n") + f" ORDER BY n.copy, of.{key}", values)
    connection.execute("DROP TABLE copied")
    factor = copies + (source == run)
    for table in _RUN_TABLES:
        for column in _COUNTED & set(_columns(connection, table)):
            connection.execute(f"UPDATE {table} SET {column} = {column} * ? WHERE run_id = ?", (factor, run))
    connection.execute("UPDATE runs SET rows_accepted = rows_accepted * ? WHERE id = ?", (factor, run))
    connection.execute(
        "UPDATE counts SET n = (SELECT count(*) FROM jobs WHERE jobs.run_id = counts.run_id AND state = counts.name)"
        " WHERE run_id = ? AND name IN (SELECT DISTINCT state FROM jobs WHERE run_id = counts.run_id)",
        (run,),
    )
    return copies


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """The names of its columns; none where there is no such table."""
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def _copy(connection: sqlite3.Connection, table: str, changed: Mapping[str, str], where: str) -> str:
    names = _columns(connection, table)
    values = ", ".join(changed.get(name, f'of."{name}"') for name in names)
    columns = ", ".join(f'"{name}"' for name in names)
    return f"INSERT INTO {table} ({columns}) SELECT {values} FROM {table} AS of WHERE {where}"
