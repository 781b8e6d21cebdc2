"""Workers inside the emulator that are stuck in a thread, in real time."""

import threading

import anyio
import anyio.lowlevel
import pytest

from orchestrator.clock import SystemClock
from orchestrator.emulator.handlers import Job
from tests.emulator.emulators import emulator, serving

pytestmark = pytest.mark.anyio

PATIENCE_S = 30


async def test_a_worker_that_is_stuck_in_a_thread_is_left_behind_and_another_takes_its_place() -> None:
    release = threading.Event()

    def handler(job: Job) -> object:
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
