"""The limits of one connection, on virtual time: uvicorn's protocol with a transport that only keeps a record."""

import asyncio
import gc
import weakref

import anyio
import anyio.lowlevel
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from orchestrator.client.http.idle_timeout import LATE_S
from orchestrator.web.application import empty_response, send_response
from orchestrator.web.listener_connection import HEAD_BYTES_MAX, HEAD_S_MAX, WHOLE_BODY, Crowd, WebhookConnection
from tests.simulation.loop import running_loop
from tests.web.requests import http

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

KEEP_ALIVE_S = 75


class RecordingTransport(asyncio.Transport):
    """A transport without a network. As in asyncio, the protocol hears of its end in the loop's next turn."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: WebhookConnection | None = None
        self.written = b""
        self.closing = False
        self.closed = anyio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            assert self.protocol is not None
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)
            self.closed.set()

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Server:
    """Connections to an application that answers 200 at once, or reads the body first."""

    def __init__(self, *, reads: bool = True, connections_max: int = 100) -> None:
        self.asked = 0
        self.were_whole: list[bool] = []
        """Of each request, whether all of its body had come when the application was asked."""

        self._reads = reads
        self._config = uvicorn.Config(
            self._app, lifespan="off", ws="none", log_config=None, timeout_keep_alive=KEEP_ALIVE_S, interface="asgi3"
        )
        self._config.load()
        self.state = Crowd(connections_max)

    def connect(self) -> RecordingTransport:
        transport = RecordingTransport()
        transport.protocol = WebhookConnection(config=self._config, server_state=self.state, app_state={})
        transport.protocol.connection_made(transport)
        return transport

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        self.were_whole.append(WHOLE_BODY in scope["state"])
        while self._reads and (await receive()).get("more_body", False):
            pass
        await send_response(send, empty_response(200))


async def feed(transport: RecordingTransport, data: bytes) -> None:
    assert transport.protocol is not None
    transport.protocol.data_received(data)
    await anyio.wait_all_tasks_blocked()
    await anyio.lowlevel.checkpoint()  # a transport that was closed tells its protocol in the next turn


async def seconds_until_closed(transport: RecordingTransport) -> float:
    started_s = anyio.current_time()
    await transport.closed.wait()
    await anyio.lowlevel.checkpoint()
    return anyio.current_time() - started_s


async def test_a_connection_that_sends_nothing_is_closed() -> None:
    server = Server()

    assert await seconds_until_closed(server.connect()) == HEAD_S_MAX
    assert server.state.connections == set()


async def test_a_head_that_trickles_in_is_cut_at_its_time_however_often_it_moves() -> None:
    transport = Server().connect()
    for byte in http("POST", "/", b"", "X: " + "x" * 40)[:9]:
        await feed(transport, bytes([byte]))
        await anyio.sleep(1)

    assert await seconds_until_closed(transport) == HEAD_S_MAX - 9


async def test_a_later_head_has_as_much_time_from_its_first_byte() -> None:
    server = Server()
    transport = server.connect()
    await feed(transport, http("POST", "/", b"body"))
    await anyio.sleep(60)
    await feed(transport, b"POST / HT")

    assert await seconds_until_closed(transport) == HEAD_S_MAX
    assert server.asked == 1


async def test_a_connection_between_two_requests_lives_as_long_as_keep_alive_says() -> None:
    server = Server()
    transport = server.connect()
    for _ in range(3):
        await feed(transport, http("POST", "/", b"body"))
        await anyio.sleep(KEEP_ALIVE_S - 1)
    assert not transport.closing

    assert await seconds_until_closed(transport) == 1
    assert server.asked == 3


async def test_a_head_that_takes_its_time_but_comes_is_served() -> None:
    server = Server()
    transport = server.connect()
    request = http("POST", "/", b"body")
    await feed(transport, request[:10])
    await anyio.sleep(HEAD_S_MAX - 1)
    await feed(transport, request[10:])
    await anyio.sleep(HEAD_S_MAX)

    assert transport.written.startswith(b"HTTP/1.1 200 OK")
    assert not transport.closing


async def test_a_slow_body_is_no_slow_head() -> None:
    server = Server()
    transport = server.connect()
    request = http("POST", "/", b"body")
    await feed(transport, request[:-1])
    await anyio.sleep(3 * HEAD_S_MAX)
    await feed(transport, request[-1:])

    assert transport.written.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("start", [b"POST /", b"POST / HTTP/1.1\r\nX: "])
async def test_an_endless_head_is_cut_at_its_size(start: bytes) -> None:
    server = Server()
    transport = server.connect()
    await feed(transport, start)
    fed = 0
    while not transport.closing:
        await feed(transport, b"x" * 1_000)
        fed += 1_000

    assert HEAD_BYTES_MAX - 1_000 < fed < HEAD_BYTES_MAX + 1_000
    assert server.asked == 0


@pytest.mark.parametrize("header", ["X: " + "x" * HEAD_BYTES_MAX, "\r\n".join(["X: x"] * HEAD_BYTES_MAX)])
async def test_an_overlong_head_that_comes_in_one_piece_is_refused(header: str) -> None:
    server = Server()
    transport = server.connect()
    await feed(transport, http("POST", "/", b"body", header))

    assert transport.written.startswith(b"HTTP/1.1 400 ")
    assert transport.closing
    assert server.asked == 0


async def test_a_large_body_that_comes_with_its_head_is_no_large_head() -> None:
    server = Server()
    transport = server.connect()
    for _ in range(3):
        await feed(transport, http("POST", "/", b"x" * (2 * HEAD_BYTES_MAX)))

    assert server.asked == 3
    assert not transport.closing


async def test_many_requests_in_one_piece_are_no_large_head() -> None:
    server = Server()
    transport = server.connect()
    await feed(transport, http("POST", "/", b"x" * 100) * 2_000)

    assert server.asked == 2_000
    assert not transport.closing


# --- too many connections --------------------------------------------------------------------------------------------


async def closing(transports: list[RecordingTransport]) -> list[bool]:
    await anyio.lowlevel.checkpoint()
    return [transport.closing for transport in transports]


async def test_of_too_many_connections_those_that_have_said_nothing_for_longest_are_closed() -> None:
    server = Server(connections_max=3)
    transports = [server.connect() for _ in range(3)]
    await feed(transports[0], b"POST /slow HTTP/1.1\r\nX:")
    transports += [server.connect(), server.connect()]

    assert await closing(transports) == [True, True, False, False, False]
    assert len(server.state.connections) == 3
    assert server.state.closed_for_room == 2


async def test_a_connection_between_two_webhooks_is_closed_only_when_no_stranger_waits() -> None:
    server = Server(connections_max=2)
    known = server.connect()
    await feed(known, http("POST", "/", b"body"))
    strangers = [server.connect() for _ in range(3)]
    assert await closing([known, *strangers]) == [False, True, True, False]

    await feed(strangers[-1], http("POST", "/", b"body"))
    newcomer = server.connect()
    assert await closing([known, strangers[-1], newcomer]) == [True, False, False]


async def test_where_all_are_at_work_the_newcomer_is_closed() -> None:
    server = Server(connections_max=2)
    at_work = [server.connect() for _ in range(2)]
    for transport in at_work:
        await feed(transport, http("POST", "/", b"body")[:-1])
    newcomer = server.connect()

    assert await closing([*at_work, newcomer]) == [False, False, True]
    for transport in at_work:
        await feed(transport, b"y")
    assert server.asked == 2


async def test_what_still_comes_on_a_connection_that_was_closed_is_not_read() -> None:
    server = Server(connections_max=1)
    closed = server.connect()
    server.connect()
    await feed(closed, http("POST", "/", b"body"))

    assert closed.closing
    assert server.asked == 0


# --- asleep ----------------------------------------------------------------------------------------------------------


async def after_sleep(transport: RecordingTransport, data: bytes) -> None:
    """The process stands still; `data`, which came meanwhile, is read a round after the timers went off."""
    assert transport.protocol is not None
    loop = running_loop()
    loop.stand_still(1_000)
    loop.call_soon(loop.call_soon, transport.protocol.data_received, data)
    await anyio.wait_all_tasks_blocked()
    await anyio.sleep(0.1)


async def test_a_head_that_came_while_the_process_was_stopped_is_read() -> None:
    server = Server()
    transport = server.connect()
    request = http("POST", "/", b"body")
    await feed(transport, request[:10])
    await after_sleep(transport, request[10:])

    assert transport.written.startswith(b"HTTP/1.1 200 OK")
    assert not transport.closing


async def test_a_webhook_that_came_on_an_idle_connection_while_the_process_was_stopped_is_read() -> None:
    server = Server()
    transport = server.connect()
    await feed(transport, http("POST", "/", b"body"))
    await after_sleep(transport, http("POST", "/", b"body"))

    assert server.asked == 2
    assert not transport.closing


async def test_after_a_sleep_silence_is_cut_soon() -> None:
    server = Server()
    silent, idle = server.connect(), server.connect()
    await feed(idle, http("POST", "/", b"body"))
    running_loop().stand_still(1_000)

    assert await seconds_until_closed(silent) <= 2 * LATE_S
    assert await seconds_until_closed(idle) <= 2 * LATE_S


async def test_it_is_told_of_each_request_whether_its_body_has_come() -> None:
    server = Server()
    transport = server.connect()
    request = http("POST", "/", b"0123456789")
    await feed(transport, request)
    await feed(transport, request[:-4])
    await feed(transport, request[-4:])
    await feed(transport, 2 * request)

    assert server.were_whole == [True, False, True, True]


@pytest.mark.parametrize("reads", [True, False])
async def test_nothing_of_a_request_is_left_for_the_collector_of_cycles(reads: bool) -> None:
    transport = Server(reads=reads).connect()
    assert transport.protocol is not None
    gc.disable()
    try:
        await feed(transport, http("POST", "/", b"0123456789"))
        earlier = weakref.ref(transport.protocol.cycle)
        await feed(transport, http("POST", "/", b"0123456789"))
        assert earlier() is None
    finally:
        gc.enable()
