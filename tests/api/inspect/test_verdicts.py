"""How a run stands by what its process says: what a brake does to it, above all."""

from pathlib import Path

import anyio
import pytest

from orchestrator.api.inspect.status import runs_now
from orchestrator.core.diagnosis.verdict import RunStanding, RunVerdict
from orchestrator.core.gates.failure_breaker import BreakerRules
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.ledger import Ledger
from tests.engine.process import process
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def verdict_in(ledger: Ledger, held_by: str | None = "process 7") -> RunVerdict:
    [status] = await runs_now(ledger, held_by)
    assert status.verdict is not None
    return status.verdict


async def test_a_run_whose_breaker_lets_single_jobs_go_is_held_and_ends_at_their_pace(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, work=lambda _raw, _n: WorkerResult(error="KeyError: x"), workers=50)
    async with (
        service.serving(),
        process(tmp_path / "db", service.transport(), clock=clock, jobs=400, breaker=BreakerRules()) as p,
    ):
        await p.begin()
        await anyio.sleep(100)
        found = await verdict_in(p.ledger)
        assert found.standing is RunStanding.ON_HOLD
        assert found.sentence.startswith("Held: single jobs only are sent.")
        assert "KeyError: x" in found.sentence
        assert "KeyError" not in found.brief
        assert found.eta_at is not None
        assert found.eta_at > clock.now() + 300 * 30_000_000, "at one a minute it takes hours"
        unattended = await verdict_in(p.ledger, None)
        assert unattended.standing is RunStanding.WAITING
        assert "KeyError: x" in unattended.sentence
