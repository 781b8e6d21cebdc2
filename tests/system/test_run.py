"""`orchestrator run` works with a service that is not our emulator."""

from collections.abc import Callable

import pytest

from tests.system.processes import FAST, Desk, Service, lines_of

pytestmark = pytest.mark.system

HOW = {"by polling": (), "by webhook": ("--listen", "127.0.0.1:0")}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW.keys())
def test_a_file_of_inputs_becomes_a_file_of_results_in_the_same_order(
    desk: Desk, service: Service, how: tuple[str, ...]
) -> None:
    desk.inputs(200)

    ended = desk.call(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "results.jsonl",
        "--json", *FAST, *how,
    )  # fmt: skip

    assert ended.exit_code == 0, ended
    rows = desk.rows()
    assert desk.ids() == [f"row-{n}" for n in range(200)]
    assert desk.rows("results.jsonl.errors.jsonl") == []
    assert rows[7] | {"job_id": ""} == {
        "custom_id": "row-7", "job_id": "", "status": "COMPLETED", "output": {"echo": {"n": 7}, "filler": ""},
        "attempts": 1, "paid_at_most": 1, "delay_ms": 3, "execution_ms": 20,
    }  # fmt: skip
    assert len({row["job_id"] for row in rows}) == 200
    assert sorted(each["n"] for each in service.accepted()) == list(range(200))

    summary = ended.summary
    assert summary["run"] == "prompts"
    assert summary["jobs"] == {
        "total": 200, "queued": 0, "submitting": 0, "uncertain": 0, "outstanding": 0, "succeeded": 200, "failed": 0,
        "cancelled": 0,
    }  # fmt: skip
    assert summary["requests"]["run"] == 200 == service.counted("run")
    assert summary["requests"].get("status", 0) == service.counted("status")
    assert summary["uncertain"] == {"seen": 0, "adopted": 0, "resubmitted": 0}
    assert (summary["lost"], summary["expired"], summary["throttled"], summary["interrupted"]) == (0, 0, 0, False)
    assert 1700 < summary["margin_s"]["min"] <= 1800
    assert summary["wall_s"] > 0


@pytest.mark.slow
def test_failed_jobs_are_retried_and_the_hopeless_end_in_the_errors_file_with_exit_code_1(
    desk: Desk, service: Service
) -> None:
    rows = [{"custom_id": "good", "n": 1}, {"custom_id": "once", "n": 2, "failures": 1}]
    rows += [{"custom_id": "never", "n": 3, "failures": 9}, {"custom_id": "refused", "n": 4, "reject": True}]
    desk.write("in.jsonl", lines_of(rows))

    ended = desk.call(
        "run", "in.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "out.jsonl", "--json",
        "--max-attempts", "2", *FAST,
    )  # fmt: skip

    assert ended.exit_code == 1, ended
    assert [(row["custom_id"], row["attempts"]) for row in desk.rows("out.jsonl")] == [("good", 1), ("once", 2)]
    never, refused = desk.rows("out.jsonl.errors.jsonl")
    assert (never["custom_id"], never["status"], never["error"]["class"], never["attempts"]) == (
        "never", "FAILED", "failed", 2,
    )  # fmt: skip
    assert "it was asked to fail" in never["error"]["message"]
    assert (refused["custom_id"], refused["error"]["class"], refused["attempts"]) == ("refused", "rejected", 0)
    assert refused["job_id"] is None
    assert len(service.accepted()) == 3


@pytest.mark.slow
def test_retry_failed_reopens_them(desk: Desk, services: Callable[..., Service]) -> None:
    service = services()
    desk.write("in.jsonl", lines_of([{"custom_id": "a", "n": 1}, {"custom_id": "b", "n": 2, "failures": 1}]))
    command = (
        "run", "in.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "out.jsonl", "--json",
        "--max-attempts", "1", *FAST,
    )  # fmt: skip
    assert desk.call(*command).summary["jobs"]["failed"] == 1

    again = desk.call(*command)
    assert (again.exit_code, len(service.accepted())) == (1, 2), "failed jobs stay failed"

    reopened = desk.call("resume", "in", "--output", "out.jsonl", "--json", "--retry-failed", *FAST)
    # A new submission: for the service it is a new job, which fails its first execution as well.
    assert (reopened.exit_code, len(service.accepted())) == (1, 3)
    [row] = desk.rows("out.jsonl.errors.jsonl")
    assert (row["attempts"], row["paid_at_most"]) == (1, 2), "one since it was opened again"
