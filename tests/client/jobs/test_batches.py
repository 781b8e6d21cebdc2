"""The operations of the service's own Batch: what is sent, and what becomes of the turns."""

from collections.abc import Awaitable, Callable

import httpx
import pytest

from orchestrator.client import Permit, Service
from orchestrator.client.jobs.batches import BatchCalls
from orchestrator.clock import SystemClock
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.service.http_answers import Answer
from orchestrator.errors import Unanswered
from tests.client.replies import Replies

pytestmark = pytest.mark.anyio

CALLS: dict[str, tuple[str, bytes, Callable[[BatchCalls, Permit], Awaitable[Answer]]]] = {
    "create": ("POST /v2/abc/batch", b"[]", lambda calls, permit: calls.create(permit)),
    "append": (
        "POST /v2/abc/batch/batch_1/requests",
        b'{"requests":[]}',
        lambda calls, permit: calls.append(permit, "batch_1", b'{"requests":[]}'),
    ),
    "remove": (
        "DELETE /v2/abc/batch/batch_1/requests/req_1",
        b"",
        lambda calls, permit: calls.remove(permit, "batch_1", "req_1"),
    ),
    "change": (
        "PUT /v2/abc/batch/batch_1",
        b'{"name":"captions"}',
        lambda calls, permit: calls.change(permit, "batch_1", b'{"name":"captions"}'),
    ),
    "finalize": (
        "POST /v2/abc/batch/batch_1/finalize",
        b"",
        lambda calls, permit: calls.finalize(permit, "batch_1"),
    ),
    "cancel": ("POST /v2/abc/batch/batch_1/cancel", b"", lambda calls, permit: calls.cancel(permit, "batch_1")),
    "all": ("GET /v2/abc/batch", b"", lambda calls, permit: calls.all(permit)),
    "the older ones": ("GET /v2/abc/batch?offset=50", b"", lambda calls, permit: calls.all(permit, 50)),
    "get": ("GET /v2/abc/batch/batch_1", b"", lambda calls, permit: calls.get(permit, "batch_1")),
    "page": (
        "GET /v2/abc/batch/batch_1/requests?offset=100&limit=50",
        b"",
        lambda calls, permit: calls.page(permit, "batch_1", 100),
    ),
}
each_call = pytest.mark.parametrize(("sent", "body", "call"), CALLS.values(), ids=CALLS)


def service_of(script: Replies, **limits: Limit) -> Service:
    table = {Operation(name): limit for name, limit in limits.items()}
    transport = httpx.MockTransport(script)
    return Service("https://api.example.com", "sk-key", SystemClock(), limits=table, transport=transport)


@each_call
async def test_each_call_sends_its_request(
    sent: str, body: bytes, call: Callable[[BatchCalls, Permit], Awaitable[Answer]]
) -> None:
    script = Replies(httpx.Response(200, content=b'{"id":"batch_1"}'))
    api = service_of(script).endpoint("abc").api
    answer = await call(BatchCalls(api), await api.limiter.permit(Operation.BATCH))
    assert (answer.status, answer.body) == (200, b'{"id":"batch_1"}')
    (request,) = script.requests
    assert f"{request.method} {request.url.raw_path.decode()}" == sent
    assert request.content == body
    assert request.headers.get("content-type") == ("application/json" if body else None)
    assert request.headers["authorization"] == "Bearer sk-key"


@each_call
async def test_no_call_is_repeated_and_each_keeps_the_limit(
    sent: str, body: bytes, call: Callable[[BatchCalls, Permit], Awaitable[Answer]]
) -> None:
    script = Replies(Unanswered("cut"))
    api = service_of(script, batch=Limit(1, 10)).endpoint("abc").api
    with pytest.raises(Unanswered):
        await call(BatchCalls(api), await api.limiter.permit(Operation.BATCH))
    assert len(script.requests) == 1
    assert api.limiter.available(Operation.BATCH, 1) == 0, "it may have arrived, and counts"


@pytest.mark.parametrize("bad", ["../purge-queue", "", "a/b", "a?b"])
async def test_an_id_that_is_none_never_enters_a_path(bad: str) -> None:
    script = Replies(httpx.Response(200))
    api = service_of(script).endpoint("abc").api
    calls = BatchCalls(api)
    permit = await api.limiter.permit(Operation.BATCH)
    for call in (calls.get, calls.finalize, calls.cancel):
        with pytest.raises(ValueError, match="is no remote id"):
            await call(permit, bad)
    with pytest.raises(ValueError, match="is no remote id"):
        await calls.remove(permit, "batch_1", bad)
    assert script.requests == []


async def test_whoever_submits_hears_when_the_body_leaves() -> None:
    left: list[str] = []
    script = Replies(httpx.Response(200))
    api = service_of(script).endpoint("abc").api
    calls = BatchCalls(api)
    await calls.create(await api.limiter.permit(Operation.BATCH), leaving=lambda: left.append("create"))
    permit = await api.limiter.permit(Operation.BATCH)
    await calls.append(permit, "batch_1", b"{}", leaving=lambda: left.append("append"))
    assert left == ["create", "append"]
