"""Where a process may lose its place to another one: nothing leaves once it has, asked at the last moment."""

import socket
from collections.abc import Callable

import anyio
import httpx
import pytest
from anyio.abc import SocketStream
from multidict import CIMultiDict

from orchestrator.client import Service
from orchestrator.client.http.backends import Request, impatient_socket
from orchestrator.client.http.bodies import PIECE_BYTES
from orchestrator.client.http.transfer_slots import LARGE_BYTES
from orchestrator.client.http.transport import Transport
from orchestrator.clock import SystemClock
from orchestrator.core.ownership.lease import LATE_US_MAX
from orchestrator.errors import CutShort, NotSent
from tests.client.raw_server import read_request, response, serving

pytestmark = pytest.mark.anyio

LARGE = b"x" * (LARGE_BYTES + 4 * PIECE_BYTES)


@pytest.fixture(scope="module", params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Both loops: each has its own transports."""
    return "asyncio", {"use_uvloop": request.param}


class Seen:
    """What came to a server that answers everything."""

    def __init__(self) -> None:
        self.requests = 0

    async def handle(self, stream: SocketStream) -> None:
        while True:
            await read_request(stream)
            self.requests += 1
            await stream.send(response(b"{}"))


def transport_asking(may_leave: Callable[[], bool]) -> Transport:
    transport = Transport(SystemClock())
    transport.ask_first(may_leave)
    return transport


def get(address: str) -> Request:
    return Request("GET", f"http://{address}/v2/abc/status/r-1", CIMultiDict())


def post(address: str, body: bytes = b"{}", leaving: Callable[[], None] | None = None) -> Request:
    return Request("POST", f"http://{address}/v2/abc/run", CIMultiDict(), body, leaving)


@pytest.mark.parametrize("request_to", [get, post], ids=["without a body", "with one"])
async def test_what_may_leave_leaves_and_what_may_not_does_not_on_a_new_connection_and_on_a_used_one(
    request_to: Callable[[str], Request],
) -> None:
    is_ours = False
    seen = Seen()
    async with serving(seen.handle) as server:
        transport = transport_asking(lambda: is_ours)
        with pytest.raises(NotSent) as new:
            await transport.send(request_to(server))
        is_ours = True
        assert (await transport.send(request_to(server))).status == 200
        is_ours = False
        with pytest.raises(NotSent) as used:
            await transport.send(request_to(server))
        await transport.aclose()
    assert [type(each.value) for each in (new, used)] == [NotSent, NotSent]
    assert seen.requests == 1


async def test_it_is_asked_once_there_is_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)

        def may_leave() -> bool:
            server.accept()[0].close()  # raises where nobody has connected yet
            return False

        transport = transport_asking(may_leave)
        for request_to in (get, post):
            with pytest.raises(NotSent):
                await transport.send(request_to(f"127.0.0.1:{server.getsockname()[1]}"))
        await transport.aclose()


async def test_what_may_not_leave_is_not_marked_as_if_it_had() -> None:
    marks: list[str] = []
    async with serving(Seen().handle) as server:
        transport = transport_asking(lambda: False)
        for body in (b"{}", LARGE):
            with pytest.raises(NotSent):
                await transport.send(post(server, body, lambda: marks.append("left")))
        await transport.aclose()
    assert marks == []


@pytest.mark.parametrize("body", [b"{}", LARGE], ids=["small", "large"])
async def test_who_was_stopped_since_it_was_marked_does_not_send(body: bytes) -> None:
    is_ours, marks = True, list[str]()
    seen = Seen()

    def leaving() -> None:
        nonlocal is_ours
        marks.append("left")
        is_ours = False  # stopped here for long enough, and another one has read the marks since

    async with serving(seen.handle) as server:
        transport = transport_asking(lambda: is_ours)
        with pytest.raises(NotSent):
            await transport.send(post(server, body, leaving))
        await transport.aclose()
    assert (marks, seen.requests) == (["left"], 0)


async def test_it_is_marked_before_it_is_asked_for_the_last_time_whether_it_may_leave() -> None:
    told = list[str]()

    def may_leave() -> bool:
        told.append("asked")
        return True

    async with serving(Seen().handle) as server:
        transport = transport_asking(may_leave)
        for body in (b"{}", LARGE):
            await transport.send(post(server, body, lambda: told.append("marked")))
            assert told[-3:] == ["asked", "marked", "asked"]
        await transport.aclose()


async def test_of_a_large_body_the_rest_does_not_leave() -> None:
    asked = 0
    seen = Seen()

    def may_leave() -> bool:
        nonlocal asked
        asked += 1
        return asked < 3

    async with serving(seen.handle) as server:
        transport = transport_asking(may_leave)
        with pytest.raises(CutShort):
            await transport.send(post(server, LARGE))
        await transport.aclose()
    assert asked == 3
    assert seen.requests == 0


async def test_the_answer_to_what_has_left_is_read_all_the_same() -> None:
    is_ours = True
    has_come, may_go = anyio.Event(), anyio.Event()

    async def slow(stream: SocketStream) -> None:
        await read_request(stream)
        has_come.set()
        await may_go.wait()
        await stream.send(response(b"{}"))

    statuses: list[int] = []
    async with serving(slow) as server:
        transport = transport_asking(lambda: is_ours)

        async def ask() -> None:
            statuses.append((await transport.send(get(server))).status)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await has_come.wait()
            is_ours = False
            may_go.set()
        await transport.aclose()
    assert statuses == [200]


@pytest.mark.slow
async def test_whatever_carries_it_is_handed_nothing() -> None:
    def carried(_: httpx.Request) -> httpx.Response:
        raise AssertionError("it was handed over")

    async with Service("https://service.example", "key", transport=httpx.MockTransport(carried)) as service:
        service.ask_first(lambda: False)
        for asked in (service.endpoint("abc").status, service.endpoint("abc").cancel, service.endpoint("abc").retry):
            with pytest.raises(NotSent):
                await asked("r-1")
        with pytest.raises(NotSent):
            await service.endpoint("abc").run({"prompt": "a lighthouse"})


async def test_whatever_carries_it_is_handed_nothing_by_who_was_stopped_since_it_was_marked() -> None:
    is_ours = True

    def carried(_: httpx.Request) -> httpx.Response:
        raise AssertionError("it was handed over")

    def leaving() -> None:
        nonlocal is_ours
        is_ours = False

    transport = Transport(SystemClock(), transport=httpx.MockTransport(carried))
    transport.ask_first(lambda: is_ours)
    with pytest.raises(NotSent):
        await transport.send(post("service.example", b"{}", leaving))
    await transport.aclose()


def test_the_system_does_not_deliver_for_ever() -> None:
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        return
    with impatient_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80))) as made:
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == LATE_US_MAX // 1_000
