"""A pool is killed at every commit of its life: as it is widened, as what waits is moved, and as a member comes back.

A process with one endpoint sends the first jobs. The next one is told of a second endpoint. Then there is no machine
for the first one's workers, so that what waits there is cancelled and sent anew; a minute later there is one again.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio

from orchestrator.core.jobs.reasons import ReasonCode
from orchestrator.core.pools.member import MemberSettings
from orchestrator.emulator.jobs.scaling_rules import fixed
from orchestrator.settings.run_settings import RunSettings
from tests.crashes.commits import AtCommit, World, audited
from tests.engine.process import Process, process
from tests.simulation.pool import MemberFleets
from tests.simulation.pool_plan import MemberTrouble, MemberWeather, PoolPlan
from tests.simulation.world import ENDPOINT, SECOND_ENDPOINT, SimulatedService

JOBS = 22
ALONE_S = 2.0
"""For so long the first endpoint is the only one."""

LEAVES_S, RETURNS_S = 8.0, 24.0
POOL = PoolPlan(
    workers=(1, 1),
    speeds=(1.0, 1.0),
    named=(2,),
    weather=(MemberWeather(member=0, trouble=MemberTrouble.THROTTLED, at_s=LEAVES_S, until_s=RETURNS_S),),
)


class PoolWorld(World):
    """Polled, and with no faults: whatever is executed twice is a kill's work."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.service = SimulatedService(
            self.clock,
            endpoints=(ENDPOINT, SECOND_ENDPOINT),
            scaling={ENDPOINT: fixed(1), SECOND_ENDPOINT: fixed(1)},
            seconds=lambda _: 4.0,
        )
        self.has_begun = False

    def life(
        self, commits: AtCommit | None, last: Callable[[Process], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        """The process that knows of both, from its start to the end of the run."""

        async def main() -> None:
            async with self.service.serving(), anyio.create_task_group() as fleets:
                if not self.has_begun:
                    self.has_begun = True
                    await self._alone()
                fleets.start_soon(MemberFleets(POOL).keep, self.service)
                members = (MemberSettings(ENDPOINT), MemberSettings(SECOND_ENDPOINT))
                async with self._process(RunSettings(members=members), commits) as p:
                    await p.begin()
                    await p.finish()
                    await last(p)
                fleets.cancel_scope.cancel()

        return main

    async def _alone(self) -> None:
        async with self._process(RunSettings(), None) as p:
            await p.begin()
            await anyio.sleep(ALONE_S)

    def _process(self, settings: RunSettings, commits: AtCommit | None) -> AbstractAsyncContextManager[Process]:
        transport = self.service.transport(travel_s=lambda: self.chance.uniform(0, 0.1))
        return process(self.path, transport, clock=self.clock, jobs=JOBS, settings=settings, commits=commits)

    async def check(self, p: Process) -> None:
        found = [(job.job, job.output) for job in await p.results()]
        assert found == [(n, b'{"n":%d}' % n) for n in range(1, JOBS + 1)]
        assert await audited(p.ledger) == []
        events = [event for n in range(1, JOBS + 1) for event in await p.events(n)]
        assert any(event.code is ReasonCode.MOVED for event in events)
        executed, in_doubt = self.service.counts.executed, set[bytes]()
        for n in range(1, JOBS + 1):
            again = [event for event in await p.events(n) if event.event == "retried"]
            assert executed[b'{"n":%d}' % n] <= 1 + len(again), await p.story(n)
            assert {event.trouble for event in again} <= {"uncertain", "cancelled"}
            if any(event.trouble == "uncertain" for event in again):
                in_doubt.add(b'{"n":%d}' % n)  # of a submission whose answer never came nobody has the id
        left = [job for job in self.service.world.table.by_id.values() if job.finished_at is None]
        assert {bytes(job.input) for job in left} <= in_doubt, "nothing is at a member any more"
