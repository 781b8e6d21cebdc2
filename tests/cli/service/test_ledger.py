"""`orchestrator ledger`."""

import json
import re
from functools import partial
from pathlib import Path

import anyio

from orchestrator.api.admin.ledger_admin import LedgerInfo, WorkingProcess
from orchestrator.cli.service.ledger import show_info
from orchestrator.clock import SystemClock
from orchestrator.ledger import open_ledger
from tests.cli.command_line import call, requested, shown

INFO = LedgerInfo(
    ledger="l.db",
    schema="0007",
    file_bytes=3 << 20,
    free_bytes=1 << 20,
    log_bytes=0,
    rows={"runs": 1, "jobs": 1_000_000},
    holder="process 7 since noon",
    at_work=(WorkingProcess(process="host 7", since=1_767_225_600_000_000, reported_at=1_767_225_660_000_000),),
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
        "worked on by  process 7 since noon",
        "              host 7 since 2026-01-01 00:00:00, heard of at 2026-01-01 00:01:00",
        "              (UTC)",
        "rows",
        "  runs        1",
        "  jobs        1,000,000",
    ]
    assert json.loads(shown(partial(show_info, INFO, as_json=True)).stdout)["rows"]["jobs"] == 1_000_000


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
