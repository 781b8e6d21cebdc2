"""Sent or not, answered or not: against real sockets, since this is where guessing would cost money."""

import gzip
import logging
import os
import ssl
from collections.abc import AsyncIterator

import aiohttp
import anyio
import httpx
import pytest
from anyio.abc import SocketStream
from multidict import CIMultiDict

from orchestrator.client.http.backends import AiohttpCarrier, Request
from orchestrator.client.http.idle_timeout import IdleWatch
from orchestrator.client.http.transfer_slots import TransferSlots
from orchestrator.client.http.transport import Transport, environment_proxy
from orchestrator.clock import SystemClock
from orchestrator.core.service.http_answers import Answer
from orchestrator.errors import NotSent, Unanswered, UsageError
from tests.client.raw_server import Handler, answering, closed_port, read_request, response, serving
from tests.few_files import no_file_left, settled

pytestmark = pytest.mark.anyio

KEY = "sk-very-secret"
BODY_BYTES_MAX = 1_000


@pytest.fixture(scope="module", params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Both loops: each has its own errors for the same broken connection."""
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    transport = Transport(SystemClock(), connect_s=5, request_s=10, body_bytes_max=BODY_BYTES_MAX)
    yield transport
    await transport.aclose()


@pytest.fixture
async def hasty() -> AsyncIterator[Transport]:
    """Waits next to no time for an answer; for a connection it does, or a slow machine would have none."""
    transport = Transport(SystemClock(), request_s=0.05)
    yield transport
    await transport.aclose()


def request_to(address: str, *, method: str = "POST", scheme: str = "http") -> Request:
    body = b'{"input":{}}' if method == "POST" else b""
    headers = CIMultiDict({"Authorization": f"Bearer {KEY}", "Accept-Encoding": "identity"})
    return Request(method, f"{scheme}://{address}/v2/abc/run", headers, body)


async def post(transport: Transport, handler: Handler) -> Answer:
    async with serving(handler) as address:
        return await transport.send(request_to(address))


# --- answered --------------------------------------------------------------------------------------------------------


async def test_an_answer_is_read_to_its_end(transport: Transport) -> None:
    clock = SystemClock()
    before = clock.now()
    answer = await post(transport, answering(response(b'{"id":'[:3]), b""))
    assert (answer.status, answer.body, answer.retry_after_s) == (200, b'{"i', None)
    assert before <= answer.sent_at <= answer.answered_at


async def test_the_request_arrives_as_it_was_built(transport: Transport) -> None:
    seen: list[bytes] = []

    async def handler(stream: SocketStream) -> None:
        seen.append(await read_request(stream))
        await stream.send(response(b""))

    assert (await post(transport, handler)).body == b""
    head, body = seen[0].split(b"\r\n\r\n")
    assert head.startswith(b"POST /v2/abc/run HTTP/1.1\r\n")
    assert f"Authorization: Bearer {KEY}".lower().encode() in head.lower()
    assert head.lower().count(b"content-length:") == head.lower().count(b"host:") == 1
    assert body == b'{"input":{}}'


@pytest.mark.parametrize(
    ("pieces", "status", "body"),
    [
        ([response(b"busy", status="503 Nope")], 503, b"busy"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n", response(b"end")], 200, b"end"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"], 200, b"abc"),
        ([b"HTTP/1.1 200 OK\r\n\r\nuntil the end"], 200, b"until the end"),
        ([response(gzip.compress(b"z" * 900), headers="Content-Encoding: gzip\r\n")], 200, b"z" * 900),
        ([response(b"plain", headers="Content-Encoding: identity\r\n")], 200, b"plain"),
        ([response(b"", status="302 Found", headers="Location: /elsewhere\r\n")], 302, b""),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], 204, b""),
    ],
    ids=["error", "1xx first", "chunked", "until closed", "gzip", "identity", "redirect", "no content"],
)
async def test_every_complete_answer_is_an_answer(
    transport: Transport, pieces: list[bytes], status: int, body: bytes
) -> None:
    answer = await post(transport, answering(*pieces))
    assert (answer.status, answer.body) == (status, body)


async def test_a_connection_is_used_again_and_cookies_are_not_kept(transport: Transport) -> None:
    seen: list[tuple[int, bytes]] = []
    connections = 0

    async def handler(stream: SocketStream) -> None:
        nonlocal connections
        connections += 1
        while True:
            seen.append((connections, await read_request(stream)))
            await stream.send(response(headers="Set-Cookie: a=b\r\n"))

    async with serving(handler) as address:
        await transport.send(request_to(address))
        await transport.send(request_to(address))
    assert [connection for connection, _ in seen] == [1, 1]
    assert b"cookie" not in seen[1][1].lower()


async def test_connections_that_are_not_trusted_any_more_are_not_used_again() -> None:
    connections = 0

    async def handler(stream: SocketStream) -> None:
        nonlocal connections
        connections += 1
        while True:
            await read_request(stream)
            await stream.send(response())

    clock = SystemClock()
    places = TransferSlots(clock)
    carrier = AiohttpCarrier(proxy=None, connect_s=5, body_bytes_max=BODY_BYTES_MAX, up=places, down=places)
    watch = IdleWatch(clock, on_sleep=carrier.distrust)
    async with serving(handler) as address:
        for trusted in (True, True, False):
            if not trusted:
                carrier.distrust()
            idle_timeout = watch.begin(5)
            assert (await carrier.carry(request_to(address), idle_timeout)).status == 200
            watch.end(idle_timeout)
        await carrier.aclose()
    assert connections == 2


async def test_retry_after_is_read_from_refusals(transport: Transport) -> None:
    answer = await post(transport, answering(response(status="429 Slow", headers="Retry-After: 7\r\n")))
    assert answer.retry_after_s == 7


# --- not sent --------------------------------------------------------------------------------------------------------


async def test_a_refused_connection_means_not_sent(transport: Transport) -> None:
    with pytest.raises(NotSent, match=r"no connection to 127.0.0.1:\d+: "):
        await transport.send(request_to(closed_port()))


async def test_a_socket_that_cannot_be_made_means_not_sent(transport: Transport) -> None:
    async with serving(answering(response(headers="Connection: close\r\n"))) as address:
        await transport.send(request_to(address))  # by now everything else is open
        await settled()
        with no_file_left(), pytest.raises(NotSent, match="Too many open files"):
            await transport.send(request_to(address))
        assert (await transport.send(request_to(address))).status == 200


async def test_tls_to_a_plain_port_means_not_sent(transport: Transport) -> None:
    async def handler(stream: SocketStream) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serving(handler) as address:
        with pytest.raises(NotSent):
            await transport.send(request_to(address, scheme="https"))


async def test_a_handshake_that_never_ends_means_not_sent() -> None:
    hasty = Transport(SystemClock(), connect_s=0.02)
    async with serving(lambda _: anyio.sleep_forever()) as address:
        with pytest.raises(NotSent, match=r"nothing within 0.02 s"):
            await hasty.send(request_to(address, scheme="https"))
    await hasty.aclose()


async def test_a_proxy_that_opens_no_tunnel_means_not_sent() -> None:
    async with serving(answering(response(status="403 Forbidden"))) as proxy:
        transport = Transport(SystemClock(), proxy=f"http://{proxy}")
        with pytest.raises(NotSent, match=rf"^no connection to service.invalid through the proxy {proxy}: .* 403$"):
            await transport.send(request_to("service.invalid", scheme="https"))
        await transport.aclose()


async def test_a_proxy_that_is_not_there_is_named_without_its_credentials() -> None:
    proxy = closed_port()
    transport = Transport(SystemClock(), proxy=f"me:pass-word@{proxy}")
    for scheme in ("http", "https"):
        with pytest.raises(NotSent, match=rf"^no connection to the proxy {proxy}: ") as caught:
            await transport.send(request_to("service.invalid", scheme=scheme))
        assert "pass-word" not in str(caught.value)
    await transport.aclose()


async def test_a_proxy_that_wants_authentication_is_an_answer_with_and_without_a_tunnel() -> None:
    async with serving(answering(response(status="407 Proxy Authentication Required"))) as proxy:
        transport = Transport(SystemClock(), proxy=proxy)  # without a scheme it is http://
        for scheme in ("http", "https"):
            assert (await transport.send(request_to("service.invalid", scheme=scheme))).status == 407
        await transport.aclose()


@pytest.mark.parametrize(
    ("proxy", "what"),
    [
        ("socks5://me:pass-word@proxy:1080", "a proxy of the kind socks5://, which cannot be used here"),
        ("SOCKS5H://proxy", "a proxy of the kind socks5h://"),
        ("http://me:pass-word@", "cannot be read"),
        ("http://me:pass-word@proxy:port", "cannot be read"),
        ("http://me:pass-word#1@proxy:3128", "cannot be read"),
        ("me:pass-word/1@proxy:3128", "cannot be read"),
        ("http://", "cannot be read"),
    ],
)
async def test_nothing_is_sent_past_a_proxy_that_cannot_be_used(proxy: str, what: str) -> None:
    async with serving(answering(response())) as address:
        transport = Transport(SystemClock(), proxy=proxy)
        with pytest.raises(UsageError, match=what) as caught:
            await transport.send(request_to(address))
        assert "pass-word" not in str(caught.value)
        assert "HTTPS_PROXY" in str(caught.value)
        await transport.aclose()


async def test_a_plain_request_goes_through_the_proxy() -> None:
    seen: list[bytes] = []

    async def handler(stream: SocketStream) -> None:
        seen.append(await read_request(stream))
        await stream.send(response())

    async with serving(handler) as proxy:
        transport = Transport(SystemClock(), proxy=f"http://me:pass@{proxy}")
        assert (await transport.send(request_to("service.invalid"))).status == 200
        await transport.aclose()
    assert seen[0].startswith(b"POST http://service.invalid/v2/abc/run HTTP/1.1\r\n")
    assert b"proxy-authorization: basic" in seen[0].lower()


# --- unanswered ------------------------------------------------------------------------------------------------------


async def read_and_close(stream: SocketStream) -> None:
    await read_request(stream)


async def close_at_once(stream: SocketStream) -> None:
    pass


@pytest.mark.parametrize(
    "handler",
    [
        read_and_close,
        close_at_once,
        answering(b"HTTP/1.1 200 OK\r\nContent-Le"),
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
        answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
        answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nab"),
        answering(b"what is HTTP?\r\n\r\n"),
        answering(b"\x16\x03\x01\x00\xff" * 50),
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: nine\r\n\r\n"),
        answering(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 100_000 + b"\r\n\r\n"),
        answering(b"HTTP/1.1 100 Continue\r\n\r\n"),
        answering(response(b"no gzip at all", headers="Content-Encoding: gzip\r\n")),
    ],
    ids=[
        "closed after reading",
        "closed before reading",
        "half a head",
        "half a body",
        "half a chunk",
        "bad chunk",
        "garbage",
        "binary garbage",
        "bad length",
        "long header",
        "1xx only",
        "bad gzip",
    ],
)
async def test_whatever_is_no_complete_answer_means_unanswered(transport: Transport, handler: Handler) -> None:
    with pytest.raises(Unanswered):
        await post(transport, handler)


async def test_silence_means_unanswered(hasty: Transport) -> None:
    with pytest.raises(Unanswered, match=r"no complete answer: nothing came for 0.05 s"):
        await post(hasty, lambda _: anyio.sleep_forever())


async def test_silence_in_the_middle_of_the_body_means_unanswered(hasty: Transport) -> None:
    async def handler(stream: SocketStream) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await anyio.sleep_forever()

    with pytest.raises(Unanswered, match="no complete answer"):
        await post(hasty, handler)


@pytest.mark.parametrize("headers", ["", "Content-Encoding: gzip\r\n"], ids=["plain", "gzip"])
async def test_a_body_over_the_limit_means_unanswered_and_says_so(transport: Transport, headers: str) -> None:
    body = b"z" * (BODY_BYTES_MAX + 1)
    body = gzip.compress(body) if headers else body
    with pytest.raises(Unanswered, match="longer than 1000 bytes"):
        await post(transport, answering(response(body, headers=headers)))


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_onto_a_connection_that_was_just_closed_is_not_repeated(
    transport: Transport, method: str
) -> None:
    requests = 0

    async def handler(stream: SocketStream) -> None:
        nonlocal requests
        await read_request(stream)
        requests += 1
        await stream.send(response())
        await read_request(stream)
        requests += 1

    async with serving(handler) as address:
        await transport.send(request_to(address, method=method))
        with pytest.raises(Unanswered):
            await transport.send(request_to(address, method=method))
    assert requests == 2


async def test_a_cancelled_call_closes_its_connection(transport: Transport) -> None:
    arrived, hung_up = anyio.Event(), anyio.Event()

    async def handler(stream: SocketStream) -> None:
        await read_request(stream)
        arrived.set()
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()
        hung_up.set()

    async with serving(handler) as address, anyio.create_task_group() as tasks:
        tasks.start_soon(transport.send, request_to(address))
        await arrived.wait()
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await hung_up.wait()
    assert hung_up.is_set()


# --- other transports ------------------------------------------------------------------------------------------------


def raising(error: Exception, cause: Exception | None = None) -> Transport:
    def handler(request: httpx.Request) -> httpx.Response:
        raise error from cause

    return Transport(SystemClock(), transport=httpx.MockTransport(handler))


KEY_OF_CONNECTION = aiohttp.client_reqrep.ConnectionKey("h", 443, True, True, None, None, None)


@pytest.mark.parametrize(
    ("error", "cause", "expected"),
    [
        (NotSent("as it says"), None, NotSent),
        (Unanswered("as it says"), None, Unanswered),
        (httpx.ConnectError("refused"), None, NotSent),
        (httpx.ConnectTimeout("late"), None, NotSent),
        (httpx.ConnectTimeout("late"), OSError("as httpcore has it"), NotSent),
        (httpx.PoolTimeout("full"), None, NotSent),
        (httpx.UnsupportedProtocol("gopher"), None, NotSent),
        (httpx.ReadTimeout("late"), None, Unanswered),
        (httpx.ReadError("cut"), None, Unanswered),
        (httpx.WriteError("cut"), None, Unanswered),
        (httpx.RemoteProtocolError("garbage"), None, Unanswered),
        (httpx.StreamClosed(), None, Unanswered),
        (OSError(5, "broken"), None, Unanswered),
        (TimeoutError(), None, Unanswered),
        # The trap: aiohttp's "server hung up" under the name of a connect time-out.
        (httpx.ConnectTimeout(""), aiohttp.ServerDisconnectedError(), Unanswered),
        (httpx.ConnectTimeout(""), aiohttp.ClientOSError(104, "reset"), Unanswered),
        (httpx.ReadTimeout(""), aiohttp.SocketTimeoutError(), Unanswered),
        (httpx.TimeoutException(""), aiohttp.ConnectionTimeoutError(), NotSent),
        (
            httpx.ConnectError(""),
            aiohttp.ClientConnectorDNSError(KEY_OF_CONNECTION, OSError(-2, "no such name")),
            NotSent,
        ),
        (
            httpx.ConnectError(""),
            aiohttp.ClientConnectorCertificateError(KEY_OF_CONNECTION, ssl.CertificateError()),
            NotSent,
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)
async def test_the_aiohttp_exception_decides_and_for_other_transports_httpx_s_own(
    error: Exception, cause: Exception | None, expected: type[Exception]
) -> None:
    with pytest.raises(expected):
        await raising(error, cause).send(request_to("service.invalid"))


async def test_our_own_errors_pass_unchanged() -> None:
    error = NotSent("as the simulation says")
    with pytest.raises(NotSent) as caught:
        await raising(error).send(request_to("service.invalid"))
    assert caught.value is error


async def test_programming_errors_are_not_taken_for_the_network_s() -> None:
    with pytest.raises(ZeroDivisionError):
        await raising(ZeroDivisionError()).send(request_to("service.invalid"))


# --- secrets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handler", [read_and_close, answering(b"garbage\r\n\r\n")], ids=["closed", "garbage"])
async def test_neither_errors_nor_logs_hold_the_key_or_the_path(
    transport: Transport, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(Unanswered) as caught:
        await post(transport, handler)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None, "aiohttp's exceptions hold the request's headers"
    everything = "\n".join([str(error), repr(error), repr(vars(error)), caplog.text])
    assert KEY not in everything
    assert "/v2/abc" not in everything


async def test_an_answered_request_leaves_neither_key_nor_path_in_the_log(
    transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await post(transport, answering(response()))
    assert KEY not in caplog.text
    assert "/v2/abc" not in caplog.text


# --- settings --------------------------------------------------------------------------------------------------------


def test_the_environment_names_the_proxy_but_never_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    assert environment_proxy(httpx.URL("https://api.example.com")) is None
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "internal.example.com")
    assert environment_proxy(httpx.URL("https://api.example.com/x")) == "http://proxy:3128"
    assert environment_proxy(httpx.URL("http://api.example.com")) is None
    assert environment_proxy(httpx.URL("https://internal.example.com")) is None
    for local in ("https://127.0.0.1:8080", "https://localhost", "https://emu.localhost:8900/v2"):
        assert environment_proxy(httpx.URL(local)) is None
    assert environment_proxy(httpx.URL("https://127.evil.example")) == "http://proxy:3128"
