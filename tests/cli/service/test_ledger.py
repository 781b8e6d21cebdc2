"""`orchestrator ledger`."""

import json
import re
from functools import partial
from pathlib import Path

import anyio
import msgspec
import pytest

from orchestrator.api.admin.ledger_admin import LedgerInfo, WorkingProcess
from orchestrator.api.admin.ledger_init import LedgerMade
from orchestrator.cli.service.ledger import show_info
from orchestrator.cli.service.ledger_places import show_made
from orchestrator.clock import SystemClock
from orchestrator.core.diagnosis.server_state import OldestSnapshot
from orchestrator.ledger import open_ledger
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION
from orchestrator.views.ledger_server import ServerFacts, TableSize
from tests.cli.command_line import call, requested, shown
from tests.cli.small_ledger import a_ledger_of_runs

INFO = LedgerInfo(
    ledger="l.db",
    schema="0007",
    file_bytes=3 << 20,
    free_bytes=1 << 20,
    log_bytes=0,
    rows={"runs": 1, "jobs": 1_000_000},
    holder="process 7 on a (serve) since 2026-01-01 00:00:00 UTC",
    at_work=tuple(
        WorkingProcess(process=process, since=1_767_225_600_000_000, reported_at=1_767_225_660_000_000)
        for process in ("process 7 on a", "process 7 on ab")
    ),
)


def test_the_bare_noun_shows_the_figures() -> None:
    assert requested("ledger")[:2] == requested("ledger", "info")[:2], "the bare noun shows"
    result = shown(partial(show_info, INFO, as_json=False))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "ledger        l.db",
        "schema        0007",
        "size          3.0 MiB, of which 1.0 MiB unused",
        "log           0.0 MiB",
        "worked on by  process 7 on a (serve) since 2026-01-01 00:00:00 UTC, heard of at 2026-01-01 00:01:00",
        "              process 7 on ab since 2026-01-01 00:00:00 UTC, heard of at 2026-01-01 00:01:00",
        "rows",
        "  runs        1",
        "  jobs        1,000,000",
    ]
    assert json.loads(shown(partial(show_info, INFO, as_json=True)).stdout)["rows"]["jobs"] == 1_000_000


def test_of_one_on_a_server_it_is_said_how_that_stands() -> None:
    server = ServerFacts(
        version="18.6",
        role="night_engine",
        is_synced=True,
        commits_wait_for="on",
        standbys=1,
        synchronous_standbys="",
        connections=12,
        our_connections=5,
        connections_max=100,
        database_bytes=9 << 20,
        tables=(TableSize(table="jobs", bytes=2 << 20, index_bytes=1 << 20, dead_rows=1_500, swept_at=None),),
        oldest_snapshot=OldestSnapshot(holder="connection 7 of me (psql), idle in transaction", transactions=90_000),
    )
    found = shown(partial(show_info, msgspec.structs.replace(INFO, server=server), as_json=False)).stdout
    assert found.splitlines()[2:7] == [
        "size             3.0 MiB, of 9.0 MiB of its database",
        "server           PostgreSQL 18.6, as the role night_engine",
        "connections      5 of ours, 12 of 100 in all",
        "a commit is      on its disk, synchronous_commit=on; 1 standby, none is waited for",
        "oldest snapshot  connection 7 of me (psql), idle in transaction: 90,000 transactions ago",
    ]
    assert "  jobs           1,000,000   2.0 MiB and 1.0 MiB of indexes, 1,500 dead" in found
    alone = msgspec.structs.replace(server, is_synced=False, oldest_snapshot=None, synchronous_standbys="ANY 1 (a, b)")
    found = shown(partial(show_info, msgspec.structs.replace(INFO, server=alone), as_json=False)).stdout
    assert "nowhere (fsync=off)" in found
    assert "waited for: ANY 1 (a, b)" in " ".join(found.split())
    assert "oldest snapshot  none but our own" in found


def test_what_was_made_is_told_and_who_may_do_what_as_sql() -> None:
    made = LedgerMade(
        ledger="postgresql://h/d",
        found=None,
        schema="0048",
        grants={"owner": ("GRANT A",), "engine": ("CREATE ROLE d_engine", "GRANT B"), "reader": ("GRANT C",)},
    )
    told = shown(partial(show_made, made, as_json=False))
    assert told.stderr == "postgresql://h/d: made, with version 0048 of the tables\n"
    assert [line for line in told.stdout.splitlines() if not line.startswith("--")] == [
        "GRANT A;",
        "CREATE ROLE d_engine;",
        "GRANT B;",
        "GRANT C;",
    ]
    later = msgspec.structs.replace(made, found="0040")
    assert shown(partial(show_made, later, as_json=True)).stderr.endswith(
        "brought from version 0040 of the tables to 0048\n"
    )
    for said in ("made, with version", "is there already, with version"):
        again = call(["ledger", "init", "new.db", "--json"], environment={})
        assert (again.exit_code, again.stderr) == (0, f"new.db: {said} {SCHEMA_VERSION} of the tables\n")
        assert json.loads(again.stdout)["grants"] == {}


def test_a_copy_and_the_room_that_is_given_back_are_told() -> None:
    async def made() -> None:
        async with open_ledger(Path("orchestrator.db"), clock=SystemClock()):
            pass

    anyio.run(made)
    copied = call(["ledger", "backup", "copy.db", "--json"], environment={})
    assert re.fullmatch(r"orchestrator\.db is copied to copy\.db, [0-9.]+ MiB\n", copied.stderr)
    assert (json.loads(copied.stdout)["copy"], Path("copy.db").exists()) == ("copy.db", True)
    compacted = call(["ledger", "compact", "--json"], environment={})
    assert re.fullmatch(r"orchestrator\.db: [0-9.]+ MiB before, [0-9.]+ MiB now\n", compacted.stderr)
    assert json.loads(compacted.stdout)["bytes_after"] > 0


def test_a_ledger_that_went_elsewhere_says_where_and_what_went_along() -> None:
    a_ledger_of_runs(2)
    Path("orchestrator.db.key").write_bytes(bytes(32))
    copied = call(["ledger", "copy", "orchestrator.db", "new.db", "--json"], environment={})
    assert copied.exit_code == 0, copied.stderr
    here = Path.cwd()
    *progress, said, along = copied.stderr.splitlines()
    assert progress[-1] == "copied, or compared, 22 of 22 rows"
    assert said.startswith(f"{here}/orchestrator.db is copied to {here}/new.db: 2 runs, 2 jobs, 11 rows in all")
    assert along == f"copied along, for this machine: {here}/new.db.key"
    assert json.loads(copied.stdout)["rows"]["runs"] == 2
    refused = call(["runs"], environment={})
    assert (refused.exit_code, refused.stderr) == (
        2,
        f"error: orchestrator.db: this ledger was copied to {here}/new.db, and goes on there; name that one with --ledger\n",
    )
    again = call(["ledger", "copy", "orchestrator.db", "new.db"], environment={})
    assert again.exit_code == 0
    assert again.stderr.splitlines()[0].endswith("new.db before; there is nothing left to do")
    assert call(["runs", "--ledger", "new.db"], environment={}).exit_code == 0


def test_a_ledger_is_not_copied_onto_itself_nor_to_what_is_no_place() -> None:
    a_ledger_of_runs(1)
    itself = call(["ledger", "copy", "orchestrator.db", "./orchestrator.db"], environment={})
    assert (itself.exit_code, "a ledger is copied to another place" in itself.stderr) == (2, True)
    nowhere = call(["ledger", "copy", "orchestrator.db", "mysql://h/d"], environment={})
    assert (nowhere.exit_code, nowhere.stderr.startswith("error: mysql:// is not known here")) == (2, True)


@pytest.mark.parametrize(
    ("ledger", "words"),
    [
        (
            "postgresql://me@db.example/batches",
            "public -f copy.dump 'postgresql://me@db.example/batches?sslmode=verify-full'",
        ),
        ("postgresql:///b?schema=Night&host=/run/pg", "'\"Night\"' -f copy.dump 'postgresql:///b?host=/run/pg'"),
    ],
)
def test_who_wants_a_copy_of_one_on_a_server_is_told_the_command_for_it(ledger: str, words: str) -> None:
    refused = call(["ledger", "backup", "copy.dump", "--ledger", ledger], environment={})
    assert refused.exit_code == 2
    assert refused.stderr.rstrip().endswith(f"also while it is in use: pg_dump -Fc -n {words}")
