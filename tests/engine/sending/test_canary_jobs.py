"""What is known of the rows that go first, while it is being asked how they stand."""

from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.sending.canary_jobs import CanaryJobs
from orchestrator.units import WHOLE
from tests.engine.process import process
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_nothing_is_known_of_them_before_all_are(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock)
    async with process(tmp_path / "db", service.transport(), clock=clock, jobs=10) as p:
        canary = CanaryJobs(p.run.id, p.ledger)
        [first] = (await p.ledger.jobs.of([1])).values()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(canary.choose, 3, WHOLE)
            while not canary.ids:
                await checkpoint()
            assert not canary.is_known
            assert canary.observe(replace(first, state=State.SUCCEEDED), WHOLE) is None
        assert (canary.is_known, canary.is_awaited) == (True, True)
        facts = canary.facts(WHOLE)
        assert (facts.chosen, facts.succeeded, facts.has_passed) == (3, 1, False)
