"""The few lines at the end, and figures as people read them."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.api.runs.next_command import results_command
from orchestrator.cli.output.summary import summary_lines
from orchestrator.core.diagnosis.failed_executions import FailureKind
from orchestrator.core.lanes.via import Via
from orchestrator.core.pools.member_health import THROTTLED
from orchestrator.core.text.figures import lasting, percent, rate
from orchestrator.settings import run_request
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import Configuration, RunRequest
from orchestrator.views.status import MarginSummary, UncertainSummary
from tests.cli.framework.test_exit_codes import ended
from tests.cli.samples import MEMBERS, snapshot, summary

REQUEST = RunRequest(
    name="captions", source="c.jsonl", endpoint="abc", ledger=Path("orchestrator.db"), connection=ConnectionSettings()
)


def test_a_run_without_trouble_is_told_in_a_few_lines() -> None:
    assert summary_lines(summary(succeeded=10_000), REQUEST, snapshot(reading=True)) == [
        "captions: finished; all 10,000 jobs succeeded",
        "  succeeded  10,000",
        "  requests   3 /run, 4 /status",
        "  took       2 s, 5,000.0 jobs/s",
        "  results    orchestrator results captions > results.jsonl",
    ]


def test_whatever_went_wrong_is_told() -> None:
    troubled = msgspec.structs.replace(
        summary(succeeded=9_979, failed=20, cancelled=1),
        throttled=12,
        uncertain=UncertainSummary(seen=3, adopted=2, resubmitted=1),
        lost=1,
        expired=2,
        margin_s=MarginSummary(min=1443.2, p1=1690.1),
        output="r.jsonl",
        errors="r.jsonl.errors.jsonl",
        wall_s=101.3,
    )
    assert summary_lines(troubled, REQUEST, snapshot(succeeded=9_000)) == [
        "captions: finished; 9,979 of 10,000 jobs succeeded",
        "  succeeded  9,979",
        "  failed        20",
        "  cancelled      1",
        "  uncertain  3, adopted 2, resubmitted 1",
        "  lost       1 (the service forgot them early)",
        "  expired    2 (their results were gone when they were asked for)",
        "  throttled  12 requests answered 429",
        "  requests   3 /run, 4 /status",
        "  took       1 min 41 s, 9.9 jobs/s",
        "  results    r.jsonl",
        "  errors     r.jsonl.errors.jsonl",
    ]


def test_what_each_member_of_a_pool_did_is_told() -> None:
    ended = [msgspec.structs.replace(each, state=None, why=None, outstanding=0) for each in MEMBERS]
    lines = summary_lines(msgspec.structs.replace(summary(), members=tuple(ended)), REQUEST, None)
    assert lines[-3:] == [
        "by member:",
        "  abc123                     1,051 done,  99 %, 2 failed, 1.2 s each, cost 0.13",
        "  local:handlers.py:caption      6 done,   0 %, 250 ms each",
    ]
    lines = summary_lines(msgspec.structs.replace(summary(interrupted=True), members=MEMBERS), REQUEST, None)
    assert "108 outstanding" in lines[-2]
    by_http = (MEMBERS[0], msgspec.structs.replace(MEMBERS[1], via=Via.HTTP))
    lines = summary_lines(msgspec.structs.replace(summary(), members=by_http), REQUEST, None)
    assert "99 %, by queue, 2 failed" in lines[-2]
    assert "0 %, by http, 250 ms each" in lines[-1]
    lines = summary_lines(msgspec.structs.replace(summary(interrupted=True), members=MEMBERS), REQUEST, None)
    assert lines[-1].endswith(f", unwell: {THROTTLED}")


def test_an_interrupted_run_says_what_is_left() -> None:
    lines = summary_lines(summary(interrupted=True, queued=6, uncertain=1, outstanding=2, succeeded=1), REQUEST, None)
    assert lines[0] == "captions: interrupted; 1 of 10 jobs finished"
    assert [line.split() for line in lines[1:5]] == [
        ["succeeded", "1"],
        ["queued", "6"],
        ["not", "settled", "1"],
        ["outstanding", "2"],
    ]
    assert "took         2 s" in lines[-2]


@pytest.mark.parametrize(("margin_s", "told"), [(299.0, "4 min"), (61.0, "61 s"), (0.2, "1 s"), (300.0, None)])
def test_a_margin_is_told_where_it_was_small(margin_s: float, told: str | None) -> None:
    came = msgspec.structs.replace(summary(), margin_s=MarginSummary(min=margin_s, p1=None))
    lines = [line for line in summary_lines(came, REQUEST, None) if "closest call" in line]
    assert lines == ([f"  closest call  collected {told} before expiry"] if told else [])


@pytest.mark.parametrize(
    ("failed", "retried", "told"),
    [
        (60, 40, "60 attempts failed (40 were retried)"),
        (1, 1, "1 attempt failed (1 was retried)"),
        (2, 0, "2 attempts failed"),
    ],
)
def test_failed_attempts_are_told_with_those_that_were_retried(failed: int, retried: int, told: str) -> None:
    came = msgspec.structs.replace(summary(), failed_executions=failed, retried_executions=retried)
    assert f"  attempts   {told}" in summary_lines(came, REQUEST, None)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (("output.text",), "output.text: null in every row of the results"),
        (
            tuple(f"output.{n}" for n in range(4)),
            "output.0, output.1, output.2 and 1 other column: null in every row of the results",
        ),
    ],
)
def test_columns_that_are_null_in_every_row_are_told(columns: tuple[str, ...], told: str) -> None:
    came = msgspec.structs.replace(summary(), empty_columns=columns)
    assert f"  empty      {told}" in summary_lines(came, REQUEST, None)
    all_empty = msgspec.structs.replace(came, all_empty=True)
    assert not any("null in every row" in line for line in summary_lines(all_empty, REQUEST, None)), "it is told once"


def test_the_end_of_a_run_with_failures_names_their_largest_kinds_and_what_to_do() -> None:
    kinds = (
        FailureKind(count=12, class_="failed", sample="ValueError: bad seed"),
        FailureKind(count=5, class_="failed", sample="CUDA " + "out of memory " * 10),
        FailureKind(count=2, class_="timed_out", sample=""),
    )
    failed = msgspec.structs.replace(summary(succeeded=980, failed=20), failure_kinds=4, largest_failures=kinds)
    assert summary_lines(failed, REQUEST, None)[-7:] == [
        "20 failed, in 4 kinds:",
        "  12  ValueError: bad seed",
        "   5  CUDA out of memory out of memory out of memory out of…",
        "   2  timed_out",
        "      and 1 other kind",
        "see: orchestrator failures captions",
        "again: orchestrator retry captions",
    ]
    cancelled = msgspec.structs.replace(failed, jobs={**failed.jobs, "failed": 0, "cancelled": 20})
    assert not any("kind" in line for line in summary_lines(cancelled, REQUEST, None))


def test_one_job_is_one_job() -> None:
    assert summary_lines(summary(succeeded=1), REQUEST, None)[0] == "captions: finished; its job succeeded"
    assert summary_lines(summary(failed=1), REQUEST, None)[0] == "captions: finished; 0 of 1 job succeeded"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (1_770.4, "collect again within 29 min, or results expire"),
        (0.0, "results may have expired already: resume soon"),
    ],
)
def test_what_is_left_at_the_service_is_told_with_how_long_it_is_safe_there(seconds: float, told: str) -> None:
    left = msgspec.structs.replace(summary(outstanding=1), safe_offline_s=seconds)
    assert f"  at service   {told}" in summary_lines(left, REQUEST, None)


def test_nothing_sent_is_nothing_told() -> None:
    lines = summary_lines(msgspec.structs.replace(summary(), requests={"run": 0}, wall_s=0.0), REQUEST, snapshot())
    assert not any("requests" in line for line in lines)
    assert lines[-2] == "  took       0 s"


def test_failures_without_a_file_are_a_command_away() -> None:
    request = msgspec.structs.replace(REQUEST, ledger=Path("my ledger.db"))
    assert summary_lines(summary(failed=1), request, None)[-1] == (
        "  errors     orchestrator results captions --ledger 'my ledger.db' --errors > errors.jsonl"
    )
    assert results_command("two words", REQUEST) == "orchestrator results 'two words'"
    assert results_command("--json", request, run_request.ERRORS) == (
        "orchestrator results --ledger 'my ledger.db' --errors -- --json"
    )


def test_a_ledger_that_was_named_is_named_although_it_is_the_usual_one() -> None:
    """The configuration file may name another."""
    request = msgspec.structs.replace(REQUEST, configuration=Configuration(in_file={"ledger": ("other.db",)}))
    assert results_command("captions", request) == "orchestrator results captions --ledger orchestrator.db"


def test_the_summary_goes_to_standard_error_and_quiet_leaves_it_out() -> None:
    result = ended()
    assert result.stderr.startswith("captions: finished; all 3 jobs succeeded\n")
    assert result.stdout == ""
    assert ended(quiet=True).output == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (3.29, "3.2 s"),
        (9.99, "9.9 s"),
        (10, "10 s"),
        (59.9, "59 s"),
        (60, "1 min 00 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 00 min"),
        (86_399, "23 h 59 min"),
        (90_000, "1 d 01 h"),
    ],
)
def test_durations_have_two_places(seconds: float, text: str) -> None:
    assert lasting(seconds) == text


@pytest.mark.parametrize(
    ("per_s", "text"),
    [(0, "0.0 jobs/s"), (1234.56, "1,234.6 jobs/s"), (1, "1.0 jobs/s"), (0.5, "30.0 jobs/min"), (0.001, "3.6 jobs/h")],
)
def test_slow_work_is_told_by_the_minute_or_hour(per_s: float, text: str) -> None:
    assert rate(per_s) == text


def test_a_hundred_percent_is_all() -> None:
    assert (percent(9_999, 10_000), percent(10_000, 10_000), percent(0, 0)) == ("99 %", "100 %", "0 %")
