"""`orchestrator runs recheck`: says what it would change, asks, and does it."""

import json
import shlex
from pathlib import Path

from tests.cli.command_line import Result, give
from tests.cli.small_ledger import a_ledger

LOOKED = "captions: 3 outputs looked at: 3 rejected (3 of them to be tried again), 0 accepted after all\n"


def rechecked(*words: str) -> Result:
    """By a schema that no output meets."""
    Path("caption.json").write_text('{"type":"object","required":["caption"]}')
    return give("runs", "recheck", "captions", "--schema", "caption.json", *words)


def test_a_dry_run_only_looks() -> None:
    a_ledger(succeeded=3)
    result = rechecked("--dry-run")
    assert (result.exit_code, result.stderr) == (0, LOOKED)
    assert len(give("results").stdout.splitlines()) == 3


def test_nothing_is_changed_unless_somebody_says_yes() -> None:
    a_ledger(succeeded=3)
    result = rechecked()
    assert result.exit_code == 2
    assert "change 3 jobs of captions, 3 of which are paid again?" in result.stderr
    assert len(give("results").stdout.splitlines()) == 3


def test_it_is_done_and_told_in_numbers() -> None:
    a_ledger(succeeded=3)
    result = rechecked("--yes", "--json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    numbers = [told[key] for key in ("run", "rejected", "again", "accepted", "is_done")]
    assert numbers == ["captions", 3, 3, 0, True]
    assert result.stderr.endswith("go on with: orchestrator resume captions\n")
    assert give("results").stderr == "the run has no results yet\n"


def test_the_command_that_goes_on_is_of_the_same_account_ledger_and_file() -> None:
    a_ledger(Path("l.db"), service_url="https://api.example#work", succeeded=1)
    Path("other.toml").write_text("")
    result = rechecked("--yes", "--ledger", "l.db", "--config", "other.toml")
    told = shlex.split(result.stderr.splitlines()[-1].partition("go on with: ")[2])
    file, ledger = ("--config", "other.toml"), ("--ledger", "l.db")
    assert told == ["orchestrator", "resume", "captions", "--profile", "work", *file, *ledger]
