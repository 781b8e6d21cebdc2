"""What `doctor` says of an endpoint whose workers do not work: the emulator's, on virtual time, each state made for real."""

from pathlib import Path

import anyio
import pytest

from orchestrator.client import InProcess
from orchestrator.core.diagnosis.causes import Cause
from orchestrator.core.diagnosis.service_rules import COLD_START
from orchestrator.core.text.durations import Policy
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.jobs.scaling_rules import Scaling, fixed
from orchestrator.settings.run_settings import RunSettings
from tests.emulator.emulators import emulator, serving
from tests.engine.doctored import Patient
from tests.simulation.clock import VirtualClock
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.mark.parametrize(
    ("scaling", "low_priority", "after_s", "cause"),
    [
        (fixed(2), False, 20, None),
        (Scaling(workers_max=0), False, 20, Cause.NO_WORKERS),
        (Scaling(workers_max=3), True, 20, Cause.SCALED_TO_ZERO),
        (Scaling(workers_max=3, machines=0), False, 20, Cause.WORKERS_THROTTLED),
        (Scaling(workers_min=2, workers_max=2, cold_start_s=5, is_broken=True), False, 20, Cause.WORKERS_UNHEALTHY),
        (Scaling(workers_max=3, cold_start_s=300), False, 20, None),
        (Scaling(workers_max=3, cold_start_s=300), False, 150, Cause.COLD_START),
    ],
)
async def test_why_jobs_wait_there_is_told(
    scaling: Scaling, low_priority: bool, after_s: float, cause: Cause | None, tmp_path: Path
) -> None:
    clock = VirtualClock()
    served = emulator(clock=clock, scaling=scaling)
    patient = Patient(tmp_path, clock, InProcess(served.app, cut=ConnectionCut))
    assert ENDPOINT == "ep", "the emulator's, too"
    settings = RunSettings(policy=Policy(low_priority=low_priority or None))
    async with serving(served), patient.at_work(jobs=4, settings=settings):
        await anyio.sleep(after_s)
        found = await patient.diagnosis()
        assert [finding.cause for finding in found.findings] == ([] if cause is None else [cause])
        assert found.needs_person is (cause not in (None, Cause.COLD_START))


async def test_a_start_that_takes_no_longer_than_usual_is_told_beside_what_is_well(tmp_path: Path) -> None:
    clock = VirtualClock()
    served = emulator(clock=clock, scaling=Scaling(workers_max=3, cold_start_s=300))
    patient = Patient(tmp_path, clock, InProcess(served.app, cut=ConnectionCut))
    async with serving(served), patient.at_work(jobs=4):
        await anyio.sleep(20)
        found = await patient.diagnosis()
        assert found.asked == (f"{ENDPOINT} at http://service ({COLD_START})",)
