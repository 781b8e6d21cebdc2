"""`/openai/*` over a socket: a stream while it comes, senders that hang up, and the faults of the wire."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from orchestrator.client import Service
from orchestrator.emulator.contract.faults import Fault, Faults
from orchestrator.emulator.contract.limits import JobOperation, OperationLimit
from orchestrator.emulator.serving import ServedEmulator, serve
from orchestrator.emulator.workers.handlers import HandlerInput

pytestmark = pytest.mark.anyio

PATIENCE_S = 30
PATH = "/v2/ep/openai/v1/chat/completions"
STREAM = {"stream": True}


class Script:
    """A generator that yields a chunk when the test says so, and tells how it ended."""

    def __init__(self) -> None:
        self.go_on = anyio.Event()
        self.ended = anyio.Event()

    async def handler(self, job: HandlerInput) -> AsyncIterator[object]:
        try:
            yield "data: first\n\n"
            await self.go_on.wait()
            yield {"second": 2}
        finally:
            self.ended.set()


@asynccontextmanager
async def serving(handler: Any, **settings: Any) -> AsyncIterator[tuple[ServedEmulator, httpx.AsyncClient]]:
    async with (
        serve(
            endpoints={"ep": handler}, limits={JobOperation.OPENAI: OperationLimit(concurrent=1)}, **settings
        ) as service,
        httpx.AsyncClient(base_url=service.origin, headers={"authorization": "k"}, timeout=PATIENCE_S) as http,
    ):
        with anyio.fail_after(PATIENCE_S):
            yield service, http


async def statuses(service: ServedEmulator) -> list[str]:
    return [str(job.status) for job in service.emulator.world.table.newest_first()]


async def until_free(service: ServedEmulator) -> None:
    """Until the one request that may be under way has ended."""
    while service.emulator.gate.meters.figures("ep", JobOperation.OPENAI).concurrent:
        await anyio.lowlevel.checkpoint()


async def test_our_client_tells_of_each_event_as_it_comes() -> None:
    go_on, told = anyio.Event(), list[object]()

    async def handler(job: HandlerInput) -> AsyncIterator[str]:
        yield 'data: {"n": 1}\n'
        await go_on.wait()  # which the client does once it was told of the first
        yield '\ndata: {"n": 2}\n\ndata: [DONE]'

    def tell(document: object) -> None:
        told.append(document)
        go_on.set()

    async with serving(handler) as (served, _), Service(served.origin, "k") as service:
        answer = await service.endpoint("ep").openai("/v1/x", STREAM, on_event=tell)
    assert told == [{"n": 1}, {"n": 2}] == list(answer.value)  # type: ignore[call-overload]


async def test_chunks_leave_while_the_job_goes_on() -> None:
    script = Script()
    async with serving(script.handler) as (service, http), http.stream("POST", PATH, json=STREAM) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        parts = answer.aiter_text()
        assert await anext(parts) == "data: first\n\n"
        assert await statuses(service) == ["IN_PROGRESS"]
        assert (await http.post(PATH, json={})).status_code == 429  # one at a time, and this one is under way
        script.go_on.set()
        assert [part async for part in parts] == ['data: {"second": 2}\n\n']
        await until_free(service)
        assert await statuses(service) == ["COMPLETED"]


@pytest.mark.parametrize("body", [STREAM, {}], ids=["stream", "plain"])
async def test_the_job_of_a_sender_that_hangs_up_is_cancelled(body: dict[str, Any]) -> None:
    script = Script()
    async with serving(script.handler) as (service, http):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(http.post, PATH, json=body))
            while not await statuses(service):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        await script.ended.wait()
        await until_free(service)
        assert await statuses(service) == ["CANCELLED"]


async def test_a_job_that_is_purged_ends_its_stream_with_an_error() -> None:
    async with serving(Script().handler, workers=0) as (service, http), anyio.create_task_group() as tasks:

        async def purge() -> None:
            while not await statuses(service):
                await anyio.lowlevel.checkpoint()
            await http.post("/v2/ep/purge-queue")

        tasks.start_soon(purge)
        assert (await http.post(PATH, json=STREAM)).text == 'data: {"error":"the job was deleted"}\n\n'
        tasks.start_soon(purge)
        answer = await http.post(PATH, json={})
        assert (answer.status_code, answer.json()) == (500, {"error": "the job was deleted"})


@pytest.mark.parametrize("body", [STREAM, {}], ids=["stream", "plain"])
async def test_a_lost_answer_is_a_closed_connection_after_the_job_was_accepted(body: dict[str, Any]) -> None:
    script = Script()
    script.go_on.set()
    async with serving(script.handler, faults=Faults(lost_answer=1.0)) as (service, http):
        with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
            await http.post(PATH, json=body)
        await until_free(service)
        assert len(await statuses(service)) == 1
        assert service.emulator.dice.counts()[Fault.LOST_ANSWER] == 1


async def test_a_cut_stream_breaks_after_its_first_event() -> None:
    script = Script()
    async with (
        serving(script.handler, faults=Faults(cut_answer=1.0)) as (service, http),
        http.stream("POST", PATH, json=STREAM) as answer,
    ):
        parts = answer.aiter_text()
        assert await anext(parts) == "data: first\n\n"
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            await anext(parts)
        await until_free(service)
        assert await statuses(service) == ["CANCELLED"]


@pytest.mark.parametrize(
    ("faults", "status"), [(Faults(not_json=1.0), 200), (Faults(server_error_after=1.0), 500)], ids=["page", "500"]
)
async def test_another_answer_in_the_place_of_a_stream_ends_its_job(faults: Faults, status: int) -> None:
    async with serving(Script().handler, faults=faults) as (service, http):
        answer = await http.post(PATH, json=STREAM)
        assert (answer.status_code, "first" in answer.text) == (status, False)
        await until_free(service)
        assert await statuses(service) == ["CANCELLED"]


async def test_a_body_whose_sender_hangs_up_makes_no_job() -> None:
    async with serving(Script().handler) as (service, _):
        host, port = service.origin.removeprefix("http://").split(":")
        async with await anyio.connect_tcp(host, int(port)) as stream:
            head = (
                f"POST {PATH} HTTP/1.1\r\nHost: h\r\nAuthorization: k\r\nContent-Length: 9\r\nExpect: 100-continue\r\n"
            )
            await stream.send(f"{head}\r\n".encode())
            await stream.receive()  # its body is waited for
        await until_free(service)
        assert await statuses(service) == []
