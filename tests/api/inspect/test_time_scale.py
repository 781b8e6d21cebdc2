"""An emulator whose time runs faster than the clock: it says so, and what it keeps for half an hour is here kept for less."""

from pathlib import Path

import anyio
import pytest

from orchestrator.api.inspect.status import runs_now
from orchestrator.client.jobs.serverless import TIME_SCALE_MAX, time_scale
from orchestrator.core.diagnosis.causes import Cause
from orchestrator.core.diagnosis.ledger_rules import EXPIRING
from orchestrator.emulator.http.delivery import announced
from orchestrator.ledger import holder, read_ledger
from tests.engine.doctored import Patient
from tests.engine.process import process
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SCALE = 60.0
RETENTION_S = 1_800 / SCALE
"""Of what is agreed, half an hour, so much is left here."""

JOBS = 12


@pytest.mark.parametrize("is_announced", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_a_scaled_service_has_every_result_collected_in_time_once_it_says_so(
    tmp_path: Path, is_announced: bool
) -> None:
    clock = VirtualClock()
    service = SimulatedService(
        clock, workers=6, seconds=lambda rng: rng.choice((5.0, 5.0, 200.0)), retention_s=RETENTION_S
    )
    if is_announced:
        service.app = announced(service.app, SCALE)
    async with service.serving(), process(tmp_path / "db", service.transport(), clock=clock, jobs=JOBS) as p:
        await p.begin()
        await p.finish()
        counts = await p.counts()
        assert counts["succeeded"] == JOBS
        assert p.endpoint.estimates.agreed_us(p.run.id) == (RETENTION_S if is_announced else 1_800) * 1_000_000
        if is_announced:
            assert (counts.get("lost", 0), counts.get("expired", 0), service.paid) == (0, 0, JOBS)


@pytest.mark.parametrize(
    ("told", "scale"), [("60", 60.0), ("0.5", 1.0), ("fast", 1.0), ("nan", 1.0), ("inf", TIME_SCALE_MAX), ("-3", 1.0)]
)
def test_what_makes_no_sense_of_a_time_is_not_believed(told: str, scale: float) -> None:
    assert time_scale(told) == scale


async def test_those_who_look_while_nobody_works_count_with_the_time_that_was_told(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=1, seconds=lambda _: 600.0, retention_s=RETENTION_S)
    service.app = announced(service.app, SCALE)
    patient = Patient(tmp_path, clock, service.transport())
    async with service.serving():
        async with patient.at_work(jobs=5):
            await anyio.sleep(10)
        async with read_ledger(patient.path, clock=clock, connect=async_creator(patient.path)) as ledger:
            [run] = await runs_now(ledger, holder(patient.path))
        assert run.safe_offline_s is not None
        assert run.safe_offline_s <= RETENTION_S
        assert run.finding == EXPIRING
        assert (await patient.causes())[0] is Cause.RESULTS_EXPIRE
