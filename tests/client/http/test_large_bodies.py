"""Large bodies, up and down, over lines that are narrow or cut: nothing is given up while it moves."""

import socket
from collections.abc import AsyncIterator
from contextlib import suppress

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec
import pytest
from anyio.abc import SocketStream
from multidict import CIMultiDict

from orchestrator.client.http.backends import Request
from orchestrator.client.http.bodies import PIECE_BYTES
from orchestrator.client.http.transfer_slots import LARGE_BYTES
from orchestrator.client.http.transport import Transport
from orchestrator.clock import SystemClock
from orchestrator.core.limits.transfer_slots import AT_ONCE
from orchestrator.core.service.http_answers import Answer
from orchestrator.errors import CutShort, NotSent, Unanswered
from tests.client.raw_server import Handler, closed_port, read_request, response, serving
from tests.narrow.relay import narrow

pytestmark = pytest.mark.anyio

KIB = 1024
BODIES = 32
BODY = b"x" * (256 * KIB)
BYTES_PER_S = 4 * KIB * KIB
PATIENCE_S = 1.0
"""Half of what the line needs for all bodies: if each had to be over within it, hardly any would."""


@pytest.fixture(scope="module", params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Both loops: each has its own transports."""
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    transport = Transport(SystemClock(), request_s=PATIENCE_S)
    yield transport
    await transport.aclose()


@pytest.fixture
async def hasty() -> AsyncIterator[Transport]:
    transport = Transport(SystemClock(), request_s=0.1)
    yield transport
    await transport.aclose()


def get(address: str) -> Request:
    return Request("GET", f"http://{address}/v2/abc/status/r-1", CIMultiDict())


def post(address: str, body: bytes = BODY) -> Request:
    return Request("POST", f"http://{address}/v2/abc/run", CIMultiDict(), body)


def served(body: bytes, *, pieces: int = 1) -> Handler:
    """Answers every request of a connection with `body`."""

    async def handler(stream: SocketStream) -> None:
        while True:
            await read_request(stream)
            whole = response(body)
            for at in range(0, len(whole), -(-len(whole) // pieces)):
                await stream.send(whole[at : at + -(-len(whole) // pieces)])

    return handler


async def send_all(transport: Transport, request: Request) -> list[Answer]:
    answers: list[Answer] = []

    async def one() -> None:
        answers.append(await transport.send(request))

    async with anyio.create_task_group() as tasks:
        for _ in range(BODIES):
            tasks.start_soon(one)
    return answers


def bytes_of_next(server: socket.socket) -> int:
    """How much came on the next connection before it ended."""
    arrived = 0
    with server.accept()[0] as connection, suppress(ConnectionResetError):
        while data := connection.recv(64 * KIB):
            arrived += len(data)
    return arrived


@pytest.mark.slow
async def test_large_answers_over_a_narrow_line_are_all_read_and_each_once(transport: Transport) -> None:
    async with serving(served(BODY)) as server, narrow(server, BYTES_PER_S) as line:
        answers = await send_all(transport, get(line.address))
    assert [answer.body == BODY for answer in answers] == [True] * BODIES
    assert line.down.carried < 1.1 * BODIES * len(BODY)


@pytest.mark.slow
async def test_large_requests_over_a_narrow_line_are_all_answered_and_leave_once(transport: Transport) -> None:
    async with serving(served(b"{}")) as server, narrow(server, BYTES_PER_S) as line:
        answers = await send_all(transport, post(line.address))
    assert [answer.status for answer in answers] == [200] * BODIES
    assert line.up.carried < 1.1 * BODIES * len(BODY)


async def test_small_answers_do_not_wait_for_large_ones() -> None:
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + BODY

    async def endless(stream: SocketStream) -> None:
        await read_request(stream)
        await stream.send(begun)
        await anyio.sleep_forever()

    transport = Transport(SystemClock())
    async with (
        serving(endless) as large,
        serving(served(b"y" * LARGE_BYTES, pieces=3)) as small,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(AT_ONCE + 3):
            tasks.start_soon(transport.send, get(large))
        while transport.down.waiting < 3:
            await anyio.lowlevel.checkpoint()
        assert len((await transport.send(get(small))).body) == LARGE_BYTES
        tasks.cancel_scope.cancel()
    assert (transport.down.line.bodies, transport.down.waiting) == (0, 0), "the cancelled have left their places"
    await transport.aclose()


@pytest.mark.parametrize("read", [0, 100 * KIB], ids=["nothing", "a part"])
async def test_a_request_cut_before_all_of_it_had_left_counts_as_not_sent(transport: Transport, read: int) -> None:
    async def handler(stream: SocketStream) -> None:
        left = read
        while left > 0:
            left -= len(await stream.receive(left))

    async with serving(handler) as address:
        with pytest.raises(CutShort, match="before the whole request had left"):
            await transport.send(post(address, b"x" * (16 * KIB * KIB)))


@pytest.mark.parametrize("size", [2 * PIECE_BYTES, 16 * KIB * KIB], ids=["all handed to the transport", "a part"])
async def test_a_request_that_stands_still_counts_as_not_sent_and_the_rest_of_it_never_arrives(
    hasty: Transport, size: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)  # so that the system takes one piece at most
        with pytest.raises(NotSent, match="before the whole request had left"):
            await hasty.send(post(f"127.0.0.1:{server.getsockname()[1]}", b"x" * size))
        assert 0 < await anyio.to_thread.run_sync(bytes_of_next, server) < size
    assert hasty.up.line.bodies == 0


async def test_a_request_that_had_left_and_is_not_answered_is_unanswered(hasty: Transport) -> None:
    async def handler(stream: SocketStream) -> None:
        await read_request(stream)
        await anyio.sleep_forever()

    async with serving(handler) as address:
        with pytest.raises(Unanswered):
            await hasty.send(post(address))


async def test_an_answer_before_the_end_of_the_request_is_an_answer(transport: Transport) -> None:
    async def handler(stream: SocketStream) -> None:
        await stream.receive(1)
        await stream.send(response(status="413 Too Large", headers="Connection: close\r\n"))
        await anyio.sleep_forever()

    async with serving(handler) as address:
        assert (await transport.send(post(address, b"x" * (16 * KIB * KIB)))).status == 413


@pytest.mark.slow
async def test_one_request_may_take_longer_than_our_patience_as_long_as_it_leaves(transport: Transport) -> None:
    body = b"x" * int(BYTES_PER_S * PATIENCE_S * 1.25)
    async with serving(served(b"{}")) as server, narrow(server, BYTES_PER_S) as line:
        assert (await transport.send(post(line.address, body))).status == 200


@pytest.mark.parametrize("size", [2, 80 * len(BODY)], ids=["small", "large"])
async def test_a_request_leaves_with_its_last_bytes(transport: Transport, size: int) -> None:
    left: list[str] = []

    async def cut(stream: SocketStream) -> None:
        await stream.receive(1)

    with pytest.raises(NotSent):
        await transport.send(leaving_to(closed_port(), size, left))
    assert left == [], "there was no connection"
    async with serving(cut) as address:
        with pytest.raises(NotSent if size > LARGE_BYTES else Unanswered):
            await transport.send(leaving_to(address, size, left))
    assert left == ([] if size > LARGE_BYTES else [address]), "a short body leaves at once, a long one never does"
    async with serving(served(b"{}")) as address:  # which must have read it all within our idle_timeout
        await transport.send(leaving_to(address, min(size, 4 * LARGE_BYTES), left))
    assert left[-1] == address


def leaving_to(address: str, size: int, left: list[str]) -> Request:
    return msgspec.structs.replace(post(address, b"x" * size), leaving=lambda: left.append(address))
