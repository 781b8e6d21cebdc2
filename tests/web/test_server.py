"""The listener on a real port of this machine, on asyncio's loop and on uvloop."""

import errno
import logging
import os
import re
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus

from orchestrator.core.service.addresses import Address
from orchestrator.core.service.webhook_token import Notice
from orchestrator.errors import StorageError, UsageError
from orchestrator.web.application import listener_application
from orchestrator.web.server import Listener
from orchestrator.web.webhook_routes import DEFAULT_LIMITS, BodyLimits, Webhooks
from tests.web.requests import BODY, KEY, RECORD, Sink, StillClock, Wire, hook, http

pytestmark = pytest.mark.anyio

ANY_PORT = Address("127.0.0.1", 0)
NOTED = Notice(submission=7, received_at=1_000_000, record=RECORD)
HINT = Notice(submission=7, received_at=1_000_000, record=None)


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


@asynccontextmanager
async def serving(
    sink: Sink, *, address: Address = ANY_PORT, grace_s: float = 5, limits: BodyLimits = DEFAULT_LIMITS
) -> AsyncIterator[Listener]:
    webhooks = Webhooks(key=KEY, sink=sink, clock=StillClock(), limits=limits)
    listener = Listener(listener_application(webhooks), address, grace_s=grace_s)
    async with anyio.create_task_group() as group:
        await group.start(listener.serve)
        yield listener
        group.cancel_scope.cancel()


# --- requests --------------------------------------------------------------------------------------------------------


async def test_webhooks_are_taken_over_one_connection() -> None:
    sink = Sink()
    async with serving(sink) as listener, Wire(listener.address) as wire:
        for _ in range(3):
            await wire.send(http("POST", hook(), BODY))
            assert await wire.head() == b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"

    assert sink.notices == [NOTED] * 3


async def test_a_sink_that_cannot_write_is_answered_503_and_the_connection_lives_on() -> None:
    sink = Sink()
    sink.error = StorageError()
    async with serving(sink) as listener, Wire(listener.address) as wire:
        assert await wire.ask(http("POST", hook(), BODY)) == 503
        sink.error = None
        assert await wire.ask(http("POST", hook(), BODY)) == 200


async def test_a_sink_that_breaks_is_answered_500(caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink()
    sink.error = KeyError("hush")
    async with serving(sink) as listener, Wire(listener.address) as wire:
        assert await wire.ask(http("POST", hook(), BODY)) == 500

    assert [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.INFO] == [
        "a request to the listener failed: KeyError"
    ]


@pytest.mark.parametrize("path", [hook(), hook().replace(".", "%2e"), "/%68ooks" + hook()[6:], hook() + "?x=1"])
async def test_a_token_is_known_in_every_spelling_that_means_the_same_path(path: str) -> None:
    sink = Sink()
    async with serving(sink) as listener, Wire(listener.address) as wire:
        assert await wire.ask(http("POST", path, BODY)) == 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        http("POST", hook()[:-1] + "x", BODY),
        http("GET", hook()),
        http("HEAD", hook()),
        http("PUT", hook(), BODY),
        http("POST", "/", BODY),
        http("POST", "/hooks/../" + hook(), BODY),
        http("POST", "/hooks/%2e%2e" + hook(), BODY),
        http("POST", "/" + hook(), BODY),
        http("POST", "/x" + hook(), BODY),
        http("POST", hook() + "/", BODY),
        http("POST", hook().replace("7", "%EF%BC%97", 1), BODY),
        http("POST", hook() + "%00", BODY),
        http("POST", hook() + "%ff", BODY),
        http("GET", "/hooks/", b"", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x"),
    ],
)
async def test_everything_else_gets_one_and_the_same_404_and_the_connection_ends(request_bytes: bytes) -> None:
    sink = Sink()
    async with serving(sink) as listener, Wire(listener.address) as wire:
        await wire.send(request_bytes)
        assert await wire.head() == b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        assert await wire.rest() == b""

    assert sink.notices == []


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"POST * HTTP/1.1\r\n\r\n",
        b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /\xff HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_request_for_a_path_is_no_noise(garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving(Sink()) as listener, Wire(listener.address) as wire:
        assert await wire.ask(garbage) in (400, 404)
        await wire.rest()

    assert caplog.records == []


async def test_a_body_declared_too_large_is_answered_before_it_comes() -> None:
    sink = Sink()
    async with serving(sink, limits=BodyLimits(body_bytes=1_000)) as listener, Wire(listener.address) as wire:
        assert await wire.ask(http("POST", hook(), None, "Content-Length: 1001", "Expect: 100-continue")) == 200
        assert await wire.rest() == b""

    assert sink.notices == [HINT]


async def test_a_chunked_body_that_grows_too_large_is_answered_there() -> None:
    sink = Sink()
    async with serving(sink, limits=BodyLimits(body_bytes=1_000)) as listener, Wire(listener.address) as wire:
        await wire.send(http("POST", hook(), None, "Transfer-Encoding: chunked"))
        assert await wire.ask(b"400\r\n" + b"x" * 1_024 + b"\r\n") == 200
        assert await wire.rest() == b""

    assert sink.notices == [HINT]


async def test_a_chunked_body_within_the_limit_is_read() -> None:
    sink = Sink()
    async with serving(sink) as listener, Wire(listener.address) as wire:
        await wire.send(http("POST", hook(), None, "Transfer-Encoding: chunked"))
        assert await wire.ask(b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)) == 200

    assert sink.notices == [NOTED]


async def test_a_sender_that_hangs_up_within_its_body_leaves_a_hint() -> None:
    sink = Sink()
    async with serving(sink) as listener:
        async with Wire(listener.address) as wire:
            await wire.send(http("POST", hook(), None, "Content-Length: 1000") + b"{")
        await sink.entered.wait()

    assert sink.notices == [HINT]


# --- addresses -------------------------------------------------------------------------------------------------------


async def test_port_0_takes_a_free_one_and_says_which() -> None:
    async with serving(Sink()) as listener, Wire(listener.address) as wire:
        assert listener.address.port != 0
        assert listener.url == f"http://127.0.0.1:{listener.address.port}"
        assert await wire.ask(http("POST", hook(), BODY)) == 200


async def test_ipv6_is_served_and_stands_in_brackets() -> None:
    async with serving(Sink(), address=Address("::1", 0)) as listener, Wire(listener.address) as wire:
        assert listener.url == f"http://[::1]:{listener.address.port}"
        assert await wire.ask(http("POST", hook(), BODY)) == 200


def test_a_port_in_use_is_named_with_what_to_do() -> None:
    listener = Listener(listener_application(), ANY_PORT)
    try:
        with pytest.raises(UsageError) as caught:
            Listener(listener_application(), listener.address)
    finally:
        listener.close()

    assert str(caught.value) == (
        f"cannot listen on {listener.address}: {os.strerror(errno.EADDRINUSE)}; "
        "another program listens there; stop it, or choose another port (0 takes any free one)"
    )


@pytest.mark.parametrize(
    ("host", "problem"),
    [
        ("192.0.2.1", f"{os.strerror(errno.EADDRNOTAVAIL)}; no interface"),
        ("::1%no-interface", "no such host"),
        ("a..b", "no such host"),
    ],
)
def test_an_address_that_is_not_ours_is_named(host: str, problem: str) -> None:
    address = Address(host, 8080)
    with pytest.raises(UsageError, match=re.escape(f"cannot listen on {address}: {problem}")):
        Listener(listener_application(), address)


def test_a_listener_that_is_never_served_gives_its_port_back() -> None:
    listener = Listener(listener_application(), ANY_PORT)
    listener.close()
    listener.close()
    again = Listener(listener_application(), listener.address)
    again.close()


# --- stopping --------------------------------------------------------------------------------------------------------


class Running:
    """A listener in a task of its own, to be stopped by `scope`."""

    def __init__(self, sink: Sink, *, grace_s: float = 5) -> None:
        webhooks = Webhooks(key=KEY, sink=sink, clock=StillClock())
        self.listener = Listener(listener_application(webhooks), ANY_PORT, grace_s=grace_s)
        self.scope = anyio.CancelScope()
        self.stopped = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        with self.scope:
            await self.listener.serve(task_status=task_status)
        self.stopped.set()


async def refused(address: Address) -> None:
    """Waits until nobody listens at `address` any more."""
    while True:
        try:
            async with Wire(address):
                pass
        except OSError:
            return


async def test_a_request_in_flight_is_finished_and_no_other_is_taken() -> None:
    sink = Sink()
    sink.close_gate()
    running = Running(sink)
    async with anyio.create_task_group() as group:
        await group.start(running.run)
        async with Wire(running.listener.address) as wire:
            await wire.send(http("POST", hook(), BODY))
            await sink.entered.wait()
            running.scope.cancel()
            await refused(running.listener.address)
            assert not running.stopped.is_set()
            sink.gate.set()
            assert await wire.head() == b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        await running.stopped.wait()

    assert sink.notices == [NOTED]


async def test_a_request_that_outlasts_the_grace_is_cut_off_without_a_2xx(caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink()
    sink.close_gate()
    running = Running(sink, grace_s=0)
    async with anyio.create_task_group() as group:
        await group.start(running.run)
        async with Wire(running.listener.address) as wire:
            await wire.send(http("POST", hook(), BODY))
            await sink.entered.wait()
            running.scope.cancel()
            await running.stopped.wait()
            assert b"200" not in await wire.rest()

    assert sink.notices == []
    assert caplog.records == []


@pytest.mark.parametrize("sent", [b"", b"POST /ho", http("POST", hook(), None, "Content-Length: 9") + b"{"])
async def test_connections_that_wait_for_their_senders_do_not_outlive_the_listener(sent: bytes) -> None:
    running = Running(Sink(), grace_s=0)
    async with anyio.create_task_group() as group:
        await group.start(running.run)
        async with Wire(running.listener.address) as wire:
            assert await wire.ask(http("POST", hook(), BODY)) == 200
            await wire.send(sent)
            running.scope.cancel()
            await running.stopped.wait()
            assert await wire.rest() == b""


async def test_a_listener_cancelled_while_it_starts_gives_its_port_back() -> None:
    listener = Listener(listener_application(), ANY_PORT)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await listener.serve()

    assert scope.cancelled_caught
    again = Listener(listener_application(), listener.address)
    again.close()


async def test_a_listener_can_be_served_again_at_its_address_which_nobody_can_connect_to_meanwhile() -> None:
    listener = Listener(listener_application(), ANY_PORT)
    listener.close()
    for _ in range(2):
        await refused(listener.address)
        async with anyio.create_task_group() as group:
            await group.start(listener.serve)
            async with Wire(listener.address) as wire:
                assert await wire.ask(http("GET", "/nowhere")) == 404
            group.cancel_scope.cancel()


async def test_one_that_was_closed_says_so_where_another_program_has_its_address_by_now() -> None:
    listener = Listener(listener_application(), ANY_PORT)
    listener.close()
    other = Listener(listener_application(), listener.address)
    with pytest.raises(UsageError, match="another program listens there"):
        await listener.serve()
    other.close()


async def test_signals_and_threads_are_left_alone() -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    threads = threading.enumerate()
    async with serving(Sink()) as listener, Wire(listener.address) as wire:
        assert await wire.ask(http("POST", hook(), BODY)) == 200
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
        assert threading.enumerate() == threads
