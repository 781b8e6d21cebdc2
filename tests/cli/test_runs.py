"""`orchestrator runs`: a noun, whose verbs are the short commands, too."""

import json

import pytest

from tests.cli.fake_api import FakeApp, invoke, run_status


@pytest.mark.parametrize("words", [("runs",), ("runs", "list"), ("runs", "--all"), ("status",), ("status", "captions")])
def test_a_bare_noun_lists(words: tuple[str, ...]) -> None:
    app = FakeApp(runs=[run_status(queued=3)])
    told = invoke(app, *words).stdout
    assert told == invoke(app, "status").stdout
    assert "captions at abc123: 3 queued" in told
    assert json.loads(invoke(app, *words, "--json").stdout)[0]["run"] == "captions"


def test_help_of_the_noun_is_help_and_an_unknown_verb_is_refused() -> None:
    assert "priority" in invoke(FakeApp(), "runs", "--help").output
    assert invoke(FakeApp(), "runs", "shwo").exit_code == 2


def test_one_run_is_shown_line_by_line() -> None:
    app = FakeApp(runs=[run_status(queued=3, succeeded=9_000)])
    assert invoke(app, "runs", "show").stdout.splitlines() == [
        "run           captions",
        "endpoint      abc123 at https://api.example",
        "input         captions.jsonl",
        "since (UTC)   2026-01-01 00:00",
        "jobs          9,003, 99 % done",
        "  queued      3",
        "  succeeded   9,000",
        "now           it waits",
        "worked on by  nobody",
    ]
    assert json.loads(invoke(app, "runs", "show", "captions", "--json").stdout)["jobs"]["queued"] == 3
