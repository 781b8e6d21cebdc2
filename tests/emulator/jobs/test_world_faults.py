import json

import msgspec
import pytest

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.jobs.job_table import KILLED
from orchestrator.emulator.jobs.jobs import ExecutionKey, WorkerResult
from orchestrator.emulator.jobs.run_body import parse_submission
from orchestrator.units import SECOND_US
from tests.emulator.execution_counts import ExecutionCounts
from tests.emulator.worlds import EP, HOOK, MINUTE, T0, finish, seen, status, submit, take, world


def test_a_lost_job_gets_an_id_and_is_unknown_at_once() -> None:
    subject = world(Faults(lost_job=1.0))
    job_id = submit(subject)
    assert subject.executions.take(EP, "w1", T0) is None
    with pytest.raises(ServiceRefusal) as caught:
        subject.status(EP, job_id, T0)
    assert caught.value.status == 404


def test_a_job_that_is_stuck_in_the_queue_is_shown_there_until_its_ttl_and_given_to_nobody() -> None:
    subject = world(Faults(stuck_in_queue=1.0))
    job_id = submit(subject)
    assert subject.executions.take(EP, "w1", T0) is None
    assert (status(subject, job_id), subject.health(EP).jobs.in_queue) == ("IN_QUEUE", 1)
    assert subject.next_due() == T0 + 24 * 60 * MINUTE
    subject.step(T0 + 24 * 60 * MINUTE)
    assert (len(subject.table.by_id), subject.health(EP).jobs.in_queue) == (0, 0)


def test_a_job_that_is_stuck_in_the_queue_can_be_cancelled_and_purged() -> None:
    subject = world(Faults(stuck_in_queue=1.0))
    cancelled = submit(subject)
    assert subject.cancel(EP, cancelled, T0).status == "CANCELLED"
    submit(subject)
    assert subject.purge(EP).removed == 1
    assert subject.health(EP).jobs.in_queue == 0


@pytest.mark.parametrize("first", [1, 2])
def test_a_job_that_is_dispatched_twice_is_paid_twice_and_has_the_first_result(first: int) -> None:
    counts = ExecutionCounts()
    subject = world(Faults(duplicate_dispatch=1.0), observer=counts)
    job_id = submit(subject, webhook=HOOK)
    executions = {1: take(subject, worker_id="w1")}
    assert subject.step(T0).queued == (EP,)
    executions[2] = take(subject, worker_id="w2")
    assert subject.executions.take(EP, "w3", T0) is None
    assert subject.executions.done(executions[first], WorkerResult(output=b"1"), T0)
    assert not subject.executions.done(executions[3 - first], WorkerResult(output=b"2"), T0)
    assert seen(subject.status(EP, job_id, T0))["output"] == 1
    assert (counts.executed.total(), counts.completed.total(), len(subject.step(T0).webhooks)) == (2, 1, 1)
    assert subject.health(EP).jobs.in_progress == 0
    assert subject.health(EP).workers.running == 0


def test_the_result_of_a_job_that_waits_for_its_second_worker_ends_it() -> None:
    subject = world(Faults(duplicate_dispatch=1.0))
    job_id = submit(subject)
    execution = take(subject)
    assert status(subject, job_id) == "IN_QUEUE"
    assert subject.executions.done(execution, WorkerResult(error="bad"), T0)
    assert status(subject, job_id) == "FAILED"
    assert subject.executions.take(EP, "w2", T0) is None
    subject.retry(EP, job_id, T0)
    assert not subject.executions.done(execution, WorkerResult(output=b"late"), T0)
    assert take(subject).number == 2
    assert status(subject, job_id) == "IN_PROGRESS"


def test_an_empty_output_is_a_success_without_output() -> None:
    subject = world(Faults(empty_output=1.0))
    job_id = submit(subject)
    finish(subject)
    record = seen(subject.status(EP, job_id, T0))
    assert record["status"] == "COMPLETED"
    assert "output" not in record


@pytest.mark.parametrize(
    ("output", "left"),
    [
        (b'[1,{"a":2}]', [1]),
        (b'{"n":3,"items":[1,2,3]}', {"n": 3, "items": [1, 2]}),
        (b"[1]", [1]),
        (b'{"items":[7]}', {"items": [7]}),
        (b'"text"', "text"),
    ],
)
def test_a_list_of_several_parts_lacks_the_last(output: bytes, left: object) -> None:
    subject = world(Faults(missing_part=1.0))
    job_id = submit(subject)
    execution = take(subject)
    assert subject.executions.done(execution, WorkerResult(output=output), T0)
    assert seen(subject.status(EP, job_id, T0))["output"] == left


def test_a_handler_error_fails_a_job_whose_handler_succeeded() -> None:
    subject = world(Faults(handler_error=1.0))
    job_id = submit(subject)
    finish(subject)
    record = seen(subject.status(EP, job_id, T0))
    assert (record["status"], "output" in record) == ("FAILED", False)


def test_a_real_error_is_left_alone_by_the_faults_of_results() -> None:
    subject = world(Faults(handler_error=1.0, empty_output=1.0))
    job_id = submit(subject)
    finish(subject, T0, WorkerResult(error="real"))
    assert seen(subject.status(EP, job_id, T0))["error"] == "real"


def test_a_stuck_worker_holds_its_job_until_the_execution_times_out() -> None:
    subject = world(Faults(stuck_worker=1.0))
    job_id = submit(subject)
    assert take(subject).silent
    assert subject.next_due() == T0 + 10 * MINUTE
    assert subject.step(T0 + 10 * MINUTE).stopped == (ExecutionKey(job_id, 1),)
    assert status(subject, job_id, T0 + 10 * MINUTE) == "TIMED_OUT"


def test_a_dead_workers_job_is_queued_again_once_and_then_fails() -> None:
    subject = world(Faults(dead_worker=1.0))
    job_id = submit(subject, webhook=HOOK)
    assert take(subject).silent
    first = T0 + 40 * SECOND_US
    assert subject.next_due() == first
    due = subject.step(first)
    assert (due.stopped, due.queued, due.webhooks) == ((ExecutionKey(job_id, 1),), (EP,), ())
    assert seen(subject.status(EP, job_id, first))["retries"] == 1
    assert take(subject, first, "w2").number == 2
    second = first + 40 * SECOND_US
    due = subject.step(second)
    assert due.stopped == (ExecutionKey(job_id, 2),)
    assert seen(subject.status(EP, job_id, second)) == {
        "status": "FAILED",
        "delayTime": 40_000,
        "executionTime": 40_000,
        "workerId": "w2",
        "retries": 1,
        "error": "job timed out after 1 retries",
    }
    assert len(due.webhooks) == 1


def test_a_job_that_was_dispatched_again_goes_to_the_head_of_the_queue() -> None:
    subject = world(Faults(dead_worker=1.0))
    silent = submit(subject)
    take(subject)
    submit(subject)
    subject.step(T0 + 40 * SECOND_US)
    assert take(subject, T0 + 40 * SECOND_US).job_id == silent
    assert subject.health(EP).jobs.retried == 1


def test_a_question_at_the_time_of_a_silence_finds_the_job_queued_again() -> None:
    subject = world(Faults(dead_worker=1.0))
    job_id = submit(subject)
    take(subject)
    assert status(subject, job_id, T0 + 40 * SECOND_US) == "IN_QUEUE"
    assert subject.next_due() == 0
    assert subject.step(T0 + 40 * SECOND_US).queued == (EP,)


def test_a_dead_worker_is_noticed_by_the_execution_time_out_if_that_is_sooner() -> None:
    subject = world(Faults(dead_worker=1.0))
    job_id = submit(subject, executionTimeout=5_000)
    take(subject)
    assert status(subject, job_id, T0 + 5 * SECOND_US) == "TIMED_OUT"


def test_a_lost_webhook_is_never_due() -> None:
    subject = world(Faults(lost_webhook=1.0))
    submit(subject, webhook=HOOK)
    finish(subject)
    assert subject.step(T0).webhooks == ()


def test_a_duplicate_webhook_is_due_twice() -> None:
    subject = world(Faults(duplicate_webhook=1.0))
    submit(subject, webhook=HOOK)
    finish(subject)
    first, second = subject.step(T0).webhooks
    assert first == second


def test_a_webhook_can_begin_with_a_byte_order_mark() -> None:
    subject = world(Faults(marked_answer=1.0))
    submit(subject, webhook=HOOK)
    finish(subject)
    (webhook,) = subject.step(T0).webhooks
    assert webhook.body.startswith(b"\xef\xbb\xbf{")
    assert msgspec.json.decode(webhook.body[3:])["status"] == "COMPLETED"


def test_the_error_of_a_webhook_can_be_no_text_that_everybody_takes() -> None:
    subject = world(Faults(strange_text=1.0, handler_error=1.0))
    submit(subject, webhook=HOOK)
    finish(subject)
    (webhook,) = subject.step(T0).webhooks
    assert json.loads(webhook.body)["error"].startswith("\0\ud83d handler error")


def test_a_late_webhook_is_due_after_its_delay_even_if_the_job_is_gone_by_then() -> None:
    subject = world(Faults(late_webhook=1.0, late_webhook_s=7200.0))
    submit(subject, webhook=HOOK)
    finish(subject)
    assert subject.step(T0).webhooks == ()
    assert subject.next_due() == T0 + 30 * MINUTE
    subject.step(T0 + 30 * MINUTE)
    assert len(subject.table.by_id) == 0
    assert subject.next_due() == T0 + 120 * MINUTE
    (webhook,) = subject.step(T0 + 120 * MINUTE).webhooks
    assert msgspec.json.decode(webhook.body)["status"] == "COMPLETED"


def test_a_late_webhook_that_comes_before_any_alarm_wakes_the_world() -> None:
    subject = world(Faults(late_webhook=1.0))
    submit(subject, webhook=HOOK)
    finish(subject)
    assert subject.next_due() == T0 + MINUTE


@pytest.mark.parametrize(("text", "is_executed"), [(b"{}", False), (b"{ \n}", False), (b'{"n":1}', True)])
def test_an_empty_input_never_reaches_its_worker_and_its_job_fails_after_a_retry(
    text: bytes, is_executed: bool
) -> None:
    subject = world()
    job_id = subject.submit(EP, parse_submission(b'{"input":' + text + b"}"), T0).id
    for attempt in range(1 if is_executed else 2):
        assert take(subject, T0 + attempt * MINUTE).silent is not is_executed
        subject.step(T0 + (attempt + 1) * MINUTE)
    record = subject.status(EP, job_id, T0 + 2 * MINUTE)
    assert record.error == (None if is_executed else "job timed out after 1 retries")


def test_a_worker_that_is_taken_away_fails_its_job() -> None:
    subject = world(Faults(killed_worker=1.0, killed_after_s=10.0))
    job = submit(subject)
    take(subject)
    subject.step(T0 + 10 * SECOND_US)
    record = seen(subject.status(EP, job, T0 + 10 * SECOND_US))
    assert (record["status"], record["error"]) == ("FAILED", KILLED)
    assert 0 < record["executionTime"] <= 10_000


def test_an_update_may_be_overtaken_by_the_one_before_it() -> None:
    subject = world(Faults(stale_progress=1.0))
    job = submit(subject)
    execution = take(subject)
    for n, shown in ((1, 1), (2, 1), (3, 2)):
        assert subject.executions.progress(execution, b"%d" % n, T0)
        assert seen(subject.status(EP, job, T0))["output"] == shown
