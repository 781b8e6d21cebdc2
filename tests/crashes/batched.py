"""A run whose jobs leave in batches is killed at every commit of its life: as a batch is made, gets rows, is finalized,
and as its pages are read.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from orchestrator.core.lanes.via import Via
from orchestrator.emulator.batches.batch_rules import BatchRules
from orchestrator.settings.run_settings import RunSettings
from tests.crashes.commits import AtCommit, World, audited
from tests.engine.process import Process, process
from tests.simulation.world import SimulatedService

JOBS = 14


class BatchWorld(World):
    """Two batches, of which the rows are named as they are added; nothing is lost but by a kill."""

    settings = RunSettings(via=Via.BATCH, batch_rows=9)
    rules = BatchRules(append_ids=True, delay_s=30.0)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.service = SimulatedService(self.clock, batch=self.rules, seconds=lambda _: 4.0)

    def life(
        self, commits: AtCommit | None, last: Callable[[Process], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        async def main() -> None:
            transport = self.service.transport(travel_s=lambda: self.chance.uniform(0, 0.1))
            async with (
                self.service.serving(),
                process(
                    self.path, transport, clock=self.clock, jobs=JOBS, settings=self.settings, commits=commits
                ) as p,
            ):
                await p.begin()
                await p.finish()
                await last(p)

        return main

    async def check(self, p: Process) -> None:
        found = [(job.job, job.output) for job in await p.results()]
        assert found == [(n, b'{"n":%d}' % n) for n in range(1, JOBS + 1)]
        assert await audited(p.ledger) == []
        executed = self.service.counts.executed
        assert dict(executed) == {b'{"n":%d}' % n: 1 for n in range(1, JOBS + 1)}, "none is executed twice"
        assert all(job.attempt == 1 for job in [await p.job(n) for n in range(1, JOBS + 1)])


class PlacedWorld(BatchWorld):
    """The same where appends name no rows, and each is found by its place."""

    rules = BatchRules(delay_s=30.0)
