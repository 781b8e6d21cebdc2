"""The order of completion: each job once, where it ended last, and whoever goes on from a place misses none."""

import anyio
import pytest

from orchestrator.api.outcomes.outcome_pages import WantedRows, ended_jobs
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from tests.factories import S
from tests.ledger.ledgers import OpenLedger, a_run, gone, job_now
from tests.simulation.clock import EPOCH_AT
from tests.simulation.loop import running_loop

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + S
WORKED = ("claimed", "accepted", "completed")
FAILED = ("claimed", "accepted", "abandoned")


async def took(ledger: Ledger, job: int, *names: str, at_s: int) -> None:
    await gone(ledger, await job_now(ledger, job), *names, at=AT + at_s * S)


async def ended(ledger: Ledger, run: int, rows: WantedRows, *, after: int = 0) -> list[tuple[int, int]]:
    return [(place, job.job) async for place, job in ended_jobs(ledger, run, rows, after=after)]


async def test_jobs_come_in_the_order_in_which_they_ended_last(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run, other = await a_run(ledger, 4, name="one"), await a_run(ledger, 1, name="two")
        await took(ledger, 3, *WORKED, at_s=0)
        await took(ledger, 1, *FAILED, at_s=10)
        await took(ledger, 5, *WORKED, at_s=20)
        await took(ledger, 2, *WORKED, at_s=30)
        await took(ledger, 4, "cancelled", at_s=40)
        await took(ledger, 1, "reopened", *WORKED, at_s=50)

        found = await ended(ledger, run.id, WantedRows.RESULTS)
        assert [job for _, job in found] == [3, 2, 1]
        assert [job for _, job in await ended(ledger, run.id, WantedRows.ALL)] == [3, 2, 4, 1]
        assert [job for _, job in await ended(ledger, run.id, WantedRows.ERRORS)] == [4]
        assert await ended(ledger, run.id, WantedRows.FAILED) == []
        assert [job for _, job in await ended(ledger, other.id, WantedRows.RESULTS)] == [5]
        assert await ended(ledger, run.id, WantedRows.RESULTS, after=found[0][0]) == found[1:]
        assert await ended(ledger, run.id, WantedRows.RESULTS, after=found[-1][0]) == []


async def test_a_page_ends_after_so_many_events_and_before_so_many_bytes(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 3)
        for job in (1, 2, 3):
            await took(ledger, job, *WORKED, at_s=10 * job)
        states = (State.SUCCEEDED,)
        few = await ledger.jobs.results.ended(run.id, states, after=0, most=7, bytes_max=9_999)
        assert ([job.job for _, job in few.jobs], few.upto) == ([1, 2], 7)
        small = await ledger.jobs.results.ended(run.id, states, after=0, most=99, bytes_max=1)
        assert ([job.job for _, job in small.jobs], small.upto) == ([1], small.jobs[0][0])
        rest = await ledger.jobs.results.ended(run.id, states, after=small.upto or 0, most=99, bytes_max=9_999)
        assert [job.job for _, job in rest.jobs] == [2, 3]
        assert (
            await ledger.jobs.results.ended(run.id, states, after=rest.upto or 0, most=99, bytes_max=1)
        ).upto is None


async def test_who_follows_hears_of_each_within_a_second_and_ends_with_the_run(open_file: OpenLedger) -> None:
    heard: list[tuple[int, float]] = []

    async def follows(ledger: Ledger, run: int) -> None:
        async for _, job in ended_jobs(ledger, run, WantedRows.ALL, follow=True):
            heard.append((job.job, running_loop().time()))

    async with open_file() as ledger:
        run = await a_run(ledger, 3)
        await took(ledger, 2, *WORKED, at_s=0)
        began_s = running_loop().time()
        async with anyio.create_task_group() as group:
            group.start_soon(follows, ledger, run.id)
            for job, path in ((1, FAILED), (3, WORKED)):
                await anyio.sleep(10)
                await took(ledger, job, *path, at_s=10 * job)
        assert [job for job, _ in heard] == [2, 1, 3]
        assert [round(at_s - began_s) for _, at_s in heard] == [0, 10, 20]
        assert await ledger.runs.ended([run.id])


async def test_the_finished_ones_of_some_jobs_come_by_their_numbers_and_in_pages(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 4)
        for job in (3, 1, 2):
            await took(ledger, job, *WORKED, at_s=10 * job)
        assert [job.job for job in await ledger.jobs.results.of([4, 3, 1], bytes_max=9_999)] == [1, 3]
        assert [job.job for job in await ledger.jobs.results.of([2, 3], bytes_max=1)] == [2]
        assert await ledger.jobs.results.of([4], bytes_max=1) == []
