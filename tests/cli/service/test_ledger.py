"""`orchestrator ledger`."""

import json
from pathlib import Path

from orchestrator.api.admin.ledger_admin import LedgerInfo, WorkingProcess
from tests.cli.fake_api import FakeApp, invoke

INFO = LedgerInfo(
    ledger="l.db",
    schema="0007",
    file_bytes=3 << 20,
    free_bytes=1 << 20,
    log_bytes=0,
    rows={"runs": 1, "jobs": 1_000_000},
    held_by="process 7 since noon",
    at_work=(WorkingProcess(process="host 7", since=1_767_225_600_000_000, said_at=1_767_225_660_000_000),),
)


def test_the_bare_noun_shows_the_figures() -> None:
    app = FakeApp()
    app.info = INFO
    result = invoke(app, "ledger", "--ledger", "l.db")
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
    assert json.loads(invoke(app, "ledger", "info", "--json").stdout)["rows"]["jobs"] == 1_000_000


def test_a_copy_and_the_room_that_is_given_back_are_told() -> None:
    app = FakeApp()
    assert invoke(app, "ledger", "backup", "copy.db").stderr == "orchestrator.db is copied to copy.db, 2.0 MiB\n"
    assert app.asked == [(Path("orchestrator.db"), Path("copy.db"))]
    assert json.loads(invoke(app, "ledger", "backup", "copy.db", "--json").stdout)["copy"] == "copy.db"
    assert invoke(app, "ledger", "compact").stderr == "orchestrator.db: 3.0 MiB before, 1.0 MiB now\n"
    assert json.loads(invoke(app, "ledger", "compact", "--json").stdout)["bytes_after"] == 1 << 20
