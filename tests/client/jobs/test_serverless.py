"""The job operations of one endpoint: what is sent, and what becomes of the turns."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import httpx
import pytest

from orchestrator.client import Deliverer, Permit, ServerlessEndpoint, Service
from orchestrator.client.jobs.serverless import endpoint_url, request_headers, service_url
from orchestrator.clock import SystemClock
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.service.http_answers import Answer
from orchestrator.errors import CutShort, NotSent, Unanswered, UsageError
from tests.client.raw_server import answering, read_request, response, serving
from tests.client.replies import Replies

pytestmark = pytest.mark.anyio

KEY = "sk-very-secret"
PLENTY = dict.fromkeys(Operation, Limit(1_000_000, 10, 3))


def service_of(script: Replies, url: str = "https://api.example.com") -> Service:
    return Service(url, KEY, SystemClock(), limits=PLENTY, transport=httpx.MockTransport(script))


def ok(status: int = 200, **headers: str) -> httpx.Response:
    return httpx.Response(status, content=b'{"id":"a"}', headers={k.replace("_", "-"): v for k, v in headers.items()})


CALLS: dict[Operation, tuple[str, str, Callable[[ServerlessEndpoint, Permit], Awaitable[Answer]]]] = {
    Operation.RUN: ("POST", "/v2/abc/run", lambda api, permit: api.run(permit, b'{"input":{}}')),
    Operation.STATUS: ("GET", "/v2/abc/status/job-1", lambda api, permit: api.status(permit, "job-1")),
    Operation.RETRY: ("POST", "/v2/abc/retry/job-1", lambda api, permit: api.retry(permit, "job-1")),
    Operation.CANCEL: ("POST", "/v2/abc/cancel/job-1", lambda api, permit: api.cancel(permit, "job-1")),
    Operation.HEALTH: ("GET", "/v2/abc/health", lambda api, permit: api.health(permit)),
}
OPERATIONS = pytest.mark.parametrize("operation", list(CALLS))


@OPERATIONS
async def test_each_operation_sends_its_request(operation: Operation) -> None:
    script = Replies(ok())
    api: ServerlessEndpoint = service_of(script).endpoint("abc").api
    method, path, call = CALLS[operation]
    answer = await call(api, await api.limiter.permit(operation))
    assert (answer.status, answer.body) == (200, b'{"id":"a"}')
    (request,) = script.requests
    assert (request.method, str(request.url)) == (method, f"https://api.example.com{path}")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["host"] == "api.example.com"
    assert request.headers["accept-encoding"] == "identity"
    is_run = operation is Operation.RUN
    assert request.content == (b'{"input":{}}' if is_run else b"")
    assert request.headers.get("content-type") == ("application/json" if is_run else None)
    assert request.headers.get("content-length") == {"POST": str(len(request.content)), "GET": None}[method]


async def test_a_request_that_left_in_part_may_have_been_counted() -> None:
    api = service_of(Replies(CutShort())).endpoint("abc").api
    with pytest.raises(NotSent):
        await api.run(await api.limiter.permit(Operation.RUN), b"{}")
    figures = api.limiter.figures(Operation.RUN)
    assert (figures.in_flight, figures.used, api.limiter.available(Operation.RUN, 9_999)) == (0, 1, 2)


@OPERATIONS
async def test_what_becomes_of_a_request_is_told_to_the_throttle(operation: Operation) -> None:
    script = Replies(ok(), NotSent(), Unanswered(), ok(429, retry_after="100"))
    api = service_of(script).endpoint("abc").api
    _, _, call = CALLS[operation]

    async def used() -> int:
        with contextlib.suppress(NotSent, Unanswered):
            await call(api, await api.limiter.permit(operation))
        assert api.limiter.figures(operation).in_flight == 0
        return api.limiter.figures(operation).used

    assert await used() == 1
    assert await used() == 1, "what never left is not counted"
    assert api.limiter.available(operation, 10_000) == 3
    assert await used() == 2
    assert api.limiter.available(operation, 10_000) == 2, "what was given up on keeps its place"
    assert await used() == 3
    assert api.limiter.figures(operation).throttled == 1
    assert api.limiter.available(operation, 10_000) == 0


async def test_a_cancelled_request_keeps_its_place() -> None:
    sent = anyio.Event()

    async def handler(request: httpx.Request) -> httpx.Response:
        sent.set()
        await anyio.sleep_forever()
        raise AssertionError

    service = Service("http://h", KEY, SystemClock(), limits=PLENTY, transport=httpx.MockTransport(handler))
    api = service.endpoint("abc").api
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(api.run, await api.limiter.permit(Operation.RUN), b"{}")
        await sent.wait()
        tasks.cancel_scope.cancel()
    assert (api.limiter.figures(Operation.RUN).in_flight, api.limiter.available(Operation.RUN, 0)) == (0, 2)


async def test_a_used_turn_is_refused_before_anything_is_sent() -> None:
    script = Replies(ok())
    api = service_of(script).endpoint("abc").api
    permit = await api.limiter.permit(Operation.RUN)
    await api.run(permit, b"{}")
    with pytest.raises(RuntimeError, match="used up"):
        await api.run(permit, b"{}")
    assert len(script.requests) == 1


async def test_an_id_that_is_none_never_enters_a_path() -> None:
    script = Replies(ok())
    api = service_of(script).endpoint("abc").api
    permit = await api.limiter.permit(Operation.CANCEL)
    with pytest.raises(ValueError, match="is no remote id"):
        await api.cancel(permit, "../purge-queue")
    with pytest.raises(ValueError, match="is no path below /openai"):
        await api.openai(permit, "/../purge-queue", b"{}", within_s=1)
    assert script.requests == []
    permit.give_back()
    assert api.limiter.figures(Operation.CANCEL).in_flight == 0


async def test_limits_can_be_asked_for_changed_and_seeded() -> None:
    clock = SystemClock()
    api = Service("http://h", KEY, clock).endpoint("abc").api
    assert api.limiter.limit(Operation.RUN) == CONTRACT_LIMITS[Operation.RUN]
    api.limiter.change(Operation.RUN, Limit(5, 10))
    api.limiter.hold(Operation.RUN, [clock.now()] * 2)
    assert (api.limiter.figures(Operation.RUN).used, api.limiter.figures(Operation.RUN).allowance) == (2, 5)


# --- the service -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "run_url"),
    [
        ("https://api.example.com", "https://api.example.com/v2/abc/run"),
        (" https://api.example.com/ ", "https://api.example.com/v2/abc/run"),
        ("http://127.0.0.1:8000/proxied/", "http://127.0.0.1:8000/proxied/v2/abc/run"),
        ("http://[::1]:8000", "http://[::1]:8000/v2/abc/run"),
        ("https://api.example.com/?", "https://api.example.com/v2/abc/run"),
        ("HTTPS://API.example.com:443/a#", "https://api.example.com/a/v2/abc/run"),
        ("https://b\u00fccher.example", "https://xn--bcher-kva.example/v2/abc/run"),
    ],
)
async def test_the_service_url_may_end_with_a_slash_and_have_a_path(url: str, run_url: str) -> None:
    script = Replies(ok())
    api = service_of(script, url).endpoint("abc").api
    await api.run(await api.limiter.permit(Operation.RUN), b"{}")
    assert str(script.requests[0].url) == run_url


@pytest.mark.parametrize(
    "url",
    ["", "api.example.com", "ftp://api", "https://", "https://a:b@c", "https://a?b", "https://a#b", "http://a:b:c"],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="the service URL"):
        service_url(url)


@pytest.mark.parametrize("endpoint_id", ["", "a/b", "a b", "..", "ä", "x" * 129])
def test_an_endpoint_id_that_cannot_be_meant_is_refused(endpoint_id: str) -> None:
    with pytest.raises(UsageError, match="is no endpoint id"):
        endpoint_url("https://api.example.com", endpoint_id)


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "schlüssel", "x" * 5_000])
def test_a_key_that_fits_in_no_header_is_refused_and_not_quoted(key: str) -> None:
    with pytest.raises(UsageError, match="the API key") as caught:
        request_headers(key)
    assert not key or key not in str(caught.value)


def test_a_proxy_that_cannot_be_used_is_told_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where it is needed: the emulator on this machine works whatever the environment names."""
    monkeypatch.setenv("HTTPS_PROXY", "socks5://me:pass-word@proxy:1080")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(UsageError, match="a proxy of the kind socks5://"):
        Service("https://api.example", "key").endpoint("abc")
    Service("http://127.0.0.1:8900", "key").endpoint("abc")


async def test_an_endpoint_is_always_the_same_object_so_that_its_limits_hold_for_all() -> None:
    service = service_of(Replies(ok()))
    assert service.endpoint("abc") is service.endpoint("abc")
    assert service.endpoint("abc") is not service.endpoint("abd")


async def test_nothing_that_is_shown_holds_the_key() -> None:
    service = service_of(Replies(ok()))
    assert KEY not in f"{service!r} {service.endpoint('abc')!r}"
    assert repr(service.endpoint("abc").api) == "ServerlessEndpoint('https://api.example.com/v2/abc')"


async def test_a_service_speaks_to_real_sockets_by_default() -> None:
    async with serving(answering(response(b'{"id":"j"}'))) as address:
        service = Service(f"http://{address}", KEY, SystemClock())
        api: ServerlessEndpoint = service.endpoint("abc").api
        answer = await api.run(await api.limiter.permit(Operation.RUN), b"{}")
        await service.aclose()
    assert answer.body == b'{"id":"j"}'


# --- webhooks --------------------------------------------------------------------------------------------------------


@pytest.fixture
async def deliverer() -> AsyncIterator[Deliverer]:
    deliverer = Deliverer(SystemClock(), timeout_s=5)
    yield deliverer
    await deliverer.aclose()


async def test_a_webhook_is_posted_as_it_is(deliverer: Deliverer) -> None:
    seen: list[bytes] = []

    async def handler(stream: anyio.abc.SocketStream) -> None:
        seen.append(await read_request(stream))
        await stream.send(response(status="202 Accepted"))

    async with serving(handler) as address:
        assert await deliverer.deliver(f"http://{address}/hooks/x?y=1", b'{"a":1}', {"X-One": "1"}) == 202
    assert seen[0].startswith(b"POST /hooks/x?y=1 HTTP/1.1\r\n")
    assert b"x-one: 1\r\n" in seen[0].lower()
    assert seen[0].endswith(b'\r\n\r\n{"a":1}')


async def test_a_webhook_nobody_takes_raises_what_happened(deliverer: Deliverer) -> None:
    async with serving(answering()) as address:
        with pytest.raises(Unanswered):
            await deliverer.deliver(f"http://{address}/", b"", {})
    for url in ("http://h:port/", "http://[broken", "gopher://somewhere/"):
        with pytest.raises(NotSent):
            await deliverer.deliver(url, b"", {})


@pytest.mark.parametrize("status", [400, 500])
async def test_an_answer_that_repeats_the_key_comes_back_without_it(status: int) -> None:
    reply = httpx.Response(status, content=f'{{"error":"headers were Authorization: Bearer {KEY}"}}'.encode())
    api = service_of(Replies(reply)).endpoint("abc").api

    answer = await api.run(await api.limiter.permit(Operation.RUN), b"{}")

    assert answer.body == b'{"error":"headers were Authorization: Bearer [hidden]"}'
