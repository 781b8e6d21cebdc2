"""`orchestrator runs recheck`: says what it would change, asks, and does it."""

import json
import shlex
from pathlib import Path

import msgspec

from tests.cli.fake_api import FakeApp, invoke, run_status

LEDGER = Path("orchestrator.db")


def test_a_dry_run_only_looks() -> None:
    app = FakeApp()
    result = invoke(app, "runs", "recheck", "captions", "--require-output", "--dry-run")
    assert result.exit_code == 0
    assert app.asked == [(LEDGER, "captions", {"output_required": True}, True)]
    assert "captions: 9 outputs" in result.stderr


def test_nothing_is_changed_unless_somebody_says_yes() -> None:
    app = FakeApp()
    result = invoke(app, "runs", "recheck", "captions")
    assert result.exit_code == 2
    assert "change 4 jobs of captions, 2 of which are paid again?" in result.stderr
    assert [asked[-1] for asked in app.asked] == [True]


def test_it_is_done_and_told_in_numbers() -> None:
    app = FakeApp(runs=[run_status()])
    result = invoke(app, "runs", "recheck", "captions", "--yes", "--json")
    assert result.exit_code == 0
    assert [asked[-1] for asked in app.asked] == [True, False, "captions"]
    told = json.loads(result.stdout)
    assert (told["run"], told["rejected"], told["again"], told["accepted"], told["is_done"]) == (
        "captions",
        3,
        2,
        1,
        True,
    )
    assert result.stderr.endswith("go on with: orchestrator resume captions\n")


def test_the_command_that_goes_on_is_of_the_same_account_ledger_and_file(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("")
    run = msgspec.structs.replace(run_status(), service_url="https://api.example#work")
    flags = ("--ledger", "l.db", "--config", str(tmp_path / "other.toml"))
    result = invoke(FakeApp(runs=[run]), "runs", "recheck", "captions", "--yes", *flags)
    told = result.stderr.splitlines()[-1].partition("go on with: ")[2]
    assert shlex.split(told) == ["orchestrator", "resume", "captions", "--profile", "work", *flags[2:], *flags[:2]]
