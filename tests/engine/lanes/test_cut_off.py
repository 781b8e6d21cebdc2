"""Answers that are awaited as a process ends, by the lanes whose answer is the result."""

from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.formats.input.rows import Row
from orchestrator.settings.run_settings import RunSettings
from tests.engine.lanes.test_direct_responses import DIRECT, GOOD, replace_after, requests
from tests.engine.lanes.test_sync_lane import DONE, SYNC, held
from tests.engine.process import process
from tests.engine.rows import rows
from tests.engine.scripted import Scripted

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.mark.parametrize(
    ("settings", "jobs", "slow", "good"),
    [
        (SYNC, rows(1), Scripted(runsync=held(output=1, after_s=80.0)), Scripted(runsync=DONE)),
        (DIRECT, requests(1), Scripted(openai=replace_after(GOOD, 80.0)), Scripted(openai=GOOD)),
    ],
)
async def test_what_is_cut_off_as_we_end_is_uncertain_and_goes_on(
    tmp_path: Path, settings: RunSettings, jobs: list[Row], slow: Scripted, good: Scripted
) -> None:
    async with process(tmp_path / "db", slow, jobs=jobs, settings=settings) as p:
        await p.begin()
        await p.until(State.SUBMITTING)
        await anyio.sleep(1)
    async with process(tmp_path / "db", good, settings=settings) as p:
        await p.begin()
        await p.finish()
        assert await p.story() == [
            "claimed", "unanswered uncertain", "retried uncertain", "claimed", "completed",
        ]  # fmt: skip
