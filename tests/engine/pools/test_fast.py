"""A job of a pool goes where it is expected to end soonest."""

from pathlib import Path

import anyio
import pytest

from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.emulator.contract.limits import JobOperation
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.emulator.jobs.scaling_rules import fixed
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.engine.lanes.test_direct_responses import requests
from tests.engine.lanes.test_url_endpoints import GOOD, URL, server
from tests.engine.pools.pooled import MIDDLE, QUICK, SLOW, SPEEDS, of, pooled
from tests.engine.process import process
from tests.engine.scripted import Reply
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.mark.slow
async def test_each_member_gets_what_it_can_end_by_the_same_time(tmp_path: Path) -> None:
    async with pooled(tmp_path, SPEEDS, jobs=140, seconds=5.0) as pool:
        took_s = await pool.run()
        assert took_s < 1.4 * 5.0 * 140 / sum(SPEEDS.values())
        assert pool.service.paid == 140
        done = await pool.done_at()
        assert done[SLOW] < done[MIDDLE] < done[QUICK]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [{SLOW: 4, QUICK: 1}, {SLOW: 1, QUICK: 4}, {SLOW: 1, MIDDLE: 1, QUICK: 4}])
async def test_what_fails_is_executed_again_at_another_member(tmp_path: Path, workers: dict[str, int]) -> None:
    def first_fails(raw: bytes, number: int) -> WorkerResult:
        if raw in failed:
            return WorkerResult(output=raw)
        failed.add(raw)
        return WorkerResult(error="no")

    failed: set[bytes] = set()
    async with pooled(tmp_path, workers, jobs=16, seconds=5.0, work=first_fails) as pool:
        await pool.run()
        assert pool.service.paid == 32
        sent = [await pool.sent_to(n) for n in range(1, 17)]
        assert [first != second for first, second in sent] == [True] * 16


async def test_each_member_has_limits_of_its_own(tmp_path: Path) -> None:
    limits = {**CONTRACT_LIMITS, Operation.RUN: Limit(requests=5, window_s=10)}
    async with pooled(tmp_path, dict.fromkeys((SLOW, MIDDLE, QUICK), 40), jobs=45, limits=limits) as pool:
        took_s = await pool.run()
        assert took_s < 2 * 45 / 15 * 10, "one allowance for all would take three times as long as theirs"
        figures = {each: pool.service.gate.meters.figures(each, JobOperation.RUN) for each in (SLOW, MIDDLE, QUICK)}
        assert max(each.window_max for each in figures.values()) <= 5


@pytest.mark.slow
async def test_what_fails_all_at_once_is_shared_by_those_that_are_well(tmp_path: Path) -> None:
    def first_fails(raw: bytes, number: int) -> WorkerResult:
        if raw in failed:
            return WorkerResult(output=raw)
        failed.add(raw)
        return WorkerResult(error="no")

    failed: set[bytes] = set()
    members = {SLOW: 30, MIDDLE: 2, QUICK: 2}
    async with pooled(tmp_path, members, jobs=34, seconds=10.0, work=first_fails) as pool:
        await pool.run()
        done = await pool.done_at()
        assert min(done[MIDDLE], done[QUICK]) > 10


@pytest.mark.slow
async def test_what_waits_at_a_member_that_has_become_slow_goes_to_one_with_room(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 20, QUICK: 20}, jobs=120, seconds=10.0) as pool:
        await pool.p.begin()
        await anyio.sleep(6)
        pool.service.scale(SLOW, fixed(1))
        await pool.p.finish()
        took_s = (pool.p.clock.now() - EPOCH_AT) / SECOND_US
        assert took_s < 135, "the one worker alone would take some 340 s"
        assert pool.service.paid == 120
        assert len(await pool.p.results()) == 120


@pytest.mark.parametrize(
    "names", [pytest.param((URL, "https://other.example.org/v1"), marks=pytest.mark.slow), (SLOW, QUICK)]
)
async def test_past_the_queue_members_get_as_many_at_once_as_they_are_found_to_take(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    settings = RunSettings(via=Via.OPENAI, members=of(*names))
    transport = server(openai=GOOD, health=Reply(body=b"{}"))
    async with process(tmp_path / "db", transport, jobs=requests(400), settings=settings, endpoint=names[0]) as p:
        began_at = p.clock.now()
        await p.begin()
        await p.finish()
        took_s = (p.clock.now() - began_at) / SECOND_US
        assert took_s < 20, "four at once at each would take 100 s"
