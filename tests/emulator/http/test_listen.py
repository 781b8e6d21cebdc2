"""The emulator behind real sockets on the loopback: what uvicorn does with it, and connections that really break."""

import logging
import signal
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anyio
import anyio.from_thread
import pytest
from anyio.abc import SocketStream

from orchestrator.clock import SystemClock
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.contract.limits import JobOperation, OperationLimit
from orchestrator.emulator.http.listen import bind, listen
from orchestrator.emulator.server import Emulator
from orchestrator.emulator.workers.handlers import HandlerInput
from orchestrator.errors import UsageError
from tests.emulator.emulators import emulator

pytestmark = pytest.mark.anyio

BODY = b'{"input":{"n":2}}'


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return ("asyncio", {"use_uvloop": request.param == "uvloop"})


@asynccontextmanager
async def listening(emulator: Emulator) -> AsyncIterator[int]:
    """The port of a served emulator."""
    sock = bind()
    async with anyio.create_task_group() as tasks:
        await tasks.start(emulator.serve)
        await tasks.start(listen, emulator.app, sock)
        yield sock.getsockname()[1]
        tasks.cancel_scope.cancel()


def request(line: str, body: bytes = b"", *more: str) -> bytes:
    head = "\r\n".join([f"{line} HTTP/1.1", "host: h", "authorization: k", f"content-length: {len(body)}", *more])
    return head.encode() + b"\r\n\r\n" + body


async def until_closed(stream: SocketStream) -> bytes:
    received = b""
    try:
        while True:
            received += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return received


async def exchange(port: int, sent: bytes) -> bytes:
    """Everything that comes back until the server closes the connection."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(sent)
        return await until_closed(stream)


async def test_a_request_is_answered_and_the_connection_closed_on_demand() -> None:
    async with listening(emulator(clock=SystemClock())) as port:
        answer = await exchange(port, request("POST /v2/ep/run", BODY, "connection: close"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'"status":"IN_QUEUE"' in answer


@pytest.mark.parametrize("fault", [Faults(lost_answer=1.0), Faults(lost_request=1.0)])
async def test_a_lost_request_or_answer_is_a_connection_closed_without_a_byte(
    fault: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    subject = emulator(clock=SystemClock(), faults=fault)
    async with listening(subject) as port:
        assert await exchange(port, request("POST /v2/ep/run", BODY)) == b""
    assert len(subject.world.table.by_id) == fault.lost_answer
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_reset_connection_is_reset_and_not_closed_in_peace(caplog: pytest.LogCaptureFixture) -> None:
    subject = emulator(clock=SystemClock(), faults=Faults(reset=1.0))
    async with listening(subject) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(request("POST /v2/ep/run", BODY))
        with pytest.raises(anyio.BrokenResourceError) as broken:
            await stream.receive()
    assert isinstance(broken.value.__cause__, ConnectionResetError)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_of_a_swallowed_request_nobody_is_told_and_whoever_gives_up_is_gone() -> None:
    subject = emulator(clock=SystemClock(), faults=Faults(swallowed_request=1.0))
    async with listening(subject) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(request("POST /v2/ep/run", BODY))
            with anyio.move_on_after(0.2) as given_up:
                await stream.receive()
            assert given_up.cancelled_caught
        subject.dice.faults = Faults()
        assert b"200 OK" in await exchange(port, request("POST /v2/ep/run", BODY, "connection: close"))
    assert len(subject.world.table.by_id) == 1


async def test_a_large_body_that_nobody_reads_does_not_keep_a_cut_connection_open() -> None:
    async with (
        listening(emulator(clock=SystemClock(), faults=Faults(lost_request=1.0))) as port,
        await anyio.connect_tcp("127.0.0.1", port) as stream,
    ):
        with pytest.raises(anyio.BrokenResourceError):
            await stream.send(request("POST /v2/ep/run", b"x" * 30_000_000))


async def test_a_cut_answer_has_its_head_and_half_its_body() -> None:
    async with listening(emulator(clock=SystemClock(), faults=Faults(cut_answer=1.0))) as port:
        answer = await exchange(port, request("GET /v2/ep/status/unknown"))
    head, _, body = answer.partition(b"\r\n\r\n")
    length = len(b'{"error":"job not found"}')
    assert f"content-length: {length}".encode() in head
    assert body == b'{"error":"job not found"}'[: length // 2]


async def test_a_sender_that_hangs_up_in_the_middle_of_its_body_leaves_nothing_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    subject = emulator(clock=SystemClock(), limits={JobOperation.RUN: OperationLimit(concurrent=1)})
    async with listening(subject) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(request("POST /v2/ep/run", BODY, "expect: 100-continue")[:-5])
            assert b"100 Continue" in await stream.receive()  # the request has been let in, its body is being read
        answer = b"429"
        while b"429" in answer:  # until the server has seen the hang-up
            answer = await exchange(port, request("POST /v2/ep/run", BODY, "connection: close"))
    assert b"200 OK" in answer
    assert len(subject.world.table.by_id) == 1
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_plain_handler_runs_in_a_thread_and_is_left_behind_when_its_job_is_cancelled() -> None:
    release, began, ended, threads = threading.Event(), anyio.Event(), anyio.Event(), list[int]()

    def handler(job: HandlerInput) -> object:
        threads.append(threading.get_ident())
        if job["input"]["n"] == 2:
            anyio.from_thread.run_sync(began.set)
            release.wait()
        return "done"

    async def deliver(url: str, body: bytes, headers: Mapping[str, str]) -> int:
        ended.set()
        return 200

    subject = emulator(handler, clock=SystemClock(), workers=1, deliver=deliver)
    async with listening(subject) as port:
        try:
            answer = await exchange(port, request("POST /v2/ep/run", BODY, "connection: close"))
            job_id = answer.partition(b'"id":"')[2].partition(b'"')[0].decode()
            await began.wait()
            cancelled = await exchange(port, request(f"POST /v2/ep/cancel/{job_id}", b"", "connection: close"))
            assert b"CANCELLED" in cancelled
            body = b'{"input":{"n":3},"webhook":"http://listener/"}'
            await exchange(port, request("POST /v2/ep/run", body, "connection: close"))
            await ended.wait()
        finally:
            release.set()
    assert len(set(threads)) == 2


async def test_signals_are_left_to_the_program() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with listening(emulator(clock=SystemClock())):
        assert signal.getsignal(signal.SIGTERM) is before


async def test_the_socket_is_closed_in_the_end_even_with_connections_open() -> None:
    async with listening(emulator(clock=SystemClock())) as port:
        stream = await anyio.connect_tcp("127.0.0.1", port)
        await stream.send(request("GET /v2/ep/health"))
        assert b"200 OK" in await stream.receive()
    async with stream:
        assert await until_closed(stream) == b""
    with pytest.raises(OSError, match="connect"):
        await anyio.connect_tcp("127.0.0.1", port)


async def test_a_taken_port_is_a_usage_error() -> None:
    with bind() as taken, pytest.raises(UsageError, match=r"cannot listen on 127.0.0.1 port \d+: .*in use"):
        bind("127.0.0.1", taken.getsockname()[1])


async def test_an_ipv6_address_can_be_bound() -> None:
    with bind("::1") as sock:
        assert sock.family is socket.AF_INET6


async def test_a_server_that_is_cancelled_before_it_began_closes_its_socket() -> None:
    sock = bind()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await listen(emulator(clock=SystemClock()).app, sock)
    assert sock.fileno() == -1
