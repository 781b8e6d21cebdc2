"""`orchestrator progress`: how far resumable jobs are, for people and as JSON."""

import json
from functools import partial

from orchestrator.cli.runs.progress import show_jobs_changed, show_jobs_progress
from orchestrator.views.runs.job_progress import JobProgress, RunProgress
from tests.cli.command_line import Result, requested, shown

NOW = 1_767_225_600_000_000
MINUTE = 60_000_000
BASE = JobProgress(
    job=1,
    custom_id="base",
    state="outstanding",
    segment=3,
    share=0.614,
    message="epoch 61",
    reported_at=NOW - MINUTE // 2,
    checkpoint_at=NOW - 12 * MINUTE,
    executed_s=187_200.0,
)
FRESH = JobProgress(
    job=2, custom_id="fresh", state="queued", segment=0, share=None, message=None, reported_at=None, checkpoint_at=None,
    executed_s=0.0,
)  # fmt: skip


def told(*jobs: JobProgress, is_whole: bool = True, as_json: bool = False, follow: bool = False) -> Result:
    found = RunProgress(run="trainings", at=NOW, jobs=list(jobs), is_whole=is_whole)
    show = show_jobs_changed if follow else show_jobs_progress
    return shown(partial(show, found, as_json=as_json), COLUMNS="120")


def test_each_job_is_a_line() -> None:
    lines = told(BASE, FRESH).stdout.splitlines()
    [heading, _, base, fresh] = [line.split() for line in lines if line.strip()]
    assert heading == ["job", "state", "segment", "done", "message", "reported", "checkpoint", "executed"]
    assert base == [
        "base",
        "outstanding",
        "3",
        "61",
        "%",
        "epoch",
        "61",
        "30",
        "s",
        "ago",
        "12",
        "min",
        "00",
        "s",
        "ago",
        "2",
        "d",
        "04",
        "h",
    ]
    assert fresh == ["fresh", "queued"]


def test_as_json_it_is_an_array_and_followed_a_line_for_each_job_that_has_changed() -> None:
    [first, second] = json.loads(told(BASE, FRESH, as_json=True).stdout)
    assert (first["custom_id"], first["segment"], first["share"], first["executed_s"]) == ("base", 3, 0.614, 187_200)
    assert second["share"] is None
    lines = told(BASE, FRESH, as_json=True, follow=True).stdout.splitlines()
    assert [json.loads(line)["custom_id"] for line in lines] == ["base", "fresh"]


def test_followed_by_people_it_is_a_table_whenever_something_has_changed() -> None:
    assert told(BASE, follow=True).stdout.count("epoch 61") == 1
    assert requested("progress", "--follow", "-n", "5").flags == {"name": None, "follow": True, "limit": 5}


def test_where_there_is_nothing_or_more_to_show_that_is_said() -> None:
    assert told().stderr == "each job of trainings has its outcome\n"
    assert told(BASE, is_whole=False).stderr == "there are more jobs without an outcome; --limit N shows more\n"
