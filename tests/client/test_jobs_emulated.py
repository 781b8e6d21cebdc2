"""Every job operation against the emulator, which was written from the contract a second time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from orchestrator.client import EndpointJobs, InProcess, RefusedError, Service
from orchestrator.core.text.durations import Policy
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.workers.handlers import Handler, HandlerInput
from tests.client.scripted import KEY, PLENTY
from tests.emulator.emulators import emulator
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def work(job: HandlerInput) -> object:
    await anyio.sleep(job["input"].get("seconds", 0))
    if job["input"].get("bad"):
        return {"error": "bad seed"}
    return {"got": job["input"]}


async def count(job: HandlerInput) -> AsyncIterator[object]:
    for n in range(job["input"]["n"]):
        await anyio.sleep(1)
        yield {"n": n}


@asynccontextmanager
async def serving(handler: Handler = work, endpoint: str = "ep") -> AsyncIterator[EndpointJobs]:
    clock = VirtualClock()
    emulated = emulator(handler, clock=clock, workers=1)
    transport = InProcess(emulated.app, cut=ConnectionCut)
    async with anyio.create_task_group() as tasks:
        await tasks.start(emulated.serve)
        yield Service("http://emulated", KEY, clock, limits=PLENTY, transport=transport).endpoint(endpoint)
        tasks.cancel_scope.cancel()


async def test_a_job_is_submitted_and_followed() -> None:
    async with serving() as jobs:
        accepted = await jobs.run({"seconds": 5}, policy=Policy(execution_timeout_ms=20_000))
        assert (accepted.status, accepted.finished) == ("IN_QUEUE", False)
        assert accepted.id is not None
        done = await jobs.follow(accepted.id)
    assert (done.status, done.output, done.id) == ("COMPLETED", {"got": {"seconds": 5}}, accepted.id)
    assert done.execution_ms == pytest.approx(5_000, abs=100)


async def test_a_runsync_that_outlives_its_wait_is_followed() -> None:
    async with serving() as jobs:
        at_once = await jobs.runsync({"x": 1})
        late = await jobs.runsync({"seconds": 30}, wait=1_000)
    assert (at_once.output, late.output) == ({"got": {"x": 1}}, {"got": {"seconds": 30}})


async def test_a_failed_job_tells_why_and_can_be_retried() -> None:
    async with serving() as jobs:
        failed = await jobs.runsync({"bad": True})
        assert (failed.status, failed.reason) == ("FAILED", "bad seed")
        assert failed.id is not None
        assert (await jobs.retry(failed.id)).status == "IN_QUEUE"
        assert (await jobs.follow(failed.id)).status == "FAILED"


async def test_a_stream_ends_when_its_job_does() -> None:
    async with serving(count) as jobs:
        accepted = await jobs.run({"n": 4})
        assert accepted.id is not None
        stream = jobs.stream(accepted.id)
        assert [chunk.output async for chunk in stream] == [{"n": n} for n in range(4)]
        assert stream.status == "COMPLETED"


async def test_a_cancelled_job_ends_its_stream() -> None:
    async with serving(count) as jobs:
        accepted = await jobs.run({"n": 1_000})
        assert accepted.id is not None
        stream = jobs.stream(accepted.id)
        seen = 0
        async for _ in stream:
            seen += 1
            if seen == 3:
                assert (await jobs.cancel(accepted.id)).status == "CANCELLED"
        assert (stream.status, seen < 10) == ("CANCELLED", True)


async def test_a_purge_takes_what_waits_and_leaves_what_runs() -> None:
    async with serving() as jobs:
        running = await jobs.run({"seconds": 60})
        await anyio.sleep(1)
        for _ in range(3):
            await jobs.run({"seconds": 60})
        health = await jobs.health()
        assert (health.jobs.in_progress, health.jobs.in_queue, health.workers.running) == (1, 3, 1)
        assert (await jobs.purge_queue()).removed == 3
        assert running.id is not None
        assert (await jobs.follow(running.id)).status == "COMPLETED"


async def test_a_job_is_unknown_once_its_ttl_is_over() -> None:
    """Contract, States: TTL expiry."""
    async with serving() as jobs:
        accepted = await jobs.run({"seconds": 60}, policy=Policy(ttl_ms=10_000))
        assert accepted.id is not None
        with pytest.raises(RefusedError) as caught:
            await jobs.follow(accepted.id)
    assert caught.value.status == 404


async def test_an_unknown_endpoint_is_refused() -> None:
    async with serving(endpoint="other") as jobs:
        with pytest.raises(RefusedError) as caught:
            await jobs.health()
    assert caught.value.status == 404


async def test_the_openai_interface_runs_the_handler() -> None:
    async with serving() as jobs:
        answer = await jobs.openai("/v1/completions", {"prompt": "a"})
    assert "/v1/completions" in str(answer.value)
