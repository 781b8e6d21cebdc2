"""How much longer a pool takes than its members together could, as a share of that."""

from pathlib import Path
from typing import Final

import msgspec

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.lanes.via import Via
from orchestrator.core.pools.member import MemberSettings
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.engine.pools.pooled import MIDDLE, QUICK, SLOW, SPEEDS, Pooled, pooled, server_at
from tests.simulation.world import SERVER_PATH

OTHER: Final = "another"
NO_MACHINE: Final = Scaling(workers_min=6, workers_max=6, machines=0)


class Goal(msgspec.Struct, frozen=True):
    """What came of a run."""

    longer: float
    """By which share of the time that the members that are well need at least it took longer."""

    twice: int
    """Jobs that were executed twice, and were not uncertain."""

    at_starving: int = 0
    """Results of the member that has no machine."""


async def of_speeds(folder: Path) -> Goal:
    """Members of one, two and four times the speed."""
    async with pooled(folder, SPEEDS, jobs=1_400) as pool:
        took_s = await pool.run()
        return Goal(took_s * sum(SPEEDS.values()) / 1_400 - 1, pool.service.paid - len(await pool.p.results()))


async def of_lanes(folder: Path) -> Goal:
    """A queue, and a server at a URL that is as fast."""
    members = (MemberSettings(SLOW), MemberSettings(server_at(QUICK), via=Via.HTTP, path=SERVER_PATH))
    async with pooled(folder, {SLOW: 8, QUICK: 8}, jobs=1_400, settings=RunSettings(members=members)) as pool:
        took_s = await pool.run()
        return Goal(took_s * 16 / 1_400 - 1, pool.service.paid - len(await pool.p.results()))


async def of_troubles(folder: Path, *, seconds: float, dying: str, starving: str) -> Goal:
    """Four members, one of which has no machine from the start, and one refuses the connection from the middle on.

    Counted is from then on.
    """
    members = {SLOW: 8, MIDDLE: 8, OTHER: 4, QUICK: 8} | {starving: NO_MACHINE}
    jobs = round(2_400 / seconds)
    async with pooled(folder, members, jobs=jobs, seconds=seconds) as pool:
        await pool.p.begin()
        await pool.p.wait(lambda: pool.p.progress.count(State.SUCCEEDED.value) >= jobs // 2)
        pool.dead.add(dying)
        died_at, left = pool.p.clock.now(), pool.p.progress.unfinished
        await pool.p.finish()
        took_s = (pool.p.clock.now() - died_at) / SECOND_US
        assert len(await pool.p.results()) == jobs
        twice = {raw for raw, n in pool.service.counts.executed.items() if n > 1}
        at_starving = (await pool.done_at())[starving]
        return Goal(took_s * 12 / (left * seconds) - 1, len(twice - await _uncertain(pool)), at_starving)


async def _uncertain(pool: Pooled) -> set[object]:
    """The inputs of jobs of which nobody could say whether the member that died executed them."""
    found: set[object] = set()
    for n in range(1, pool.p.progress.total + 1):
        if "retried uncertain" in await pool.p.story(n):
            found.add(b'{"n":%d}' % n)
    return found
