"""`orchestrator limits`: what it asks the program for, what it shows, and what it refuses."""

import json
from pathlib import Path

import msgspec
import pytest

from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.views.limits import EndpointLimitStatus, OperationLimits
from tests.cli.fake_api import FakeApp, invoke

LIMITS = EndpointLimitStatus(
    endpoint="abc123",
    service_url="https://api.example",
    runs=("captions", "titles"),
    held_by="process 7 since noon",
    outcome="they are in force",
    operations=(
        OperationLimits(
            operation="run",
            limit="run=500/10:100",
            set_at=1_767_225_600_000_000,
            used=498,
            allowed=500,
            window_s=10.0,
            throttled=2,
        ),
        OperationLimits(
            operation="status", limit="status=2000/10:400", set_at=None, used=None, allowed=None, throttled=None
        ),
    ),
)


def app(limits: EndpointLimitStatus = LIMITS) -> FakeApp:
    return FakeApp(endpoints=(limits,))


def test_show_is_a_table_of_each_endpoint() -> None:
    program = app()
    result = invoke(program, "limits", "show", "captions", "--ledger", "l.db", COLUMNS="120")
    assert result.exit_code == 0
    assert program.asked == [(Path("l.db"), "captions")]
    assert [line.rstrip() for line in result.stdout.splitlines()[2:]] == [
        "run        500/10:100   2026-01-01 00:00  498 of 500 requests in 10 s, 2 throttled",
        "status     2000/10:400",
    ]
    assert result.stderr == "abc123 at https://api.example, used by captions, titles\n"


def test_show_without_a_run_is_about_all_and_says_where_there_are_none() -> None:
    program = FakeApp()
    result = invoke(program, "limits", "show")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "orchestrator.db has no runs yet\n"
    assert program.asked == [(Path("orchestrator.db"), None)]


def test_set_hands_the_limits_over_and_says_when_they_hold() -> None:
    program = app()
    result = invoke(program, "limits", "set", "captions", "run=500/10:100", "status=50/0.5")
    assert result.exit_code == 0
    [(_, name, chosen)] = program.asked
    assert name == "captions"
    assert chosen == {Operation.RUN: Limit(500, 10, 100), Operation.STATUS: Limit(50, 0.5, 400)}
    assert "limits set; process 7 since noon follows: they are in force" in result.stderr


def test_reset_names_operations_or_means_all() -> None:
    idle = msgspec.structs.replace(LIMITS, held_by=None)
    for arguments, operations in ((("run", "status"), (Operation.RUN, Operation.STATUS)), ((), ())):
        program = app(idle)
        result = invoke(program, "limits", "reset", "captions", *arguments)
        assert result.exit_code == 0
        assert program.asked == [(Path("orchestrator.db"), "captions", operations)]
        assert "limits reset; they hold from the next start\n" in result.stderr


def test_those_of_another_endpoint_of_the_run_are_named_by_it() -> None:
    for words in (("set", "captions", "run=5/1"), ("reset", "captions")):
        program = app()
        assert invoke(program, "limits", *words, "--endpoint", "big").exit_code == 0
        assert program.asked[-1][-1] == "big"


@pytest.mark.parametrize("command", [("show",), ("set", "captions", "run=1/1"), ("reset", "captions")])
def test_json_is_what_is_shown(command: tuple[str, ...]) -> None:
    result = invoke(app(), "limits", *command, "--json")
    found = json.loads(result.stdout)
    [endpoint] = found if command == ("show",) else [found]
    assert endpoint["operations"][0]["limit"] == "run=500/10:100"
    assert endpoint["held_by"] == "process 7 since noon"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("set", "captions", "run=fast"), "'run=fast' is no limit; write OPERATION=REQUESTS/SECONDS[:CONCURRENT]"),
        (("set", "captions", "run=1/1", "run=2/1"), "run is named twice; give it one limit"),
        (("set", "captions"), "Missing argument"),
        (("reset", "captions", "fly"), '"fly" is no operation; there are run, runsync'),
        (("show", "--config", "nowhere.toml"), "nowhere.toml: the configuration file cannot be read"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_changed(arguments: tuple[str, ...], complaint: str) -> None:
    program = app()
    result = invoke(program, "limits", *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert program.asked == []
