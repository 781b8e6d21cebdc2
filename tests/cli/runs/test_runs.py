"""`orchestrator runs`: a noun, whose verbs are the short commands, too."""

import json
from pathlib import Path

import msgspec
import pytest

from orchestrator.cli.runs.status import run_text, status_text
from orchestrator.core.batches.batch_record import BatchStage
from orchestrator.core.pools.member_health import THROTTLED
from orchestrator.views.batches import BatchStatus
from orchestrator.views.status import RunsShown
from tests.cli.command_line import give
from tests.cli.samples import MEMBERS, WORKERS, WORKERS_SENTENCE, run_status
from tests.cli.small_ledger import a_ledger


@pytest.mark.parametrize("words", [("runs",), ("runs", "list"), ("runs", "--all"), ("status",)])
def test_a_bare_noun_lists(words: tuple[str, ...]) -> None:
    a_ledger(queued=3)
    told = give(*words).stdout
    assert told == give("status").stdout
    assert "captions at ep: " in told
    assert "3 queued" in " ".join(told.split())
    assert json.loads(give(*words, "--json").stdout)[0]["run"] == "captions"


def test_of_one_run_it_is_not_told_what_of_all_needs_somebody() -> None:
    a_ledger(queued=3)
    of_all, of_one = give("status").stdout, give("status", "captions").stdout
    assert of_all.startswith(of_one)
    assert "1 thing needs you" in of_all.removeprefix(of_one)


def test_help_of_the_noun_is_help_and_an_unknown_verb_is_refused() -> None:
    assert "priority" in give("runs", "--help").output
    assert give("runs", "shwo").exit_code == 2


def test_one_run_is_shown_line_by_line() -> None:
    assert run_text(run_status(queued=3, succeeded=9_000)).splitlines() == [
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
    a_ledger(queued=3)
    assert give("runs", "show").stdout.startswith("run           captions\n")
    assert json.loads(give("runs", "show", "captions", "--json").stdout)["jobs"]["queued"] == 3


def test_of_a_pool_each_member_has_a_line_and_who_is_not_well_is_told_with_the_run() -> None:
    run = msgspec.structs.replace(run_status(queued=3, succeeded=9), members=MEMBERS)
    lines = run_text(run, width=100).splitlines()
    assert lines[1] == "pool          abc123, local:handlers.py:caption at https://api.example"
    assert f"now local:handlers.py:caption is not well: {THROTTLED} worked" in " ".join(" ".join(lines).split())
    assert lines[-2].split()[:3] == ["abc123", "well", "108"]
    told = status_text(RunsShown(runs=[run], more=0, more_jobs={}, last_process=None), width=100).splitlines()
    assert told[6].startswith("abc123 ")
    assert told[9].startswith("captions at the 2 members of its pool: local:handlers.py:caption is not well: ")


SINCE = ("1970-01-01", "00:00")


def test_each_batch_has_a_line_until_it_has_ended() -> None:
    batches = (
        BatchStatus(batch="batch_1", stage=BatchStage.OVER, rows=5_000, completed=4_990, failed=10, made_at=1),
        BatchStatus(
            batch="batch_2",
            stage=BatchStage.RUNNING,
            rows=5_000,
            completed=70,
            failed=0,
            made_at=1,
            begun_at=2,
            ends_at=9,
        ),
        BatchStatus(batch="batch_3", stage=BatchStage.RUNNING, rows=4_930, completed=0, failed=0, made_at=1),
        BatchStatus(batch=None, stage=BatchStage.CREATING, rows=0, completed=0, failed=0, made_at=1),
    )
    run = msgspec.structs.replace(run_status(outstanding=4_930), batches=batches)
    lines = [line.split() for line in run_text(run, width=100).splitlines()[-6:]]
    assert lines[0] == ["batch", "is", "since", "(UTC)", "rows", "done", "failed", "ends", "about"]
    assert lines[2:] == [
        ["batch_2", "running", *SINCE, "5,000", "70", *SINCE],
        ["batch_3", "waiting", *SINCE, "4,930", "0"],
        ["-", "creating", *SINCE, "0", "0"],
        ["1", "other", "that", "has", "ended", "5,000", "4,990", "10"],
    ]
    ended = run_text(msgspec.structs.replace(run, batches=batches[:1]), width=100).splitlines()[-1]
    assert ended.split() == ["1", "other", "that", "has", "ended", "5,000", "4,990", "10"]


def test_of_workers_by_need_it_is_told_how_many_there_may_be_and_why() -> None:
    run = msgspec.structs.replace(run_status(queued=3, succeeded=9), workers=WORKERS)
    assert WORKERS_SENTENCE in " ".join(run_text(run, width=100).split())
    told = status_text(RunsShown(runs=[run], more=0, more_jobs={}, last_process=None), width=200)
    assert WORKERS_SENTENCE in told


def test_a_run_gets_another_name() -> None:
    a_ledger(queued=1)
    result = give("runs", "rename", "captions", "night", "--json")
    assert (json.loads(result.stdout), result.stderr) == (
        {"run": "night", "was": "captions"},
        "captions is called night\n",
    )
    assert "night at " in give("status").stdout


def test_to_delete_is_asked_with_counts_and_done_with_yes() -> None:
    a_ledger(queued=2, succeeded=1)
    refused = give("runs", "delete", "captions")
    assert refused.exit_code == 2
    assert "delete captions: 3 jobs with inputs and results; 2 queued and 0 at the service have" in refused.stderr
    assert "captions at " in give("status").stdout, "it was only looked at"
    done = give("runs", "delete", "captions", "--yes", "--json")
    assert json.loads(done.stdout) == {"run": "captions", "jobs": 3}
    assert done.stderr == "captions is deleted, with 3 jobs\n"


def test_a_run_is_exported_to_the_files_that_are_named() -> None:
    a_ledger(succeeded=3, failed=1)
    words = ("--output", "o.jsonl", "--errors", "e.jsonl", "--where", "line>1")
    result = give("runs", "export", "captions", *words, "--json")
    assert json.loads(result.stdout)["results"] == 2
    assert result.stderr == "captions: 2 results in o.jsonl, 1 error in e.jsonl\n"
    assert (len(Path("o.jsonl").read_text().splitlines()), Path("e.jsonl").exists()) == (2, True)


def test_an_export_tells_of_columns_that_are_null_in_every_row() -> None:
    a_ledger(succeeded=3)
    flat = ("--flatten", "output.text", "--flatten", "output.n", "--on-misfit", "json")
    result = give("runs", "export", "captions", "--output", "o.csv", "--errors", "e.csv", *flat, "--json")
    assert json.loads(result.stdout)["empty_columns"] == ["output.text"]
    assert "output.text: null in every row of the results" in result.stderr.splitlines()[-1]


def test_the_help_of_export_tells_of_no_file_that_grows() -> None:
    told = give("runs", "export", "--help").stdout
    assert "Where the results are written. Default: where the run has them" in " ".join(told.split())
    assert ".partial" not in told


def test_what_is_gone_is_sent_anew_once_somebody_agrees() -> None:
    a_ledger(outstanding=3, succeeded=1)
    refused = give("runs", "resend", "captions", "--outstanding")
    assert refused.exit_code == 2
    assert "send 3 outstanding jobs of captions anew; each that the service still has is paid twice?" in refused.stderr
    assert json.loads(give("status", "--json").stdout)[0]["jobs"]["outstanding"] == 3, "it was only looked at"
    done = give("runs", "resend", "captions", "--outstanding", "--yes", "--json")
    assert (done.exit_code, json.loads(done.stdout)["run"]) == (0, "captions")
    assert "--outstanding" in give("runs", "resend", "captions", "--yes").stderr
    a_ledger(Path("l.db"), succeeded=1)
    nothing = give("runs", "resend", "captions", "--outstanding", "--ledger", "l.db")
    assert (nothing.exit_code, nothing.stderr) == (0, "captions has no outstanding jobs; nothing to resend\n")
