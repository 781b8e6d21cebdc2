"""The faults by which the service says of its jobs what is not so, or forgets them."""

from typing import Any

import msgspec
import pytest

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.jobs.false_answers import ABSURD_TIMES
from orchestrator.emulator.jobs.jobs import ExecutionKey, ServiceRecord, WorkerResult
from orchestrator.emulator.jobs.webhook_schedule import WebhookCall
from orchestrator.emulator.jobs.world import World
from tests.emulator.emulators import emulator, serving
from tests.emulator.worlds import EP, HOOK, MINUTE, T0, finish, status, submission, submit, take, world

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def shown(subject: World, job_id: str) -> ServiceRecord:
    return subject.table.false_answers.shown(EP, subject.status(EP, job_id, T0))


def brought(webhook: WebhookCall) -> Any:
    return msgspec.json.decode(webhook.body)


def test_a_question_can_be_answered_with_the_record_of_another_job_of_the_endpoint() -> None:
    subject = world(Faults(other_record=1.0))
    asked = submit(subject)
    subject.submit("another-endpoint", submission(), T0)
    assert shown(subject, asked).id == asked
    other = submit(subject)
    assert (shown(subject, asked).id, status(subject, asked)) == (other, "IN_QUEUE")


def test_a_job_is_mistaken_for_one_that_has_completed_if_there_is_any() -> None:
    subject = world(Faults(other_record=1.0))
    completed = submit(subject)
    finish(subject, result=WorkerResult(output=b'"its"'))
    asked = [submit(subject) for _ in range(5)]
    assert {(shown(subject, job_id).id, bytes(shown(subject, job_id).output or b"")) for job_id in asked} == {
        (completed, b'"its"')
    }


def test_the_answer_to_a_run_can_repeat_an_earlier_id_while_the_new_job_has_its_own() -> None:
    subject = world(Faults(repeated_id=1.0))
    first = submit(subject)
    record = subject.submit(EP, submission(), T0)
    assert subject.table.false_answers.accepted(EP, record).id == first != record.id
    assert (len(subject.table.by_id), status(subject, record.id)) == (2, "IN_QUEUE")


def test_times_can_be_absurd_in_answers_and_in_webhooks() -> None:
    subject = world(Faults(absurd_times=1.0))
    seen = set()
    for _ in range(50):
        job_id = submit(subject, webhook=HOOK)
        assert shown(subject, job_id).execution_time is None
        finish(subject)
        (webhook,) = subject.step(T0).webhooks
        for body in (webhook.body, msgspec.json.encode(shown(subject, job_id))):
            fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
            seen |= {bytes(fields["delayTime"]), bytes(fields["executionTime"])}
            assert bytes(fields["output"]) == b'{"ok":1}'
    assert seen == {bytes(time) for time in ABSURD_TIMES}


def test_a_webhook_can_bring_another_jobs_record() -> None:
    subject = world()
    other = submit(subject, value=1)
    finish(subject)
    subject.dice.faults = Faults(other_webhook=1.0)
    submit(subject, value=2, webhook=HOOK)
    finish(subject, result=WorkerResult(output=b'"mine"'))
    (webhook,) = subject.step(T0).webhooks
    assert (webhook.url, brought(webhook)["id"], brought(webhook)["output"]) == (HOOK, other, {"ok": 1})
    assert brought(webhook)["input"] == {"n": 1}


def test_a_webhook_can_bring_its_own_record_under_another_jobs_id() -> None:
    subject = world(Faults(other_id_webhook=1.0))
    other = submit(subject)
    finish(subject)
    submit(subject, webhook=HOOK)
    finish(subject, result=WorkerResult(output=b'"mine"'))
    (webhook,) = subject.step(T0).webhooks
    assert (brought(webhook)["id"], brought(webhook)["output"]) == (other, "mine")


def test_a_completed_job_can_be_announced_as_failed_too_before_or_after() -> None:
    subject = world(Faults(contrary_webhook=1.0))
    orders = set()
    for _ in range(20):
        job_id = submit(subject, webhook=HOOK)
        finish(subject)
        told = [brought(webhook) for webhook in subject.step(T0).webhooks]
        assert [each["id"] for each in told] == [job_id, job_id]
        assert {each["status"]: "output" in each for each in told} == {"COMPLETED": True, "FAILED": False}
        orders.add(told[0]["status"])
        assert status(subject, job_id) == "COMPLETED"
    assert orders == {"COMPLETED", "FAILED"}


def test_a_job_that_failed_is_announced_once() -> None:
    subject = world(Faults(contrary_webhook=1.0))
    submit(subject, webhook=HOOK)
    finish(subject, result=WorkerResult(error="bad"))
    assert [brought(webhook)["status"] for webhook in subject.step(T0).webhooks] == ["FAILED"]


def test_a_result_can_be_kept_for_a_share_of_the_retention() -> None:
    subject = world(Faults(short_retention=1.0))
    job_id = submit(subject)
    finish(subject)
    assert subject.next_due() == T0 + 5 * MINUTE
    assert status(subject, job_id, T0 + 5 * MINUTE - 1) == "COMPLETED"
    with pytest.raises(ServiceRefusal):
        subject.status(EP, job_id, T0 + 5 * MINUTE)


def test_a_question_can_find_that_all_jobs_of_its_endpoint_are_forgotten_and_the_service_goes_on() -> None:
    subject = world()
    completed, running, queued = (submit(subject) for _ in range(3))
    finish(subject)
    take(subject, worker_id="w2")
    elsewhere = subject.submit("another-endpoint", submission(), T0).id
    subject.dice.faults = Faults(amnesia=1.0)
    for job_id in (queued, running, completed):
        with pytest.raises(ServiceRefusal) as caught:
            subject.status(EP, job_id, T0)
        assert caught.value.status == 404
    subject.dice.faults = Faults()
    assert subject.step(T0).stopped == (ExecutionKey(running, 1),)
    assert subject.status("another-endpoint", elsewhere, T0).id == elsewhere
    job_id = submit(subject)
    finish(subject)
    assert status(subject, job_id) == "COMPLETED"


async def test_the_routes_tell_these_lies_and_a_webhook_can_come_before_the_answer_to_its_run() -> None:
    news: list[str] = []

    async def deliver(_url: str, body: bytes, _headers: object) -> int:
        news.append(f"webhook of {msgspec.json.decode(body)['id']}")
        return 200

    subject = emulator(faults=Faults(slow_run=1.0, hidden_health=1.0), deliver=deliver)
    async with serving(subject) as client:
        first = await client.run(webhook=HOOK)
        news.append(f"answer of {first}")
        assert (await client.http.get("/health")).status_code == 404
        assert (await client.status(first))["id"] == first
        subject.dice.faults = Faults(other_record=1.0, repeated_id=1.0)
        assert await client.run(2) == first
        second = next(job.id for job in subject.world.table.newest_first())
        assert (await client.status(second))["id"] == first
    assert news == [f"webhook of {first}", f"answer of {first}"]
