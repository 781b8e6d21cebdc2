"""What is asked of a run from another process, with real ones: it follows at once, says so, and does it once."""

import pytest

from tests.system.processes import FAST, HOST, Desk, Program, Service, lines_of

pytestmark = pytest.mark.system


def begun(desk: Desk, service: Service) -> Program:
    """A run of two jobs, one of which has failed while the other is at the service for as long as that holds jobs."""
    service.change(hold=True)
    rows = [{"custom_id": "fails", "failures": 1, "eager": True}, {"custom_id": "waits", "n": 2}]
    desk.write("prompts.jsonl", lines_of(rows))
    place = ("--endpoint", "ep1", "--serverless-url", service.url, *FAST)
    program = desk.start("run", "prompts.jsonl", *place, "--max-attempts", "1", "--output", "out.jsonl", "--json")
    service.wait("finished", 1)
    desk.until_state("failed", 1)
    return program


@pytest.mark.slow
def test_failed_jobs_are_queued_again_beside_the_run_that_goes_on(desk: Desk, service: Service) -> None:
    program = begun(desk, service)
    told = desk.call("retry", "prompts", "--yes", "--json")
    assert told.exit_code == 0, told
    assert told.summary["outcome"] == "1 failed job is queued again"
    assert f"prompts is to try 1 job again; process {program.pid} on {HOST} (run prompts) since 20" in told.stderr

    service.wait("finished", 2)  # for the service it is a new job, which fails its first execution as well
    desk.until_state("failed", 1)
    service.change(hold=False)
    ended = program.ended()
    assert (ended.exit_code, ended.summary["jobs"]["succeeded"], ended.summary["jobs"]["failed"]) == (1, 1, 1), ended
    [row] = desk.rows("out.jsonl.errors.jsonl")
    assert (row["attempts"], row["paid_at_most"]) == (1, 2), "one since it was queued again"
    assert len(service.accepted()) == 3

    offline = desk.call("retry", "prompts", "--yes")
    assert (offline.exit_code, len(service.accepted())) == (0, 3)
    assert "it holds from the next start" in offline.stderr


@pytest.mark.slow
def test_a_priority_is_taken_on_beside_the_run_and_kept(desk: Desk, service: Service) -> None:
    program = begun(desk, service)
    for weight in ("7", "-5"):
        told = desk.call("priority", "prompts", "--", weight)
        assert told.exit_code == 0, told
        assert f"prompts is of priority {weight}; process {program.pid} on {HOST} (run prompts) since 20" in told.stderr
        assert f"follows: it takes its turns with priority {weight}" in told.stderr
    refused = desk.call("priority", "prompts", "99")
    assert (refused.exit_code, refused.stdout) == (2, ""), refused
    assert "less than or equal to 10" in refused.stderr
    unknown = desk.call("priority", "poems", "1")
    assert (unknown.exit_code, "no run called 'poems'" in unknown.stderr) == (2, True), unknown

    assert desk.call("pause", "prompts").exit_code == 0
    [shown] = desk.call("status", "--json").summary
    assert (shown["paused"], shown["held_up"]) == (True, "paused: nothing is sent")
    assert desk.call("continue", "prompts").exit_code == 0
    [shown] = desk.call("status", "--json").summary
    assert (shown["paused"], shown["held_up"]) == (False, None)
    service.change(hold=False)
    assert program.ended().exit_code == 1, "the one that failed"
    assert "it holds from the next start" in desk.call("priority", "prompts", "0").stderr
