"""`orchestrator runs tidy`, and the flags that raise workers."""

import json
from functools import partial
from pathlib import Path

import pytest

from orchestrator.cli.framework.flags_to_requests import serve_request
from orchestrator.cli.runs.runs import show_restored
from orchestrator.core.gates.scaling_override import Bounds
from orchestrator.engine.hosting.lent_bounds import PutBack
from tests.cli.command_line import LOCAL, requested, shown
from tests.cli.framework.test_request import asked, refused


def put_back(*, is_put_back: bool = True) -> PutBack:
    return PutBack(
        endpoint="abc",
        service_url="http://s",
        before=Bounds(0, 3),
        raised=Bounds(0, 10),
        now=Bounds(0, 3) if is_put_back else None,
        is_put_back=is_put_back,
        outcome="0 to 3 workers again" if is_put_back else "its workers could not be put back: no",
    )


def test_it_says_what_was_put_back() -> None:
    assert "there is nothing to put back" in shown(partial(show_restored, (), as_json=False)).stderr
    result = shown(partial(show_restored, [put_back()], as_json=False))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "abc: 0 to 3 workers again" in result.stderr
    asked_for = requested("runs", "tidy", "--ledger", "l.db", "--rest-url", "http://127.0.0.1:5")
    request = serve_request(asked_for.choices, {}, key_needed=False)
    assert (request.ledger, request.connection.rest_url) == (Path("l.db"), "http://127.0.0.1:5")


def test_what_could_not_be_put_back_is_exit_code_1() -> None:
    found = [put_back(), put_back(is_put_back=False)]
    result = shown(partial(show_restored, found, as_json=True))
    assert result.exit_code == 1
    assert "could not be put back" in result.stderr
    assert json.loads(result.stdout)[0]["before"] == {"least": 0, "most": 3}


def test_wishes_for_workers_are_the_runs() -> None:
    settings = asked("--endpoint", LOCAL, "--workers-max", "9", "--workers-min", "2").settings
    assert settings is not None
    assert (settings.workers_min, settings.workers_max) == (2, 9)


@pytest.mark.parametrize("bad", [("--workers-max", "0"), ("--workers-min", "-1"), ("--workers-max", "x")])
def test_no_workers_are_no_wish(bad: tuple[str, str]) -> None:
    assert bad[0] in refused("run", "in.jsonl", "--endpoint", LOCAL, f"{bad[0]}={bad[1]}")


def test_at_least_more_than_at_most_is_refused() -> None:
    told = refused("run", "in.jsonl", "--endpoint", LOCAL, "--workers-max", "2", "--workers-min", "3")
    assert "--workers-min 3 is more than --workers-max 2" in told
