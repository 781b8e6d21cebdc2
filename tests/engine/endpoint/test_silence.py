"""A service that answers no submission must not use up the tries of the whole queue."""

from pathlib import Path

import anyio
import pytest

from tests.engine.process import process
from tests.engine.scripted import ACCEPTED, COMPLETED, CUT, WELL, Asked, Reply, Scripted

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

BACK_AT_S = 400.0
JOBS = 60


@pytest.mark.parametrize(
    "health",
    [CUT, *(pytest.param(health, marks=pytest.mark.slow) for health in (Reply(502), WELL))],
    ids=["cut", "502", "well"],
)
async def test_a_service_silent_for_minutes_costs_no_job_its_tries(tmp_path: Path, health: Reply) -> None:
    def run(asked: Asked) -> Reply:
        return ACCEPTED if asked.at_s >= BACK_AT_S else CUT

    def well(asked: Asked) -> Reply:
        return WELL if asked.at_s >= BACK_AT_S else health

    transport = Scripted(run=run, status=COMPLETED, health=well)
    async with process(tmp_path / "db", transport, jobs=JOBS) as p:
        await p.begin()
        await anyio.sleep_until(BACK_AT_S)
        sent = len(transport.of("run"))
        await p.finish()
        assert sum("no submission is answered" in warning for warning in p.warnings) == 1
        if health is not WELL:
            assert sent < JOBS / 2, "those claimed for the first quarter of a second; none was tried again"
            assert (await p.counts())["succeeded"] == JOBS
        else:  # only /run is silent: single jobs, a minute apart before long
            assert sent < JOBS / 2 + BACK_AT_S / 30
