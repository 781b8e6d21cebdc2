import re

import msgspec
import pytest

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.jobs.jobs import ExecutionKey, WorkerResult
from orchestrator.emulator.jobs.scaling_rules import fixed
from orchestrator.emulator.jobs.world import World
from orchestrator.units import SECOND_US
from tests.emulator.worlds import EP, HOOK, MINUTE, T0, finish, seen, status, submission, submit, take, world

FAILURE = WorkerResult(error="bad")


def refused(world: World, verb: str, job_id: str, now: int = T0, endpoint: str = EP) -> int:
    with pytest.raises(ServiceRefusal) as caught:
        getattr(world, verb)(endpoint, job_id, now)
    return caught.value.status


def test_a_submitted_job_is_queued_under_an_id_of_the_services_form() -> None:
    record = world().submit(EP, submission(), T0)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-u1", record.id)
    assert seen(record) == {"status": "IN_QUEUE"}


def test_the_record_gains_its_fields_on_the_way() -> None:
    subject = world()
    job_id = submit(subject)
    assert seen(subject.status(EP, job_id, T0)) == {"status": "IN_QUEUE"}
    execution = take(subject, T0 + 2210_000)
    started = {"delayTime": 2210, "workerId": "w1"}
    assert seen(subject.status(EP, job_id, T0 + 3 * SECOND_US)) == {"status": "IN_PROGRESS", **started}
    assert subject.executions.done(execution, WorkerResult(output=b'{"n": 3.0}'), T0 + 3055_000)
    record = subject.status(EP, job_id, T0 + 4 * SECOND_US)
    assert seen(record) == {"status": "COMPLETED", **started, "executionTime": 845, "output": {"n": 3.0}}
    assert b'"output":{"n": 3.0}' in msgspec.json.encode(record)


def test_a_failed_job_shows_its_error_and_what_was_put_out_beside_it() -> None:
    subject = world()
    job_id = submit(subject)
    finish(subject, T0, WorkerResult(output=b'{"p":1}', error="x"))
    assert seen(subject.status(EP, job_id, T0)) == {
        "status": "FAILED",
        "delayTime": 0,
        "executionTime": 0,
        "workerId": "w1",
        "error": "x",
        "output": {"p": 1},
    }


def test_jobs_are_taken_in_the_order_of_their_submission_from_their_own_endpoint() -> None:
    """Contract, Rule 2: a job waits until a worker is free, and its handler processes it."""
    subject = world()
    jobs = [submit(subject, T0 + n) for n in range(3)]
    subject.submit("other", submission(), T0)
    assert [take(subject).job_id for _ in jobs] == jobs
    assert subject.executions.take(EP, "w1", T0) is None
    assert subject.endpoints.waiting() == ("other",)
    assert subject.endpoints.queued("other") == 1


def test_a_job_of_another_endpoint_is_unknown() -> None:
    subject = world()
    job_id = submit(subject)
    assert refused(subject, "status", job_id, endpoint="other") == 404
    assert refused(subject, "cancel", "nonsense") == 404
    assert refused(subject, "retry", "nonsense") == 404


def test_a_finished_job_is_kept_for_the_retention_and_no_longer() -> None:
    """Contract, Async 2: `/run` in the background; the result is kept for 30 minutes."""
    subject = world()
    job_id = submit(subject)
    finish(subject, T0 + MINUTE)
    assert status(subject, job_id, T0 + 31 * MINUTE - 1) == "COMPLETED"
    assert subject.next_due() == T0 + 31 * MINUTE
    assert refused(subject, "status", job_id, T0 + 31 * MINUTE) == 404
    assert len(subject.table.by_id) == 0


@pytest.mark.parametrize("progress", ["queued", "running", "finished"])
def test_at_its_ttl_a_job_is_deleted_whatever_its_state(progress: str) -> None:
    subject = world()
    job_id = submit(subject, webhook=HOOK, ttl=10_000)
    if progress != "queued":
        execution = take(subject)
        if progress == "finished":
            subject.executions.done(execution, WorkerResult(), T0)
            subject.step(T0)
    end = T0 + 10 * SECOND_US
    assert subject.next_due() == end
    due = subject.step(end)
    assert due.webhooks == ()
    assert due.stopped == ((ExecutionKey(job_id, 1),) if progress == "running" else ())
    assert refused(subject, "status", job_id, end) == 404
    assert (len(subject.table.by_id), subject.next_due(), subject.endpoints.queued(EP)) == (0, None, 0)


def test_a_job_past_its_ttl_is_never_handed_to_a_worker() -> None:
    """Contract, The TTL covers the queue: 7 days, 2 of them queued, leave 5."""
    subject = world()
    submit(subject, ttl=10_000)
    assert subject.executions.take(EP, "w1", T0 + 10 * SECOND_US) is None
    assert len(subject.table.by_id) == 0


def test_a_job_that_runs_too_long_times_out_and_its_execution_is_stopped() -> None:
    """Contract, `executionTimeout`: the job is timed out, and can be retried."""
    subject = world()
    job_id = submit(subject, executionTimeout=5_000)
    execution = take(subject, T0 + MINUTE)
    end = T0 + MINUTE + 5 * SECOND_US
    assert subject.next_due() == end
    assert not subject.executions.done(execution, WorkerResult(output=b"1"), end)
    assert subject.step(end).stopped == (ExecutionKey(job_id, 1),)
    record = seen(subject.status(EP, job_id, end))
    assert (record["status"], record["executionTime"]) == ("TIMED_OUT", 5000)


def test_a_question_after_the_time_out_is_answered_right_even_before_the_step() -> None:
    subject = world()
    job_id = submit(subject, executionTimeout=5_000)
    take(subject)
    assert status(subject, job_id, T0 + 5 * SECOND_US) == "TIMED_OUT"
    assert subject.next_due() == 0
    assert subject.step(T0 + 5 * SECOND_US).stopped == (ExecutionKey(job_id, 1),)


def test_a_cancelled_job_leaves_the_queue() -> None:
    """Contract, `/cancel` stops a job that runs or waits."""
    subject = world()
    job_id = submit(subject)
    assert seen(subject.cancel(EP, job_id, T0)) == {"status": "CANCELLED"}
    assert subject.executions.take(EP, "w1", T0) is None
    assert seen(subject.status(EP, job_id, T0)) == {"status": "CANCELLED"}


def test_a_running_job_that_is_cancelled_is_stopped_and_its_result_dropped() -> None:
    subject = world()
    job_id = submit(subject, webhook=HOOK)
    execution = take(subject)
    subject.cancel(EP, job_id, T0 + SECOND_US)
    due = subject.step(T0 + SECOND_US)
    assert due.stopped == (ExecutionKey(job_id, 1),)
    assert due.webhooks == ()
    assert not subject.executions.done(execution, WorkerResult(output=b"1"), T0 + SECOND_US)
    assert status(subject, job_id, T0 + SECOND_US) == "CANCELLED"


def test_cancelling_a_finished_job_changes_nothing_and_says_so() -> None:
    subject = world()
    job_id = submit(subject)
    finish(subject)
    assert seen(subject.cancel(EP, job_id, T0)) == {"status": "COMPLETED"}
    assert status(subject, job_id) == "COMPLETED"


def test_where_the_service_retries_by_itself_a_job_fails_only_after_that() -> None:
    """Contract, Retries: after a queue-based job fails, the service retries automatically."""
    subject = world(service_retries=2)
    first, second = submit(subject, webhook=HOOK), submit(subject, value=2)
    failure = WorkerResult(error="boom")
    for n, others in ((1, "IN_QUEUE"), (2, "IN_QUEUE"), (3, "FAILED")):
        assert finish(subject, result=failure).job_id == first
        assert status(subject, first) == others
        assert [len(subject.step(T0).webhooks), n] in ([0, 1], [0, 2], [1, 3])
    assert seen(subject.status(EP, first, T0))["retries"] == 2
    finish(subject, result=failure)
    finish(subject)
    assert status(subject, second) == "COMPLETED"
    health = subject.health(EP).jobs
    assert (health.failed, health.completed, health.retried) == (1, 1, 3)


def test_a_job_has_the_time_of_its_endpoint_unless_its_policy_says_so() -> None:
    subject = world()
    default = submit(subject)
    subject.endpoints.deploy(EP, fixed(2), announced=False, execution_timeout_us=20 * SECOND_US)
    of_endpoint, own = submit(subject), submit(subject, executionTimeout=30_000)
    for _ in range(3):
        take(subject)
    subject.step(T0 + 20 * SECOND_US)
    assert [status(subject, each, T0 + 20 * SECOND_US) for each in (default, of_endpoint, own)] == [
        *("IN_PROGRESS", "TIMED_OUT", "IN_PROGRESS")
    ]
    subject.step(T0 + 30 * SECOND_US)
    assert status(subject, own, T0 + 30 * SECOND_US) == "TIMED_OUT"
    assert status(subject, default, T0 + 599 * SECOND_US) == "IN_PROGRESS"
    subject.endpoints.deploy(EP, fixed(2), announced=False, execution_timeout_us=0)
    last = submit(subject, T0)
    take(subject)
    assert status(subject, last, T0 + 599 * SECOND_US) == "IN_PROGRESS", "0 is the contract's default (as observed)"


def test_a_failed_job_is_retried_under_its_id_with_its_input_and_without_its_past() -> None:
    """Contract, `/retry` requeues a failed or timed-out job, same id and input."""
    subject = world()
    job_id = submit(subject, value=7)
    finish(subject, T0, WorkerResult(output=b"{}", error="bad"))
    assert seen(subject.retry(EP, job_id, T0 + MINUTE)) == {"status": "IN_QUEUE"}
    assert seen(subject.status(EP, job_id, T0 + MINUTE)) == {"status": "IN_QUEUE"}
    execution = take(subject, T0 + MINUTE + SECOND_US)
    assert (execution.job_id, execution.number, execution.input) == (job_id, 2, b'{"n":7}')
    assert seen(subject.status(EP, job_id, T0 + 2 * MINUTE))["delayTime"] == 1000


def test_a_timed_out_job_can_be_retried_and_the_late_result_of_its_first_execution_is_dropped() -> None:
    subject = world()
    job_id = submit(subject, executionTimeout=5_000)
    first = take(subject)
    end = T0 + 5 * SECOND_US
    subject.step(end)
    subject.retry(EP, job_id, end)
    assert not subject.executions.done(first, FAILURE, end)
    take(subject, end)
    assert not subject.executions.done(first, FAILURE, end)
    assert status(subject, job_id, end) == "IN_PROGRESS"


@pytest.mark.parametrize("state", ["IN_QUEUE", "IN_PROGRESS", "COMPLETED", "CANCELLED"])
def test_only_failed_and_timed_out_jobs_can_be_retried(state: str) -> None:
    subject = world()
    job_id = submit(subject)
    if state == "CANCELLED":
        subject.cancel(EP, job_id, T0)
    elif state != "IN_QUEUE":
        execution = take(subject)
        if state == "COMPLETED":
            subject.executions.done(execution, WorkerResult(), T0)
    assert status(subject, job_id) == state
    assert refused(subject, "retry", job_id) == 400


def test_a_retry_does_not_prolong_the_ttl() -> None:
    subject = world()
    job_id = submit(subject, ttl=10_000)
    finish(subject, T0, FAILURE)
    subject.retry(EP, job_id, T0 + 9 * SECOND_US)
    assert refused(subject, "status", job_id, T0 + 10 * SECOND_US) == 404


def test_a_purge_removes_what_is_queued_and_nothing_else() -> None:
    """Contract, `/purge-queue` clears all pending jobs."""
    subject = world()
    running, queued = submit(subject), submit(subject)
    take(subject)
    assert msgspec.to_builtins(subject.purge(EP)) == {"removed": 1, "status": "completed"}
    assert refused(subject, "status", queued) == 404
    assert status(subject, running) == "IN_PROGRESS"
    assert len(subject.table.by_id) == 1


def test_health_counts_jobs_and_workers() -> None:
    subject = world()
    for _ in range(5):
        submit(subject)
    finish(subject)
    failed = finish(subject, T0, FAILURE).job_id
    subject.retry(EP, failed, T0)
    take(subject)
    assert msgspec.json.decode(msgspec.json.encode(subject.health(EP))) == {
        "jobs": {"completed": 1, "failed": 1, "inProgress": 1, "inQueue": 3, "retried": 1},
        "workers": {"idle": 1, "initializing": 0, "ready": 1, "running": 1, "throttled": 0, "unhealthy": 0},
    }


@pytest.mark.parametrize(("result", "outcome"), [(WorkerResult(output=b"[1]"), "COMPLETED"), (FAILURE, "FAILED")])
def test_a_webhook_brings_the_record_and_the_input_in_alphabetical_order(result: WorkerResult, outcome: str) -> None:
    """Contract, Webhook 3: payload not shown."""
    subject = world()
    submit(subject, webhook=HOOK)
    finish(subject, T0, result)
    assert subject.next_due() == 0
    (webhook,) = subject.step(T0).webhooks
    body = msgspec.json.decode(webhook.body)
    assert webhook.url == HOOK
    assert list(body) == sorted(body)
    assert (body["status"], body["input"], body["webhook"]) == (outcome, {"n": 1}, HOOK)
    assert "workerId" not in body
    assert subject.step(T0).webhooks == ()


def test_a_time_out_calls_the_webhook() -> None:
    subject = world()
    submit(subject, webhook=HOOK)
    take(subject)
    (webhook,) = subject.step(T0 + 10 * MINUTE).webhooks
    assert msgspec.json.decode(webhook.body)["status"] == "TIMED_OUT"


def test_memory_is_given_back_when_jobs_are_forgotten() -> None:
    subject = world()
    for n in range(5_000):
        submit(subject, T0 + n)
        finish(subject, T0 + n)
    subject.step(T0 + 31 * MINUTE)
    assert (len(subject.table.by_id), len(subject.table.timers), subject.next_due()) == (0, 0, None)


def test_the_same_seed_gives_the_same_ids() -> None:
    assert submit(world(seed=5)) == submit(world(seed=5)) != submit(world(seed=6))
