"""`orchestrator runs recheck`: says what it would change, asks, and does it."""

import json
from pathlib import Path

from tests.cli.fake_api import FakeApp, invoke

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
    app = FakeApp()
    result = invoke(app, "runs", "recheck", "captions", "--yes", "--json")
    assert result.exit_code == 0
    assert [asked[-1] for asked in app.asked] == [True, False]
    told = json.loads(result.stdout)
    assert (told["run"], told["rejected"], told["again"], told["accepted"], told["is_done"]) == (
        "captions",
        3,
        2,
        1,
        True,
    )
    assert "orchestrator resume captions" in result.stderr
