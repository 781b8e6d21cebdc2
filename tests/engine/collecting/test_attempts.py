"""What the files say of how often a job was executed, and of how often it may have been paid."""

from pathlib import Path

import pytest

from orchestrator.settings.run_settings import RunSettings
from tests.api.outcomes.test_late_results import LATE
from tests.engine.collecting.test_webhook_inbox import tell
from tests.engine.process import process
from tests.engine.scripted import COMPLETED, CUT, FAILED, Reply, Script, Scripted, in_turn, says

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ACCEPTED = says("IN_QUEUE")


@pytest.mark.parametrize(
    ("run", "status", "attempts", "paid_at_most"),
    [
        (ACCEPTED, COMPLETED, 1, 1),
        (ACCEPTED, in_turn(FAILED, COMPLETED), 2, 2),
        (ACCEPTED, FAILED, 2, 2),
        (in_turn(CUT, CUT, ACCEPTED), COMPLETED, 1, 3),
        (in_turn(CUT, CUT, ACCEPTED), in_turn(FAILED, COMPLETED), 2, 4),
        (in_turn(CUT, ACCEPTED), FAILED, 2, 3),
        (in_turn(Reply(503), ACCEPTED), COMPLETED, 1, 1),
        (CUT, COMPLETED, 0, 4),
        (Reply(400), COMPLETED, 0, 0),
    ],
)
async def test_executions_that_ended_are_told_from_those_that_may_have_been_paid(
    tmp_path: Path, run: Script | Reply, status: Script | Reply, attempts: int, paid_at_most: int
) -> None:
    transport = Scripted(run=run, status=status)
    async with process(tmp_path / "db", transport, settings=RunSettings(max_attempts=2)) as p:
        await p.begin()
        await p.finish()
        [ended] = [*await p.results(), *await p.failures()]
        assert (ended.attempts, ended.paid_at_most) == (attempts, paid_at_most)
        assert ended.attempts <= 2


async def test_a_result_that_comes_after_all_attempts_have_failed_is_one_more(tmp_path: Path) -> None:
    transport = Scripted(run=in_turn(CUT, ACCEPTED), status=FAILED)
    settings = RunSettings(max_attempts=1, uncertain_after_us=5_000_000)
    async with process(tmp_path / "db", transport, settings=settings, webhooks=True) as p:
        await p.begin()
        await p.finish()
        submissions = sorted({event.submission for event in await p.events() if event.submission is not None})
        await tell(p, submissions[0], LATE)
        await p.wait(lambda: p.progress.count("succeeded") == 1)
        [result] = await p.results()
        assert (result.attempts, result.paid_at_most) == (2, 2)
