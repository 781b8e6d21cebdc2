import re
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager

import anyio
import pytest

from orchestrator.emulator.job_api.webhook_delivery import CONTRACT_SUCCESS, Deliver, WebhookDelivery
from orchestrator.emulator.jobs.webhook_schedule import WebhookCall
from tests.emulator.receiver import Receiver

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HOOK = WebhookCall(url="https://listener/hooks/1", body=b'{"id":"x"}')


@asynccontextmanager
async def webhooks(
    deliver: Deliver | None, concurrency: int = 5, success: Container[int] = CONTRACT_SUCCESS
) -> AsyncIterator[WebhookDelivery]:
    subject = WebhookDelivery(deliver, delays_s=(10.0, 10.0), timeout_s=10.0, concurrency=concurrency, success=success)
    async with anyio.create_task_group() as tasks:
        await tasks.start(subject.serve)
        yield subject
        tasks.cancel_scope.cancel()


async def refuse() -> int:
    raise ConnectionError("nobody listens")


async def hang() -> int:
    await anyio.sleep_forever()
    raise AssertionError


async def test_a_webhook_is_posted_once_with_its_headers_if_it_is_answered_200() -> None:
    """Contract, Webhook 1: the receiver answers 200."""
    receiver = Receiver(200)
    async with webhooks(receiver) as subject:
        subject.send(HOOK)
        await anyio.wait_all_tasks_blocked()
    [(_, url, body, headers)] = receiver.calls
    traceparent = headers["traceparent"]
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", traceparent)
    headers_before = {"content-type": "application/json", "user-agent": "Go-http-client/2.0"}
    assert (url, body, headers) == (HOOK.url, HOOK.body, {**headers_before, "traceparent": traceparent})
    assert (subject.attempts, subject.delivered, subject.dropped) == (1, 1, 0)


@pytest.mark.parametrize(("success", "delivered"), [((200,), 0), (range(200, 300), 1)])
async def test_another_2xx_is_no_delivery_unless_the_settings_say_so(success: Container[int], delivered: int) -> None:
    receiver = Receiver(204, 202, 299)
    async with webhooks(receiver, success=success) as subject:
        subject.send(HOOK)
        await anyio.sleep(3600)
    assert (subject.delivered, subject.dropped) == (delivered, 1 - delivered)
    traces = [call[3]["traceparent"].split("-") for call in receiver.calls]
    assert len({trace for _, trace, _, _ in traces}) == 1
    assert len({span for _, _, span, _ in traces}) == len(receiver.calls) == 3 - 2 * delivered


async def test_three_attempts_in_all_ten_seconds_apart_and_then_never_again() -> None:
    """Contract, Webhook 2: up to 2 more attempts, 10 s apart."""
    receiver = Receiver(500, refuse, 302)
    async with webhooks(receiver) as subject:
        subject.send(HOOK)
        await anyio.sleep(3600)
    assert receiver.times == [0.0, 10.0, 20.0]
    assert (subject.attempts, subject.delivered, subject.dropped) == (3, 0, 1)


async def test_a_slow_receiver_is_given_up_on_and_tried_again() -> None:
    receiver = Receiver(hang, 200)
    async with webhooks(receiver) as subject:
        subject.send(HOOK)
        await anyio.sleep(3600)
    assert receiver.times == [0.0, 20.0]
    assert subject.delivered == 1


async def test_no_more_attempts_are_under_way_than_allowed() -> None:
    receiver = Receiver(*[hang] * 30)
    async with webhooks(receiver, concurrency=2) as subject:
        for _ in range(10):
            subject.send(HOOK)
        await anyio.sleep(3600)
    assert receiver.at_once_max == 2
    assert (subject.attempts, subject.dropped) == (30, 10)


async def test_with_nothing_to_deliver_by_webhooks_are_dropped_and_counted() -> None:
    async with webhooks(None) as subject:
        subject.send(HOOK)
    assert subject.dropped == 1


async def test_what_is_sent_before_or_after_serving_is_dropped() -> None:
    async with webhooks(Receiver(200)) as subject:
        pass
    subject.send(HOOK)
    assert subject.dropped == 1
