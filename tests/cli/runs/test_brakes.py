"""`orchestrator brakes`: what it asks the program for, what it shows, and what it refuses."""

import json
from functools import partial
from pathlib import Path

import msgspec
import pytest

from orchestrator.api.admin.brakes import RunBrakeStatus
from orchestrator.cli.runs.brakes import changed_brakes, show_brakes, show_brakes_set
from orchestrator.views.costs import CostView
from tests.cli.command_line import Result, call, requested, shown

BRAKES = RunBrakeStatus(
    run="captions",
    holder="process 7 since noon",
    outcome="they are in force",
    settings={"breaker": "20:50%/100", "canary": "10", "max-failures": "off", "budget": "25"},
    why_blocked="nothing more is sent: the canary failed",
    breaker="closed",
    breaker_why=None,
    canary="8 of 10 succeeded",
    failed=2,
    executions=14,
    failed_executions=6,
    execution_s=31.25,
    outstanding=3,
    spent=CostView(amount=3.5, error=0.0),
    expected=CostView(amount=0.75, error=0.25),
)


def told(found: RunBrakeStatus = BRAKES, *, as_json: bool = False) -> Result:
    return shown(partial(show_brakes, found, as_json=as_json), COLUMNS="120")


def test_show_is_a_table_with_what_holds_the_run_up() -> None:
    mistyped = call(["brakes", "shw", "captions"], environment={})
    assert (mistyped.exit_code, "No such command 'shw'" in mistyped.stderr) == (2, True)
    assert [line.rstrip() for line in told().stdout.splitlines()[2:]] == [
        "breaker       20:50%/100  closed",
        "canary        10          8 of 10 succeeded",
        "max-failures  off         2 failed",
        "budget        25          3.50 spent, 0.75 ± 0.25 expected of 3 outstanding",
    ]
    assert "the canary failed" in told().stderr


def test_without_a_price_the_time_is_shown() -> None:
    assert "31.2 s in 14 executions" in told(msgspec.structs.replace(BRAKES, spent=None, expected=None)).stdout


def test_set_asks_for_what_was_given_and_nothing_else() -> None:
    flags = ("--budget", "50", "--max-failures", "5%", "--canary", "off", "--breaker", "5:30%/50", "--stop-late")
    choices = requested("brakes", "set", "captions", *flags, ORCHESTRATOR_PRICE_PER_SECOND="3").choices
    assert changed_brakes(choices) == {
        "budget": "50",
        "max-failures": "5%",
        "canary": "off",
        "breaker": "5:30%/50",
        "stop-late": "True",
    }
    said = shown(partial(show_brakes_set, BRAKES, as_json=False)).stderr
    assert "brakes set; process 7 since noon follows: they are in force" in said
    idle = msgspec.structs.replace(BRAKES, holder=None)
    said = shown(partial(show_brakes_set, idle, as_json=False)).stderr
    assert "brakes set; they hold from the next start\n" in said


def test_json_is_all_of_it() -> None:
    found = json.loads(told(as_json=True).stdout)
    assert found["expected"] == {"amount": 0.75, "error": 0.25}
    assert found["settings"]["canary"] == "10"


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ((), "nothing is to be changed"),
        (("--budget", "much"), '--budget: "much" is no amount'),
        (("--budget", "-3"), "is no amount"),
        (("--breaker", "0:50%/100"), "is no rule for the breaker"),
        (("--breaker", "20:500%/100"), "is no share"),
        (("--canary", "0"), "is no canary"),
        (("--canary", "5:"), "is no canary"),
        (("--canary", "5:0%"), "none of its rows"),
        (("--max-failures", "few"), "neither a number of rows nor a share"),
        (("--max-failures", "101%"), "is no share"),
        (("--finish-by", "2026-01-01T06:00"), "names no zone"),
        (("--price-per-second", "0"), "is no amount"),
    ],
)
def test_what_is_no_brake_is_refused(flags: tuple[str, ...], error: str) -> None:
    result = call(["brakes", "set", "captions", *flags], environment={})
    assert result.exit_code == 2
    assert error in result.stderr


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (("--budget", "25"), "--budget needs to know what a second costs; give --price-per-second too"),
        (("--budget-per-day", "25"), "--budget-per-day needs to know what a second costs"),
        (("--stop-late",), "--stop-late needs to know when the run is to be finished; give --finish-by too"),
    ],
)
def test_a_run_with_brakes_that_lack_something_is_refused(tmp_path: Path, flags: tuple[str, ...], error: str) -> None:
    (tmp_path / "i.jsonl").write_text("{}\n")
    (tmp_path / "h.py").write_text("def f(job):\n    return 1\n")
    given = ("--endpoint", f"local:{tmp_path}/h.py:f", "--ledger", str(tmp_path / "l.db"))
    result = call(("run", str(tmp_path / "i.jsonl"), *given, *flags), environment={})
    assert result.exit_code == 2
    assert error in result.stderr
    assert not (tmp_path / "l.db").exists()
