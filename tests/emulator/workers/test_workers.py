"""Workers inside the emulator that are stuck in a thread, in real time."""

import itertools
import threading

import anyio
import anyio.lowlevel
import pytest

from orchestrator.clock import SystemClock
from orchestrator.emulator.workers.handlers import HandlerInput
from tests.emulator.emulators import emulator, serving

pytestmark = pytest.mark.anyio

PATIENCE_S = 30


async def test_a_worker_that_is_stuck_in_a_thread_is_left_behind_and_another_takes_its_place() -> None:
    release = threading.Event()

    def handler(job: HandlerInput) -> object:
        if job["input"]["n"]:
            release.wait(PATIENCE_S)
        return "done"

    try:
        async with serving(emulator(handler, clock=SystemClock(), workers=1)) as client:
            stuck = await client.run(1)
            with anyio.fail_after(PATIENCE_S):
                while (before := await client.status(stuck))["status"] != "IN_PROGRESS":
                    await anyio.lowlevel.checkpoint()
            await client.post(f"/cancel/{stuck}")
            after = (await client.http.get(f"/status-sync/{await client.run(0)}")).json()
            assert (after["status"], after["output"]) == ("COMPLETED", "done")
            assert after["workerId"] != before["workerId"]
    finally:
        release.set()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("service_retries", [0, 1])
async def test_a_job_that_is_tried_again_goes_to_another_worker_if_there_is_one(
    workers: int, service_retries: int
) -> None:
    """By `/retry` and by the service itself (contract, Retries)."""
    tried: list[str] = []

    async def handler(job: HandlerInput) -> object:
        if job["input"]["n"]:
            tried.append((await client.status(job["id"]))["workerId"])
        return {"error": "bad"}

    async with serving(emulator(handler, workers=workers, service_retries=service_retries)) as client:
        job_id = await client.run(1)
        for n in range(1, 4):
            with anyio.fail_after(PATIENCE_S):
                assert (await client.http.get(f"/status-sync/{job_id}")).json()["status"] == "FAILED"
            assert len(tried) == n * (1 + service_retries)
            await client.run(0)  # lets another worker be the one that has waited longest
            await client.post(f"/retry/{job_id}")
    pairs = itertools.pairwise(tried)
    assert [one != other for one, other in pairs] == [workers > 1] * (len(tried) - 1)
