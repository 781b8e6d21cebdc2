"""A run that gets further endpoints, or fewer, or one that is a function of this machine."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from orchestrator.api.runs.run_costs import members_by_run
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.errors import UsageError
from orchestrator.ledger import read_ledger
from orchestrator.ledger.runs.runs import Run
from tests.api.desk import Desk, desk, numbers
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

BIG = "big"
POOL = [ENDPOINT, BIG]


async def work_on(d: Desk, endpoint: str | Sequence[str], *, seconds: float | None = None) -> dict[str, int]:
    """The run goes on at `endpoint`, to its end or for so long; returns how many each has done, where it has a pool."""
    async with d.orchestrator() as orc:
        run = await orc.submit(numbers(40), endpoint=endpoint, name="captions")
        await (run.wait() if seconds is None else anyio.sleep(seconds))
        return await done_at(d)


async def run_now(d: Desk) -> Run:
    async with read_ledger(d.ledger, connect=d.dependencies.connect_to(d.ledger)) as ledger:
        [run] = await ledger.runs.all()
        return run


async def done_at(d: Desk) -> dict[str, int]:
    async with read_ledger(d.ledger, connect=d.dependencies.connect_to(d.ledger)) as ledger:
        run = await run_now(d)
        return {each.endpoint: each.done for each in (await members_by_run(ledger, [run])).get(run.id, ())}


@pytest.mark.slow
async def test_a_run_whose_workers_are_away_gets_help_and_stays_the_same_run(tmp_path: Path) -> None:
    away = Scaling(workers_min=4, workers_max=4, machines=0)
    async with desk(tmp_path, endpoints=POOL, scaling={ENDPOINT: away}, seconds=lambda _: 5.0) as d:
        assert await work_on(d, ENDPOINT, seconds=12) == {}
        assert await work_on(d, [BIG, ENDPOINT]) == {BIG: 40, ENDPOINT: 0}
        assert d.service.paid == 40, "what waited there was cancelled before it was sent anew"
        assert (await run_now(d)).endpoint == ENDPOINT, "where it began"


@pytest.mark.slow
async def test_who_is_left_out_later_gets_no_more_and_what_is_there_is_collected(tmp_path: Path) -> None:
    async with desk(tmp_path, endpoints=POOL, workers=2, seconds=lambda _: 5.0) as d:
        before = await work_on(d, POOL, seconds=12)
        assert before[BIG] > 0
        await work_on(d, ENDPOINT)
        assert d.service.paid == 40
        after = await work_on(d, POOL)
        assert before[BIG] <= after[BIG] < 20 < after[ENDPOINT]


async def test_a_pool_without_the_endpoint_where_the_run_began_is_refused(tmp_path: Path) -> None:
    async with desk(tmp_path, endpoints=[*POOL, "third"], seconds=lambda _: 5.0) as d:
        await work_on(d, ENDPOINT, seconds=12)
        with pytest.raises(UsageError, match=f"the run 'captions' of this ledger is for the endpoint {ENDPOINT}"):
            await work_on(d, [BIG, "third"])
        assert (await run_now(d)).settings.members == ()


async def test_a_function_of_this_machine_is_a_member_as_any_other(tmp_path: Path) -> None:
    file = tmp_path / "handlers.py"
    file.write_text(
        "import anyio\nasync def double(job):\n    await anyio.sleep(2)\n    return 2 * job['input']['n']\n"
    )
    here = f"local:{file}:double"
    async with desk(tmp_path, endpoints=[ENDPOINT], workers=2, seconds=lambda _: 5.0) as d:
        done = await work_on(d, [here, ENDPOINT])
        assert done == {ENDPOINT: d.service.paid, here: 40 - d.service.paid}
        assert done[here] > done[ENDPOINT] > 0
        assert (await run_now(d)).service_url != "local:", "a run is at a service, if it is at any"


async def test_a_function_that_is_not_there_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    async with desk(tmp_path, endpoints=[ENDPOINT]) as d:
        with pytest.raises(UsageError, match=r"nowhere\.py"):
            await work_on(d, [ENDPOINT, "local:nowhere.py:double"])
        assert d.service.paid == 0


async def test_what_failed_is_tried_again_at_a_function_that_is_a_member(tmp_path: Path) -> None:
    file = tmp_path / "handlers.py"
    file.write_text("async def double(job):\n    return 2 * job['input']['n']\n")
    here = f"local:{file}:double"
    async with (
        desk(tmp_path, endpoints=[ENDPOINT], work=lambda _raw, _n: WorkerResult(error="no")) as d,
        d.orchestrator() as orc,
    ):
        run = await orc.submit(numbers(4), endpoint=ENDPOINT, name="captions", max_attempts=1, breaker="off")
        await run.wait()
        await orc.submit([], endpoint=[ENDPOINT, here], name="captions")
        assert "4 failed jobs are queued again" in await run.retry(endpoint=here)
        await run.wait()
        assert run.counts["succeeded"] == 4
        assert (await done_at(d))[here] == 4
