"""With `prefer = "cheap"` a job goes to the cheapest member that has room, and to a dearer one only what would wait."""

from pathlib import Path

import pytest

from orchestrator.core.pools.member import MemberSettings, Prefer
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MINUTE_US, SECOND_US
from tests.engine.pools.pooled import QUICK, SLOW, pooled
from tests.engine.pools.test_unwell import THROTTLED_FOUR
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CHEAP = RunSettings(
    members=(MemberSettings(SLOW, 0.4), MemberSettings(QUICK, 0.1)), prefer=Prefer.CHEAP, spill_after_us=MINUTE_US
)
"""The second that is named is the cheapest."""


async def test_what_the_cheapest_ends_in_time_goes_nowhere_else(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=40, seconds=5.0, settings=CHEAP) as pool:
        await pool.run()
        assert await pool.done_at() == {QUICK: 40}


@pytest.mark.slow
async def test_what_would_wait_too_long_goes_to_the_next(tmp_path: Path) -> None:
    settings = RunSettings(members=CHEAP.members, prefer=Prefer.CHEAP, spill_after_us=10 * SECOND_US)
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=80, seconds=5.0, settings=settings) as pool:
        took_s = await pool.run()
        done = await pool.done_at()
        assert done[QUICK] > done[SLOW] > 20, "both are at work until the cheap one ends the rest in ten seconds"
        assert took_s < 0.75 * 80 * 5.0 / 4
        assert pool.service.paid == 80


@pytest.mark.slow
async def test_what_would_miss_the_end_goes_to_the_next_however_long_it_may_wait(tmp_path: Path) -> None:
    clock = VirtualClock()
    patient = RunSettings(
        members=CHEAP.members,
        prefer=Prefer.CHEAP,
        spill_after_us=600 * MINUTE_US,
        finish_by=clock.now() + 200 * SECOND_US,
    )
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=200, seconds=5.0, settings=patient, clock=clock) as pool:
        took_s = await pool.run()
        done = await pool.done_at()
        assert took_s < 215, "the cheapest alone would take 250 s"
        assert 20 < done[SLOW] < 70, "and it does all that it can"


async def test_where_the_cheapest_is_not_well_the_next_takes_all(tmp_path: Path) -> None:
    async with pooled(tmp_path, {SLOW: 4, QUICK: THROTTLED_FOUR}, jobs=20, seconds=5.0, settings=CHEAP) as pool:
        await pool.run()
        assert await pool.done_at() == {SLOW: 20}
        assert pool.service.paid == 20


async def test_without_any_prices_the_first_that_is_named_is_the_cheapest(tmp_path: Path) -> None:
    members = (MemberSettings(SLOW), MemberSettings(QUICK))
    settings = RunSettings(members=members, prefer=Prefer.CHEAP, spill_after_us=MINUTE_US)
    async with pooled(tmp_path, {SLOW: 4, QUICK: 4}, jobs=20, seconds=5.0, settings=settings) as pool:
        await pool.run()
        assert await pool.done_at() == {SLOW: 20}
