"""A run that gets nowhere is given up, where that was asked for."""

from pathlib import Path

import pytest

from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.errors import StoppedError
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MINUTE_US
from orchestrator.views.status import Summary
from tests.engine.hosting.test_continued import JOBS, desk_in

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

PATIENT = RunSettings(give_up_after_us=MINUTE_US, breaker=OFF)


@pytest.mark.slow
async def test_a_run_whose_jobs_nobody_executes_is_given_up_and_can_be_resumed(tmp_path: Path) -> None:
    async with desk_in(tmp_path, workers=0) as desk:
        with pytest.raises(
            StoppedError,
            match=r"it got nowhere for 1 min \(--give-up-after\); jobs wait, and the endpoint has no workers\. Go on with: ",
        ) as raised:
            await desk.run(settings=PATIENT)
        summary = raised.value.summary
        assert isinstance(summary, Summary)
        assert (summary.jobs["outstanding"], summary.interrupted) == (JOBS, False)
        assert 60 <= summary.wall_s < 80
        with pytest.raises(StoppedError, match="it got nowhere"):
            await desk.resume()


@pytest.mark.slow
async def test_a_run_that_gets_on_slowly_is_not_given_up(tmp_path: Path) -> None:
    async with desk_in(tmp_path, workers=1, seconds=lambda _: 40.0) as desk:
        summary = await desk.run(4, settings=PATIENT)
    assert summary.jobs["succeeded"] == 4
    assert summary.wall_s > 2 * 60
