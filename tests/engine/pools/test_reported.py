"""What is told of the members of a pool: by the process at work, and by the ledger once nobody works."""

from pathlib import Path

import anyio
import pytest

from orchestrator.api.runs.run_costs import members_by_run, run_costs
from orchestrator.core.pools.member import MemberSettings
from orchestrator.core.pools.member_health import THROTTLED, MemberState
from orchestrator.settings.run_settings import RunSettings
from orchestrator.views.members import MemberStatus
from tests.engine.pools.pooled import QUICK, SLOW, Pooled, pooled
from tests.engine.pools.test_unwell import THROTTLED_FOUR

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

PRICED = (MemberSettings(SLOW, 0.1), MemberSettings(QUICK, 0.4))


def told(pool: Pooled) -> dict[str, MemberStatus]:
    """What the process says of each."""
    return {each.endpoint: each for each in pool.p.engine.report().of(pool.p.run.id).members}


@pytest.mark.slow
async def test_each_member_is_told_with_what_it_does_and_what_that_costs(tmp_path: Path) -> None:
    settings = RunSettings(members=PRICED)
    async with pooled(tmp_path, {SLOW: 4, QUICK: 8}, jobs=60, seconds=5.0, settings=settings) as pool:
        await pool.p.begin()
        await anyio.sleep(22)
        slow, quick = told(pool).values()
        assert (slow.endpoint, slow.state, slow.why) == (SLOW, MemberState.WELL, None)
        assert 0 < slow.done < quick.done
        assert slow.jobs_per_s == pytest.approx(0.8, rel=0.3)
        assert slow.execution_s == pytest.approx(5)
        assert slow.outstanding > 0
        assert slow.cost == pytest.approx(0.5 * slow.done)
        assert quick.cost == pytest.approx(2.0 * quick.done)
        assert (slow.window_allowed, slow.throttled) == (1_000, 0)
        counts = await pool.p.ledger.runs.counts(pool.p.run.id)
        at_end = (await run_costs(pool.p.ledger, pool.p.run, counts)).at_end
        assert at_end is not None
        assert at_end.amount == pytest.approx(60 * (0.5 * slow.done + 2.0 * quick.done) / (slow.done + quick.done))
        await pool.p.finish()
        slow, quick = told(pool).values()
        assert slow.done + quick.done == 60
        samples = pool.p.engine.maintenance.sampler
        await samples.take()
        series = await pool.p.ledger.samples.runs.latest([pool.p.run.id])
        assert series[pool.p.run.id].spent == pytest.approx(0.5 * slow.done + 2.0 * quick.done)
        places = await pool.p.ledger.samples.endpoints.latest(pool.p.endpoints)
        assert sorted(each.spent for each in places.values()) == pytest.approx([0.5 * slow.done, 2.0 * quick.done])
        by_ledger = (await members_by_run(pool.p.ledger, [pool.p.run]))[pool.p.run.id]
        assert [each.endpoint for each in by_ledger] == [SLOW, QUICK]
        assert [each.done for each in by_ledger] == [slow.done, quick.done]
        assert [each.state for each in by_ledger] == [None, None], "nobody asks how they are"
        spent = (await run_costs(pool.p.ledger, pool.p.run, {})).spent
        assert spent is not None
        assert spent.amount == pytest.approx(0.5 * slow.done + 2.0 * quick.done)


async def test_who_is_not_well_is_told_with_the_reason(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: THROTTLED_FOUR, QUICK: 8}, jobs=40, seconds=5.0) as pool:
        await pool.p.begin()
        await anyio.sleep(15)
        assert (told(pool)[SLOW].state, told(pool)[SLOW].why) == (MemberState.UNWELL, THROTTLED)
        assert (told(pool)[SLOW].done, told(pool)[SLOW].execution_s, told(pool)[SLOW].cost) == (0, None, None)
        await pool.p.finish()


@pytest.mark.slow
async def test_who_is_no_member_any_more_is_told_for_what_it_has_done(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=60, seconds=5.0) as pool:
        await pool.p.begin()
        await anyio.sleep(12)
        settings = RunSettings(members=(MemberSettings(SLOW), MemberSettings("other")))
        await pool.p.ledger.runs.configure(pool.p.run.id, settings, before=pool.p.run.settings)
        [run] = await pool.p.ledger.runs.all([pool.p.run.id])
        members = (await members_by_run(pool.p.ledger, [run]))[run.id]
        assert [(each.endpoint, each.done > 0) for each in members] == [(SLOW, True), (QUICK, True)]
        await pool.p.finish()


async def test_a_budget_is_spent_by_what_each_member_costs(tmp_path: Path) -> None:
    members = (MemberSettings(SLOW, 0.01), MemberSettings(QUICK, 1.0))
    settings = RunSettings(members=members, budget=100.0)
    async with pooled(tmp_path, {SLOW: 8, QUICK: 2}, jobs=60, seconds=5.0, settings=settings) as pool:
        with anyio.fail_after(600):
            await pool.run()
        slow, quick = told(pool).values()
        assert 5 * (slow.done + quick.done) * 1.0 > 100, "at the dearest price it would have been spent long before"
        assert (slow.cost or 0) + (quick.cost or 0) < 100


async def test_without_a_pool_there_are_no_members(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 4}, jobs=4) as pool:
        await pool.run()
        assert told(pool) == {}
        assert await members_by_run(pool.p.ledger, [pool.p.run]) == {}
