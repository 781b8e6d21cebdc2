"""`orchestrator runs`: a noun, whose verbs are the short commands, too."""

import json
from pathlib import Path

import pytest

from orchestrator.api.outcomes.result_files import WrittenFiles
from tests.cli.command_line import give
from tests.cli.fake_api import FakeApp, invoke, run_status


@pytest.mark.parametrize("words", [("runs",), ("runs", "list"), ("runs", "--all"), ("status",), ("status", "captions")])
def test_a_bare_noun_lists(words: tuple[str, ...]) -> None:
    app = FakeApp(runs=[run_status(queued=3)])
    told = invoke(app, *words).stdout
    assert told == invoke(app, "status").stdout
    assert "captions at abc123: 3 queued" in told
    assert json.loads(invoke(app, *words, "--json").stdout)[0]["run"] == "captions"


def test_help_of_the_noun_is_help_and_an_unknown_verb_is_refused() -> None:
    assert "priority" in give("runs", "--help").output
    assert give("runs", "shwo").exit_code == 2


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


def test_a_run_gets_another_name() -> None:
    app = FakeApp()
    result = invoke(app, "runs", "rename", "captions", "night", "--json")
    assert (json.loads(result.stdout), result.stderr) == (
        {"run": "night", "was": "captions"},
        "captions is called night\n",
    )
    assert app.asked == [(Path("orchestrator.db"), "captions", "night")]


def test_to_delete_is_asked_with_counts_and_done_with_yes() -> None:
    app = FakeApp(runs=[run_status(queued=2, outstanding=3, succeeded=1_229)])
    refused = invoke(app, "runs", "delete", "captions")
    assert refused.exit_code == 2
    assert "delete captions: 1,234 jobs with inputs and results; 2 queued and 3 at the service have" in refused.stderr
    assert len(app.asked) == 1, "it was only looked at"
    done = invoke(app, "runs", "delete", "captions", "--yes", "--json")
    assert json.loads(done.stdout) == {"run": "captions", "jobs": 1_234}
    assert done.stderr == "captions is deleted, with 1,234 jobs\n"


def test_a_run_is_exported_to_the_files_that_are_named() -> None:
    app = FakeApp()
    words = ("--output", "o.jsonl", "--errors", "e.jsonl", "--where", "line>2")
    result = invoke(app, "runs", "export", "captions", *words, "--json")
    assert app.asked == [(Path("orchestrator.db"), "captions", Path("o.jsonl"), Path("e.jsonl"), "line>2")]
    assert json.loads(result.stdout)["results"] == 1_234
    assert result.stderr == "captions: 1,234 results in o.jsonl, 5 errors in e.jsonl\n"


def test_an_export_tells_of_columns_that_are_null_in_every_row() -> None:
    app = FakeApp()
    app.written = WrittenFiles(results=3, failures=0, empty_columns=("output.text", "output.n"))
    result = invoke(app, "runs", "export", "captions", "--output", "o.csv", "--errors", "e.csv", "--json")
    assert json.loads(result.stdout)["empty_columns"] == ["output.text", "output.n"]
    assert "output.text, output.n: null in every row of the results" in result.stderr.splitlines()[-1]


def test_the_help_of_export_tells_of_no_file_that_grows() -> None:
    told = give("runs", "export", "--help").stdout
    assert "Where the results are written. Default: where the run has them" in " ".join(told.split())
    assert ".partial" not in told


def test_what_is_gone_is_sent_anew_once_somebody_agrees() -> None:
    app = FakeApp(runs=[run_status(outstanding=3, succeeded=7)])
    refused = invoke(app, "runs", "resend", "captions", "--outstanding")
    assert refused.exit_code == 2
    assert "send 3 outstanding jobs of captions anew; each that the service still has is paid twice?" in refused.stderr
    assert len(app.asked) == 1, "it was only looked at"
    app.outcome = "3 jobs are queued again"
    done = invoke(app, "runs", "resend", "captions", "--outstanding", "--yes", "--json")
    assert (done.exit_code, app.asked[-1]) == (0, (Path("orchestrator.db"), "captions"))
    assert json.loads(done.stdout)["outcome"] == "3 jobs are queued again"
    assert "--outstanding" in invoke(app, "runs", "resend", "captions", "--yes").stderr
    nothing = invoke(FakeApp(runs=[run_status(succeeded=7)]), "runs", "resend", "captions", "--outstanding")
    assert (nothing.exit_code, nothing.stderr) == (0, "captions has no outstanding jobs; nothing to resend\n")
