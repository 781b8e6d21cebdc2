"""`orchestrator limits`: what it asks the program for, what it shows, and what it refuses."""

import json
from functools import partial
from pathlib import Path

import msgspec
import pytest

from orchestrator.cli.runs.limits import limits_of, show_limits, show_limits_changed
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.views.limits import EndpointLimitStatus, OperationLimits
from tests.cli.command_line import Result, call, requested, shown

LEDGER = Path("orchestrator.db")

LIMITS = EndpointLimitStatus(
    endpoint="abc123",
    service_url="https://api.example",
    runs=("captions", "titles"),
    holder="process 7 since noon",
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


def told(limits: EndpointLimitStatus = LIMITS, done: str = "set", *, as_json: bool = False) -> Result:
    return shown(partial(show_limits_changed, limits, done, as_json=as_json))


def test_show_is_a_table_of_each_endpoint() -> None:
    result = shown(partial(show_limits, (LIMITS,), LEDGER, as_json=False), COLUMNS="120")
    assert [line.rstrip() for line in result.stdout.splitlines()[2:]] == [
        "run        500/10:100   2026-01-01 00:00  498 of 500 requests in 10 s, 2 throttled",
        "status     2000/10:400",
    ]
    assert result.stderr == "abc123 at https://api.example, used by captions, titles\n"


def test_show_without_a_run_is_about_all_and_says_where_there_are_none() -> None:
    result = shown(partial(show_limits, (), LEDGER, as_json=False))
    assert (result.stdout, result.stderr) == ("", "orchestrator.db has no runs yet\n")


def test_set_hands_the_limits_over_and_says_when_they_hold() -> None:
    rules = requested("limits", "set", "captions", "run=500/10:100", "status=50/0.5").flags["rules"]
    assert limits_of(rules) == {Operation.RUN: Limit(500, 10, 100), Operation.STATUS: Limit(50, 0.5, 400)}
    assert "limits set; process 7 since noon follows: they are in force" in told().stderr


def test_reset_names_operations_or_means_all() -> None:
    idle = msgspec.structs.replace(LIMITS, holder=None)
    assert "limits reset; they hold from the next start\n" in told(idle, "reset").stderr


def test_json_is_what_is_shown() -> None:
    [endpoint] = json.loads(shown(partial(show_limits, (LIMITS,), LEDGER, as_json=True)).stdout)
    assert json.loads(told(as_json=True).stdout) == endpoint
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
    result = call(["limits", *arguments], environment={})
    assert result.exit_code == 2
    assert complaint in result.stderr
