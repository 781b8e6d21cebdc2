"""Webhooks over real sockets: the request that leaves, and every kind of answer."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import httpx
import pytest
from anyio.abc import SocketAttribute, SocketStream

from orchestrator import emulator
from orchestrator.emulator import ServedEmulator
from orchestrator.emulator.http.webhook_post import HEAD_BYTES_MAX, post
from orchestrator.emulator.pytest_fixture import emulated_service
from tests.emulator.emulators import double

__all__ = ["emulated_service"]

pytestmark = pytest.mark.anyio

PATIENCE_S = 30


class Listener:
    """Answers each request with the same bytes and keeps what came."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.received = b""
        self.url = ""
        self.is_complete = anyio.Event()

    async def handle(self, stream: SocketStream) -> None:
        async with stream:
            while not self.received.endswith(b"}"):
                self.received += await stream.receive()
            await stream.send(self.answer)
            self.is_complete.set()


@asynccontextmanager
async def listening(
    answer: bytes = b"HTTP/1.1 204 No Content\r\n\r\n", host: str = "127.0.0.1"
) -> AsyncIterator[Listener]:
    async with await anyio.create_tcp_listener(local_host=host) as sockets, anyio.create_task_group() as tasks:
        listener = Listener(answer)
        port = sockets.extra(SocketAttribute.local_port)
        listener.url = f"http://{f'[{host}]' if ':' in host else host}:{port}/hook"
        tasks.start_soon(sockets.serve, listener.handle)
        yield listener
        tasks.cancel_scope.cancel()


async def test_a_webhook_is_posted_whole_and_its_answer_is_a_status() -> None:
    async with listening() as listener:
        assert await post(f"{listener.url}/a b?x=é\n", b"{}", {"user-agent": "Go"}) == 204
    head, _, body = listener.received.partition(b"\r\n\r\n")
    assert head.splitlines()[0] == b"POST /hook/a%20b?x=%C3%A9 HTTP/1.1"
    assert {b"Content-Length: 2", b"Connection: close", b"user-agent: Go"} <= set(head.splitlines())
    assert body == b"{}"


async def test_the_address_may_be_one_of_ipv6() -> None:
    async with listening(host="::1") as listener:
        assert await post(listener.url, b"{}", {}) == 204
    assert b"Host: [::1]:" in listener.received


async def test_an_interim_answer_is_not_the_answer() -> None:
    async with listening(b"HTTP/1.1 103 Early Hints\r\na: b\r\n\r\nHTTP/1.1 500 No\r\n\r\n") as listener:
        assert await post(listener.url, b"{}", {}) == 500


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-OpenSSH_9\r\n\r\n", b"HTTP/1.1 yes\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a" * HEAD_BYTES_MAX]
)
async def test_what_is_no_answer_is_an_error(answer: bytes) -> None:
    async with listening(answer) as listener:
        with pytest.raises(ValueError, match="the answer"):
            await post(listener.url, b"{}", {})


async def test_a_connection_that_is_closed_without_an_answer_is_an_error() -> None:
    async with listening(b"HTTP/1.1 200") as listener:
        with pytest.raises(anyio.EndOfStream):
            await post(listener.url, b"{}", {})


async def test_https_is_spoken_where_the_url_says_so() -> None:
    async with listening() as listener:
        listener.received = b"}"  # answer whatever comes, which no TLS is
        with pytest.raises(ssl.SSLError):
            await post(listener.url.replace("http:", "https:"), b"{}", {})


@pytest.mark.parametrize("url", ["ftp://host/x", "http:///x", "no url"])
async def test_a_url_that_cannot_be_used_is_an_error(url: str) -> None:
    with pytest.raises(ValueError, match="http"):
        await post(url, b"{}", {})


async def test_a_served_emulator_delivers_its_webhooks() -> None:
    async with listening() as listener, emulator.serve(double) as service, httpx.AsyncClient() as http:
        job = {"input": {"n": 2}, "webhook": listener.url}
        await http.post(f"{service.origin}/v2/any/run", json=job, headers={"authorization": "k"})
        with anyio.fail_after(PATIENCE_S):
            await listener.is_complete.wait()
    assert b'"output":{"double": 4}' in listener.received


async def test_a_served_emulator_without_a_way_to_deliver_drops_them() -> None:
    async with emulator.serve(double, deliver=None) as service, httpx.AsyncClient() as http:
        job = {"input": {"n": 2}, "webhook": "http://127.0.0.1:9/hook"}
        answer = await http.post(f"{service.origin}/v2/any/runsync", json=job, headers={"authorization": "k"})
        assert answer.json()["status"] == "COMPLETED"
        with anyio.fail_after(PATIENCE_S):
            while not service.emulator.webhooks.dropped:
                await anyio.lowlevel.checkpoint()
    assert service.emulator.webhooks.attempts == 0


async def test_the_fixture_delivers_too(emulated_service: Callable[..., ServedEmulator]) -> None:
    async with listening() as listener, httpx.AsyncClient() as http:
        service = emulated_service(double)
        job = {"input": {"n": 3}, "webhook": listener.url}
        await http.post(f"{service.origin}/v2/any/run", json=job, headers={"authorization": "k"})
        with anyio.fail_after(PATIENCE_S):
            await listener.is_complete.wait()
    assert b'"output":{"double": 6}' in listener.received
