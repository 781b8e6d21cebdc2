"""Work that outlives its worker, as a handler of the emulator plays it."""

import anyio
import pytest

from orchestrator.emulator.workers.long_work import KILLED, LongWork, LongWorkHandler
from tests.emulator.emulators import emulator, serving
from tests.emulator.workers.test_long_work import WORK

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_as_a_handler_it_works_on_any_clock_and_as_fast_as_the_service() -> None:
    async with serving(emulator(LongWorkHandler(WORK, time_scale=2.0))) as client:
        given = {"a": 1, "resume": {"soft_s": 22.0, "segment": 1}}
        job = (await client.http.post("/run", json={"input": given})).json()["id"]
        await anyio.sleep(16)
        shown = (await client.http.get(f"/status/{job}")).json()
        assert (shown["status"], shown["output"]["seq"]) == ("IN_PROGRESS", 3)
        await anyio.sleep(10)
        assert (await client.http.get(f"/status/{job}")).json()["output"]["checkpoint"] == {"done_s": 44.0}


async def test_a_handler_that_hangs_or_is_killed_does_so() -> None:
    hangs = LongWork(work_s=100, report_every_s=10, checkpoint_every_s=25, stalls_after_s=15)
    async with serving(emulator(LongWorkHandler(hangs))) as client:
        job = (await client.http.post("/run", json={"input": {"a": 1}})).json()["id"]
        await anyio.sleep(200)
        shown = (await client.http.get(f"/status/{job}")).json()
        assert (shown["status"], shown["output"]["seq"]) == ("IN_PROGRESS", 1)
    killed = LongWork(work_s=100, report_every_s=10, checkpoint_every_s=25, killed_after_s=15)
    async with serving(emulator(LongWorkHandler(killed))) as client:
        job = (await client.http.post("/run", json={"input": {"a": 1}})).json()["id"]
        await anyio.sleep(20)
        shown = (await client.http.get(f"/status/{job}")).json()
        assert (shown["status"], shown["error"]) == ("FAILED", KILLED)
