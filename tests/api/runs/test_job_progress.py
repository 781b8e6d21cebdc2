"""What is shown of resumable jobs, and how they are cancelled."""

from pathlib import Path

import anyio
import pytest

from orchestrator.api.runs.job_progress import follow, progress_of_jobs, resumable
from orchestrator.core.jobs.lifecycle import State
from orchestrator.errors import UsageError
from orchestrator.ledger.commands.command_types import Action, CancelledRun
from orchestrator.units import SECOND_US
from orchestrator.views.runs.job_progress import RunProgress
from tests.engine.collecting.test_segment_tracker import resumable as settings
from tests.engine.collecting.test_segment_tracker import shows
from tests.engine.process import process
from tests.engine.scripted import CANCELLED, COMPLETED, FAILED, Asked, Reply, Scripted, in_turn

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_how_far_the_jobs_of_a_run_are(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(shows(1, 1), FAILED, shows(3, 3)))
    async with process(tmp_path / "db", transport, jobs=1, settings=settings()) as p:
        await p.begin()
        await p.until_event(lambda step: step.after.state is State.OUTSTANDING and step.after.segment == 2)
        await anyio.sleep(300)
        found = await progress_of_jobs(p.ledger, p.run, 10)
        [job] = found.jobs
        assert (found.run, found.is_whole, job.segment, job.state) == ("run", True, 2, "outstanding")
        assert (job.share, job.message, job.checkpoint_at) == (0.1 * 3, None, job.reported_at)
        assert 200 < job.executed_s < 400
        assert (await progress_of_jobs(p.ledger, p.run, 1)).is_whole


async def test_what_changes_is_followed_until_the_end(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(shows(1), shows(2), shows(2), shows(3), COMPLETED))
    async with process(tmp_path / "db", transport, jobs=1, settings=settings()) as p:
        shown: list[RunProgress] = []
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: follow(p.ledger, p.run, 10, shown.append, stop=anyio.Event()))
            await p.begin()
            await p.finish()
        shares = [each.jobs[0].share for each in shown]
        assert [share for share in shares if share] == [0.1, 0.2, 0.1 * 3]


async def test_it_ends_when_somebody_has_seen_enough(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(), settings=settings()) as p:
        stop = anyio.Event()
        shown: list[RunProgress] = []
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: follow(p.ledger, p.run, 10, shown.append, stop=stop))
            await anyio.sleep(10)
            stop.set()
        assert len(shown) == 1


async def test_jobs_that_are_not_resumable_report_nothing(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted()) as p:
        with pytest.raises(UsageError, match="the jobs of run are not resumable, so they report no progress"):
            resumable(p.run)


async def test_the_story_of_a_job_tells_of_its_segments_and_checkpoints(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(shows(1, 1), shows(2, 2), FAILED, COMPLETED))
    async with process(tmp_path / "db", transport, settings=settings()) as p:
        await p.begin()
        await p.finish()
        [name] = await p.ledger.jobs.custom_ids([1])
        story = await p.ledger.reports.job_details.of(p.run, name)
        assert story is not None
        whole = story
    told = [(step.event, step.reason) for step in whole.timeline]
    assert told == [
        ("claimed", "run"),
        ("accepted", "run"),
        ("segment", "1 begins from nothing"),
        ("checkpoint", "1.1"),
        ("checkpoint", "1.2"),
        ("report", "20 %"),
        ("continued", "status"),
        ("claimed", "run"),
        ("accepted", "run"),
        ("completed", "status"),
    ]
    assert [step.attempt for step in whole.timeline] == [1] * 7 + [2] * 3
    assert [each.given for each in whole.segments] == [None, "1.2"]
    assert [each.checkpoint for each in whole.checkpoints] == ["1.1", "1.2"]


@pytest.mark.parametrize(
    ("grace_s", "checkpoint", "within_s"),
    [pytest.param(7_200, 2, 190, marks=pytest.mark.slow), (120, 1, 220), (0, 1, 5)],
)
async def test_a_cancelled_run_waits_for_the_next_checkpoint_of_its_jobs(
    tmp_path: Path, grace_s: int, checkpoint: int, within_s: float
) -> None:
    transport = Scripted(status=in_turn(shows(1, 1), shows(2, 1), shows(3, 1), shows(4, checkpoint)))

    def cancelled(_asked: Asked) -> Reply:
        transport.scripts["status"] = CANCELLED
        return CANCELLED

    transport.scripts["cancel"] = cancelled
    async with process(tmp_path / "db", transport, settings=settings()) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        await anyio.sleep(65)
        at = p.clock.now()
        await p.ledger.commands.ask(Action.CANCEL, run=p.run.id, argument=CancelledRun(grace_s * SECOND_US))
        await p.engine.commands.run_once()
        await p.finish()
        assert (await p.story())[-1] == "cancelled cancelled"
        took_s = (p.clock.now() - at) / SECOND_US
        assert within_s - 130 <= took_s <= within_s
        assert (await p.ledger.jobs.segments.checkpoint(1) or ((), b""))[1] == str(checkpoint).encode()


@pytest.mark.slow
async def test_the_cancel_leaves_as_soon_as_the_checkpoint_is_known(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(*(shows(n, 1) for n in range(1, 7)), shows(7, 2)), cancel=CANCELLED)
    async with process(tmp_path / "db", transport, settings=settings()) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        await anyio.sleep(65)
        await p.ledger.commands.ask(Action.CANCEL, run=p.run.id, argument=CancelledRun(7_200 * SECOND_US))
        await p.engine.commands.run_once()
        await anyio.sleep(480)  # far longer than it looks closely
        [cancel] = transport.of("cancel")
        asked = [each.at_s for each in transport.of("status")]
        assert 0 <= cancel.at_s - asked[6] < 2


@pytest.mark.slow
async def test_the_cancel_leaves_as_soon_as_the_grace_is_over(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(*(shows(n, 1) for n in range(1, 20))), cancel=CANCELLED)
    async with process(tmp_path / "db", transport, settings=settings()) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        await anyio.sleep(65)
        await p.ledger.commands.ask(Action.CANCEL, run=p.run.id, argument=CancelledRun(444 * SECOND_US))
        over_s = anyio.current_time() + 444
        await p.engine.commands.run_once()
        await anyio.sleep(480)
        [cancel] = transport.of("cancel")
        assert 0 <= cancel.at_s - over_s < 1


@pytest.mark.slow
async def test_who_cancels_again_without_a_grace_waits_no_longer(tmp_path: Path) -> None:
    transport = Scripted(status=shows(1, 1), cancel=CANCELLED)
    async with process(tmp_path / "db", transport, settings=settings()) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        await anyio.sleep(65)  # its checkpoint is known
        for grace_us in (7_200 * SECOND_US, 0):
            await p.ledger.commands.ask(Action.CANCEL, run=p.run.id, argument=CancelledRun(grace_us))
            await p.engine.commands.run_once()
            await anyio.sleep(100)
            assert len(transport.of("cancel")) == (grace_us == 0)
