"""How fast a run goes, and when it will be done, by its samples."""

from pathlib import Path

import anyio
import pytest

from orchestrator.api.inspect.status import runs_now
from orchestrator.units import SECOND_US
from orchestrator.views.status import RunStatus
from tests.engine.process import Process, process
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def seen(p: Process, held_by: str | None = "process 7") -> RunStatus:
    [status] = await runs_now(p.ledger, held_by)
    assert status.verdict is not None
    return status


@pytest.mark.slow
async def test_jobs_a_second_are_those_of_the_last_minute_and_tell_when_it_is_done(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=2, seconds=lambda _: 4.0)
    async with (
        service.serving(),
        process(tmp_path / "l.db", service.transport(), clock=clock, jobs=100, sample_every_s=10) as p,
    ):
        await p.begin()
        for after_s in (18, 30, 90):
            await anyio.sleep(after_s)
            found = await seen(p)
            assert found.jobs_per_s is not None
            assert found.jobs_per_s == pytest.approx(0.5, rel=0.4), f"{after_s} s later"
            assert found.verdict is not None
            assert found.verdict.eta_at is not None
            left_s = (found.verdict.eta_at - clock.now()) / SECOND_US
            assert left_s == pytest.approx(found.verdict.left / found.jobs_per_s)
        assert (await seen(p, None)).jobs_per_s is None, "nobody works on it"
        await p.finish()
        assert (await seen(p)).jobs_per_s is None, "it is over"
