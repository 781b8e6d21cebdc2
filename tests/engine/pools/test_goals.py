"""How soon a pool is done of which one member dies in the middle, and another has had no machine from the start."""

from pathlib import Path

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.units import SECOND_US
from tests.engine.pools.pooled import MIDDLE, QUICK, SLOW, Pooled, pooled

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.slow]

OTHER = "another"
NO_MACHINE = Scaling(workers_min=6, workers_max=6, machines=0)
AT_MOST = 1.2
"""So many times what the members alone need that are well."""


@pytest.mark.parametrize(
    ("seconds", "dying", "throttled"), [(2.0, SLOW, MIDDLE), (10.0, MIDDLE, SLOW)], ids=["home dies", "home starves"]
)
async def test_who_is_well_loses_no_time_by_one_that_dies_and_one_without_machines(
    tmp_path: Path, seconds: float, dying: str, throttled: str
) -> None:
    members = {SLOW: 8, MIDDLE: 8, OTHER: 4, QUICK: 8} | {throttled: NO_MACHINE}
    jobs = round(2_400 / seconds)
    async with pooled(tmp_path, members, jobs=jobs, seconds=seconds) as pool:
        await pool.p.begin()
        await pool.p.wait(lambda: pool.p.progress.count(State.SUCCEEDED.value) >= jobs // 2)
        pool.dead.add(dying)
        died_at, left = pool.p.clock.now(), pool.p.progress.unfinished
        await pool.p.finish()
        took_s = (pool.p.clock.now() - died_at) / SECOND_US
        assert took_s < AT_MOST * left * seconds / 12
        assert len(await pool.p.results()) == jobs
        assert not (await pool.done_at())[throttled]
        assert await uncertain(pool) >= {raw for raw, n in pool.service.counts.executed.items() if n > 1}


async def uncertain(pool: Pooled) -> set[object]:
    """The inputs of jobs of which nobody could say whether the member that died executed them."""
    found: set[object] = set()
    for n in range(1, pool.p.progress.total + 1):
        if "retried uncertain" in await pool.p.story(n):
            found.add(b'{"n":%d}' % n)
    return found
