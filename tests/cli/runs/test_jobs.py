"""`orchestrator jobs` and `failures`, on a real ledger."""

import json
import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.filters.filter_parser import cluster_name
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Overrides
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.error_text import error_key
from orchestrator.ledger import Ledger
from orchestrator.settings.words_and_defaults import LOCAL
from tests.cli.command_line import Result, call, give
from tests.cli.small_ledger import a_ledger
from tests.factories import S, a_row, an_outcome
from tests.ledger.ledgers import a_run, brought_to, gone, job_now, write_ledger

CLOCK = SystemClock()
TOLD = json.dumps(
    {"error_type": "<class 'RuntimeError'>", "error_message": "CUDA out of memory: 3 GiB", "extra": "x" * 2_000}
)


def a_night(folder: Path, *, at: int = 1_767_225_600 * S) -> Path:
    """A ledger with the run `night`: one job queued, one succeeded, three failed for two reasons."""

    async def made(ledger: Ledger) -> None:
        rows = [a_row(n, f"n-{n}", payload=b'{"lang":"%s"}' % (b"de" if n % 2 else b"en")) for n in range(1, 6)]
        rows[1] = msgspec.structs.replace(rows[1], metadata=b'{"page":7}')
        await a_run(ledger, rows, name="night")
        await brought_to(ledger, State.SUCCEEDED, at, job=2)
        for job, trouble, message in (
            (3, FailureClass.FAILED, TOLD), (4, FailureClass.FAILED, TOLD.replace("3 GiB", "4 GiB")), (5, FailureClass.LOST, "gone"),
        ):  # fmt: skip
            outstanding = await brought_to(ledger, State.OUTSTANDING, at + 60 * job * S, job=job)
            outcome = an_outcome(outstanding, trouble, message=message, execution_ms=2_500)
            step = transitions.abandoned(outstanding, outcome, reason="out of attempts", at=at + (60 * job + 30) * S)
            assert await ledger.writer.step(step)

    write_ledger(folder / "orchestrator.db", made, clock=CLOCK)
    return folder / "orchestrator.db"


@pytest.fixture(name="night", scope="module")
def _night(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Result]:
    ledger = a_night(tmp_path_factory.mktemp("night"))

    def told(*words: str) -> Result:
        return call([*words, "--ledger", str(ledger)], environment={"COLUMNS": "120"})

    return told


OOM = cluster_name(error_key("failed", TOLD))


def test_jobs_are_listed_by_a_filter(night: Callable[..., Result]) -> None:
    listed = night("jobs", "list", "night", "--where", 'error~"cuda out"')

    assert [line.split() for line in listed.stdout.splitlines()[2:]] == [
        [*f"n-{n} {n} failed 1 2026-01-01 00:0{n}:30 RuntimeError: CUDA out of memory: {n} GiB".split()] for n in (3, 4)
    ]
    assert listed.stderr == ""


def test_a_job_takes_one_line_of_a_narrow_terminal(tmp_path: Path) -> None:
    words = ("jobs", "list", "night", "--ledger", str(a_night(tmp_path)))
    listed = call(words, environment={"COLUMNS": "80"}).stdout.splitlines()
    assert [line.split()[0] for line in listed[2:]] == ["n-1", "n-2", "n-3", "n-4", "n-5"]
    assert max(map(len, listed)) <= 80
    assert listed[4].endswith("RuntimeError: CUDA out of memory: 3 GiB")
    narrow = call(words, environment={"COLUMNS": "40"}).stdout.splitlines()
    assert len(narrow) == len(listed)
    assert narrow[4].endswith("\N{HORIZONTAL ELLIPSIS}")


def test_a_list_in_json_has_the_same_jobs(night: Callable[..., Result]) -> None:
    listed = night("jobs", "-w", "line<=3", "--json")

    queued, succeeded, failed = json.loads(listed.stdout)
    assert queued == {
        "job": 1, "custom_id": "n-1", "line": 1, "state": "queued", "attempts": 0, "class": None, "error": None, "cluster": None,
        "ended_at": None, "ended_at_iso": None,
    }  # fmt: skip
    assert (succeeded["state"], succeeded["attempts"]) == ("succeeded", 1)
    assert (failed["class"], failed["error"], failed["cluster"]) == (
        "failed",
        "RuntimeError: CUDA out of memory: 3 GiB",
        OOM,
    )


def test_a_list_says_what_it_leaves_out_and_what_it_read(night: Callable[..., Result]) -> None:
    assert night("jobs", "list", "--limit", "2").stderr == "2 of 5 jobs\n"
    assert night("jobs", "-w", "input.lang=de", "-n", "1").stderr == "1 of 3 jobs; read for that: 5 inputs\n"
    assert night("jobs", "-w", "line=3 input.lang=de").stderr == "1 job; read for that: 1 input\n"
    assert night("jobs", "-w", "class=expired").stderr == "night has no such jobs\n"
    a_ledger()
    assert give("jobs", "list").stderr == "captions has no jobs\n"


def test_a_filter_that_is_none_is_refused_with_its_place(night: Callable[..., Result]) -> None:
    refused = night("jobs", "list", "-w", "line<3 stat=failed")
    assert refused.exit_code == 2
    assert refused.stderr.splitlines() == [
        'error: the filter cannot be understood: at character 8: there is no field "stat"; did you mean state?',
        "  line<3 stat=failed",
        "         ^",
    ]


def test_failures_are_shown_by_their_kinds(night: Callable[..., Result]) -> None:
    shown = night("failures", "night")

    lost = cluster_name(error_key("lost", "gone"))
    assert shown.stdout.splitlines() == [
        "1. 2 (66.7 %) failed: RuntimeError: CUDA out of memory: 3 GiB",
        f"   from 2026-01-01 00:03:30 to 2026-01-01 00:04:30 UTC, cluster={OOM}",
        "   to try: n-3, n-4",
        "2. 1 (33.3 %) lost: gone",
        f"   from 2026-01-01 00:05:30 to 2026-01-01 00:05:30 UTC, cluster={lost}",
        "   to try: n-5",
    ]
    assert shown.stderr == "night: 3 jobs without a result, in 2 kinds\n"
    assert night("failures", "--limit", "1").stderr.endswith("1 more kind is not shown; --limit N shows more\n")


def test_where_nothing_failed_for_good_the_failed_executions_are_counted(tmp_path: Path) -> None:
    async def made(ledger: Ledger) -> None:
        await a_run(ledger, 2, name="captions")
        for n in (1, 2):
            steps = ("claimed", "accepted", "retried_remotely")
            await gone(ledger, await job_now(ledger, n), *steps, at=(1_767_225_600 + n) * S)

    write_ledger(tmp_path / "l.db", made, clock=CLOCK)
    none = "captions has no failures: 2 executions failed, and such jobs are tried again\n"
    shown = give("failures", "--ledger", str(tmp_path / "l.db"))
    assert shown.stderr == none
    named = shown.stdout.splitlines()[-1].rpartition(", ")[2]
    found = give("jobs", "-w", named, "--json", "--ledger", str(tmp_path / "l.db"))
    assert len(json.loads(found.stdout)) == 2, "the name under which they are listed, or cancelled"


def test_failures_in_json_lead_to_their_jobs(night: Callable[..., Result]) -> None:
    first, second = json.loads(night("failures", "--json").stdout)
    assert (first["number"], first["count"], first["class"], first["try_ids"]) == (1, 2, "failed", ["n-3", "n-4"])
    assert second["share"] == 1 / 3
    named = json.loads(night("jobs", "-w", f"cluster={first['cluster']}", "--json").stdout)
    assert [job["custom_id"] for job in named] == first["try_ids"]


def test_a_job_is_shown_with_all_that_happened_to_it(night: Callable[..., Result]) -> None:
    lines = [line.split() for line in night("jobs", "show", "night", "n-3").stdout.splitlines()]

    assert lines[:7] == [
        ["job", "n-3,", "line", "3", "of", "night"],
        ["state", "failed"],
        ["attempts", "1;", "1", "may", "have", "been", "paid"],
        ["endpoint", "ep"],
        ["there", "remote-1767225781000000,", "FAILED"],
        ["took", "an", "unknown", "time", "in", "the", "queue,", "2.5", "s", "to", "execute"],
        ["error", "RuntimeError:", "CUDA", "out", "of", "memory:", "3", "GiB"],
    ]
    assert ["input", '{"lang":"de"}'] in lines
    assert ["2026-01-01", "UTC", "after", "event", "attempt", "reason", "there"] in lines
    assert [" ".join(line) for line in lines[-3:]] == [
        "00:03:00 claimed 1 run remote-1…",
        "00:03:01 1 s accepted 1 run",
        "00:03:30 29 s abandoned 1 failed: out of attempts",
    ]


def test_the_attempts_of_a_job_that_was_tried_again_are_numbered_through_with_their_settings(tmp_path: Path) -> None:
    ledger_file = a_night(tmp_path)

    async def tried_again(ledger: Ledger) -> None:
        [job] = (await ledger.jobs.of([3])).values()
        at = (job.sent_at or 0) + 3_600 * S
        overrides = Overrides(attempts_max=1, description="execution timeout 30 min and 1 attempt")
        assert await ledger.writer.step(transitions.reopened(job, at=at, overrides=overrides))
        await brought_to(ledger, State.OUTSTANDING, at + S, job=3)

    write_ledger(ledger_file, tried_again, clock=CLOCK)
    shown = call(["jobs", "show", "n-3", "--ledger", str(ledger_file)], environment={"COLUMNS": "160"})
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert "attempts 0 since it was queued again; 2 in all may have been paid" in lines
    assert [line.partition(" ")[2] for line in lines if " claimed " in line] == [
        "claimed 1 run remote-1…",
        "1 s claimed 2 run, with execution timeout 30 min and 1 attempt remote-1…",
    ]


def test_a_job_is_shown_whole_when_that_is_asked(night: Callable[..., Result]) -> None:
    assert "x" * 100 not in night("jobs", "show", "night", "n-3").stdout
    assert night("jobs", "show", "night", "n-3", "--raw").stdout.count("x") > 2_000
    whole = json.loads(night("jobs", "show", "night", "n-3", "--json").stdout)
    assert (whole["input"], whole["error"], whole["output"]) == ({"lang": "de"}, TOLD, None)
    assert [step["event"] for step in whole["timeline"]] == ["claimed", "accepted", "abandoned"]
    assert [each["ended"] for each in whole["submissions"]] == ["failed"]
    carrying = json.loads(night("jobs", "show", "night", "n-2", "--json").stdout)
    assert (carrying["output"], carrying["metadata"], whole["metadata"]) == ({"n": 1}, {"page": 7}, None)
    assert 'metadata  {"page":7}' in night("jobs", "show", "night", "n-2").stdout
    assert "metadata" not in night("jobs", "show", "night", "n-3").stdout


def test_a_job_of_the_only_run_needs_no_other_name(night: Callable[..., Result]) -> None:
    assert night("jobs", "show", "n-3").stdout == night("jobs", "show", "nig", "n-3").stdout
    many = night("jobs", "show", "night", "n-3", "n-4")
    assert (many.exit_code, "two words, and these are 3" in many.stderr) == (2, True)


def test_a_job_that_is_not_there_is_told(night: Callable[..., Result]) -> None:
    refused = night("jobs", "show", "night", "nobody")
    assert refused.exit_code == 2
    assert "night has no job 'nobody'; its jobs: orchestrator jobs list --ledger" in refused.stderr


def test_what_is_to_be_tried_again_is_shown_first(night: Callable[..., Result]) -> None:
    refused = night("runs", "retry", "night", "--cluster", "1", "--set", "execution-timeout=30m")
    assert refused.exit_code == 2
    assert refused.stderr.splitlines() == [
        "executed, and paid, once more at least: 2 jobs; their last executions took 5 s in all",
        "  n-3, RuntimeError: CUDA out of memory: 3 GiB",
        "  n-4, RuntimeError: CUDA out of memory: 4 GiB",
        "error: queue 2 jobs of night again? Nobody is here to ask; give --yes. Nothing was done",
    ]
    assert night("jobs", "retry", "night", "-w", "line<5", "--cluster", OOM).stderr == refused.stderr
    everything = night("retry", "night")
    assert (everything.exit_code, everything.stderr.splitlines()[0].split(";")[0]) == (
        2,
        "executed, and paid, once more at least: 3 jobs",
    )


def test_what_no_service_executes_is_not_paid(tmp_path: Path) -> None:
    ledger = a_night(tmp_path)
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("UPDATE endpoints SET service_url = ?", (LOCAL,))
    told = call(("retry", "night", "--ledger", str(ledger)), environment={})
    assert told.stderr.startswith("executed once more at least: 3 jobs")


def test_where_nothing_has_failed_there_is_nothing_to_retry(tmp_path: Path) -> None:
    ledger = a_night(tmp_path)
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("UPDATE jobs SET state = 'succeeded' WHERE state IN ('failed', 'cancelled')")
    words = ("retry", "night", "--ledger", str(ledger))
    told = call(words, environment={})
    assert (told.exit_code, told.stderr) == (0, "night has no failed or cancelled jobs; nothing to retry\n")
    as_json = call([*words, "--json"], environment={})
    assert (as_json.exit_code, json.loads(as_json.stdout)["outcome"]) == (0, told.stderr.rstrip())
    with closing(sqlite3.connect(ledger)) as connection:
        assert connection.execute("SELECT count(*) FROM commands").fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--where", "class=expired"), "night has no failed or cancelled jobs like that; nothing was done"),
        (("--where", "class=expird"), "did you mean expired?"),
        (("--cluster", "3"), "night has 2 kinds of failures, and no number 3"),
        (("--cluster", "biggest"), '"biggest" is no cluster'),
        (("--set", "priority=1"), "execution-timeout=..., ttl=..., max-attempts=..., endpoint=..."),
        (("--max-attempts", "0"), "--max-attempts=0: "),
        (("--set", "ttl"), "--set ttl: what jobs can have of their own is"),
        (("--set", "ttl=soon"), "--set ttl=soon: "),
        (("--set", "max-attempts=0"), "--set max-attempts=0: "),
    ],
)
def test_what_cannot_be_tried_again_is_told(words: tuple[str, ...], why: str, night: Callable[..., Result]) -> None:
    refused = night("retry", "night", *words, "--yes")
    assert (refused.exit_code, why in refused.stderr) == (2, True), refused.stderr


def test_a_retry_of_some_jobs_is_asked_with_their_filter_and_settings(tmp_path: Path) -> None:
    ledger = a_night(tmp_path)
    words = ("--cluster", "1", "-w", "line=3", "--set", "ttl=2h", "--set", "max-attempts=1", "--yes")
    told = call(["jobs", "retry", "night", *words, "--json", "--ledger", str(ledger)], environment={})

    assert told.exit_code == 0
    assert json.loads(told.stdout)["run"] == "night"
    with closing(sqlite3.connect(ledger)) as connection:
        [(argument,)] = connection.execute("SELECT argument FROM commands WHERE action = 'retry'").fetchall()
    assert json.loads(argument) == {"where": f"cluster={OOM} (line=3)", "ttl_ms": 7_200_000, "max_attempts": 1}


def test_a_retry_may_go_to_another_endpoint(tmp_path: Path) -> None:
    for number, words in enumerate((("--endpoint", "big", "--max-attempts", "1"), ("--set", "endpoint=big"))):
        (tmp_path / str(number)).mkdir()
        ledger = a_night(tmp_path / str(number))
        told = call(["runs", "retry", "night", *words, "--yes", "--ledger", str(ledger)], environment={})
        assert told.exit_code == 0
        with closing(sqlite3.connect(ledger)) as connection:
            [(argument,)] = connection.execute("SELECT argument FROM commands WHERE action = 'retry'").fetchall()
        assert json.loads(argument) == {"endpoint": "big"} | ({} if number else {"max_attempts": 1})


def test_a_retry_that_nobody_works_on_says_what_begins_it(tmp_path: Path) -> None:
    ledger = str(a_night(tmp_path))
    words = ("retry", "night", "--yes", "--ledger", ledger)
    start = f"\nstart it: orchestrator resume night --ledger {shlex.quote(ledger)}\n"
    assert call(words, environment={}).stderr.endswith(start)
    assert "start it" not in call([*words, "--json"], environment={}).stderr


def test_some_jobs_are_cancelled_once_that_is_confirmed(night: Callable[..., Result], tmp_path: Path) -> None:
    asked = night("jobs", "cancel", "night", "-w", "line<=2")
    assert asked.stderr.splitlines() == [
        "  n-1, queued",
        "error: cancel 1 job of night? Nobody is here to ask; give --yes. Nothing was done",
    ]
    assert "no unfinished jobs like that" in night("jobs", "cancel", "night", "-w", "state=failed", "--yes").stderr
    assert "which jobs? Name them by --where" in night("jobs", "cancel", "night", "--yes").stderr

    ledger = a_night(tmp_path)
    words = ["jobs", "cancel", "nig", "-w", "line<=2", "--yes", "--json", "--ledger", str(ledger)]
    done = call(words, environment={})
    assert (done.exit_code, json.loads(done.stdout)["run"]) == (0, "night")
    with closing(sqlite3.connect(ledger)) as connection:
        [(argument,)] = connection.execute("SELECT argument FROM commands WHERE action = 'cancel-jobs'").fetchall()
    assert json.loads(argument) == {"where": "line<=2"}
