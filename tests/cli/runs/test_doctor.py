"""`orchestrator doctor`: what a person sees, and the exit code."""

import json
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from orchestrator.cli.output.tables import on_screen
from orchestrator.cli.runs.doctor import show_diagnosis
from orchestrator.core.diagnosis.causes import Cause, Diagnosis, Finding
from tests.cli.command_line import Result, call, shown

PAUSED = Finding(
    cause=Cause.PAUSED,
    about="captions",
    sentence="paused: nothing is sent",
    evidence=("7 queued",),
    advice="orchestrator unpause captions",
    needs_person=True,
)
BOUND = Finding(
    cause=Cause.RATE_LIMIT, about="night\x1b[2J", sentence="the rate limit binds", advice="nothing", needs_person=False
)


def asked(*findings: Finding, runs: int = 1, as_json: bool = False) -> Result:
    found = Diagnosis(findings=findings, runs=runs, not_asked=("the service: there is no key",))
    return shown(partial(show_diagnosis, found, as_json=as_json))


def test_the_first_line_says_what_holds_it_up_and_what_needs_a_person_is_exit_code_1() -> None:
    result = asked(PAUSED, BOUND)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "captions: paused: nothing is sent",
        "  seen: 7 queued",
        "  what to do: orchestrator unpause captions",
        "night\\x1b[2J: the rate limit binds",
        "  what to do: nothing",
        "not looked at: the service: there is no key",
    ]


def test_what_needs_nobody_is_exit_code_0() -> None:
    assert asked(BOUND).exit_code == asked().exit_code == 0
    assert asked().stdout.startswith("nothing holds it up: 1 run is open\n")
    assert asked(runs=12).stdout.startswith("nothing holds it up: 12 runs are open\n")
    assert asked(runs=0).stdout.startswith("nothing holds it up: no run is open\n")


def test_on_a_terminal_lines_are_broken_between_words_below_their_beginnings() -> None:
    lines = ["captions: paused: nothing is sent", "  what to do: orchestrator unpause captions --ledger night.db"]
    assert on_screen(lines, has_heading=True, width=40, colours=False).splitlines() == [
        "captions: paused: nothing is sent",
        "  what to do: orchestrator unpause",
        "  captions --ledger night.db",
    ]


def test_what_was_asked_and_is_well_is_said_where_nothing_is_found() -> None:
    found = Diagnosis(findings=(), runs=0, asked=("abc at http://s",))
    assert "asked, and well: abc at http://s\n" in shown(partial(show_diagnosis, found, as_json=False)).stdout


def test_json_is_one_object() -> None:
    result = asked(PAUSED, as_json=True)
    told = json.loads(result.stdout)
    assert (result.exit_code, told["findings"][0]["cause"], told["runs"]) == (1, "paused", 1)
    assert told["findings"][0]["needs_person"] is True


def doctor(*arguments: str) -> Result:
    return call(("doctor", *arguments), environment={})


def test_a_ledger_of_a_newer_program_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE jobs (id)")
        connection.execute("CREATE TABLE alembic_version (version_num)")
        connection.execute("INSERT INTO alembic_version VALUES ('9999')")
        connection.commit()
    result = doctor("--ledger", str(path))
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{path}: a newer program has written this ledger\n")


@pytest.mark.parametrize("arguments", [("--ledger", "nowhere.db"), ("night",)])
def test_no_ledger_is_wrong_usage(arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctor(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no ledger here" in result.stderr
