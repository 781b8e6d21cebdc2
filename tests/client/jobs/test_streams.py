"""Chunks as they come (contract, `/stream`)."""

import itertools
from collections.abc import Sequence

import anyio
import httpx
import pytest

from orchestrator.client import RefusedError
from orchestrator.client.jobs.streams import PAUSE_S_MAX, PAUSE_S_MIN
from orchestrator.errors import NotSent, Unanswered
from tests.client.replies import Reply
from tests.client.scripted import PLENTY, URL, Script, answer
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def part(status: str, *outputs: object) -> httpx.Response:
    return httpx.Response(200, json={"status": status, "stream": [{"output": output} for output in outputs]})


async def read(script: Script) -> tuple[list[object], str]:
    stream = script.jobs.stream("job-1")
    assert (stream.status, stream.finished) == ("", False)
    return [chunk.output async for chunk in stream], stream.status


@pytest.mark.parametrize("end", ["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"])
async def test_a_stream_ends_when_the_job_does_however_it_ended(end: str) -> None:
    script = Script(part("IN_QUEUE"), part("IN_PROGRESS", 1, 2), part("RUNNING"), part("IN_PROGRESS", 3), part(end))
    assert await read(script) == ([1, 2, 3], end)
    assert script.asked == ["GET /stream/job-1"] * 5


async def test_an_answer_that_says_that_the_job_is_over_ends_the_stream_whatever_its_chunks() -> None:
    script = Script(part("IN_PROGRESS", 1), part("COMPLETED", 2, 3), part("COMPLETED"))
    assert await read(script) == ([1, 2, 3], "COMPLETED")
    assert len(script.requests) == 2


def bare(*outputs: object) -> httpx.Response:
    return httpx.Response(200, json=[{"output": output} for output in outputs])


def record(status: str) -> httpx.Response:
    return httpx.Response(200, json={"id": "job-1", "status": status})


@pytest.mark.parametrize("last", [bare(), bare(4), answer("", 404)])
async def test_bare_arrays_of_chunks_are_read_until_the_job_is_over(last: Reply) -> None:
    """The documented form without a status; chunks may have come before the job was seen to be over."""
    script = Script(bare(1), bare(), record("IN_PROGRESS"), bare(2, 3), bare(), record("FAILED"), last)
    outputs, status = await read(script)
    assert (outputs[:3], outputs[3:] or [4], status) == ([1, 2, 3], [4], "FAILED")
    assert [asked.split("/")[1] for asked in script.asked] == [
        *("stream", "stream", "status", "stream", "stream", "status", "stream")
    ]


@pytest.mark.parametrize("before", [[], [part("IN_PROGRESS", 1)]])
async def test_a_job_that_vanishes_while_it_runs_is_an_error(before: Sequence[Reply]) -> None:
    """Contract, States: at its TTL a job is deleted, whatever its state."""
    with pytest.raises(RefusedError, match="stream of job-1: the service does not know the job") as caught:
        await read(Script(*before, answer("", 404)))
    assert caught.value.status == 404


async def test_chunks_are_handed_on_at_once() -> None:
    stream = aiter(Script(part("IN_PROGRESS", "a", "b"), part("COMPLETED")).jobs.stream("job-1"))
    assert (await anext(stream)).output == "a"
    assert anyio.current_time() == 0
    assert [chunk.output async for chunk in stream] == ["b"]


async def test_the_pause_grows_while_nothing_comes_and_is_short_while_something_does() -> None:
    times: list[float] = []
    replies = iter([*[part("IN_QUEUE")] * 8, part("IN_PROGRESS", 1), part("COMPLETED")])

    def serve(request: httpx.Request) -> httpx.Response:
        times.append(anyio.current_time())
        return next(replies)

    from orchestrator.client import Service

    service = Service(URL, "key", VirtualClock(), limits=PLENTY, transport=httpx.MockTransport(serve))
    assert [chunk.output async for chunk in service.endpoint("abc").stream("job-1")] == [1]
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[:2] == pytest.approx([0.375, 0.5625], abs=0.01)
    assert pauses[7] == pytest.approx(PAUSE_S_MAX, abs=0.01)
    assert pauses[8] == pytest.approx(PAUSE_S_MIN, abs=0.01)


async def test_a_call_that_the_service_holds_is_pause_enough() -> None:
    times: list[float] = []
    replies = iter([part("IN_QUEUE"), part("IN_QUEUE"), part("COMPLETED")])

    async def serve(request: httpx.Request) -> httpx.Response:
        times.append(anyio.current_time())
        await anyio.sleep(10)
        return next(replies)

    from orchestrator.client import Service

    service = Service(URL, "key", VirtualClock(), limits=PLENTY, transport=httpx.MockTransport(serve))
    assert [chunk async for chunk in service.endpoint("abc").stream("job-1")] == []
    assert [round(at - times[0], 1) for at in times] == [0, 10, 20]


async def test_a_call_that_never_left_or_was_refused_is_made_again() -> None:
    script = Script(NotSent("no"), answer("", 503), part("IN_PROGRESS", 1), part("COMPLETED"))
    assert await read(script) == ([1], "COMPLETED")


async def test_a_cut_in_the_middle_keeps_what_came_before_and_says_what_may_be_missing() -> None:
    script = Script(part("IN_PROGRESS", 1), Unanswered("cut off"))
    stream = aiter(script.jobs.stream("job-1"))
    assert (await anext(stream)).output == 1
    with pytest.raises(Unanswered, match="chunks may be missing, another stream goes on with the next ones"):
        await anext(stream)
