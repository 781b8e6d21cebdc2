"""What people ask of a run from another process."""

from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.commands.command_types import Action
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnUncertain
from tests.engine.process import Process, process
from tests.engine.scripted import CANCELLED, CUT, IN_PROGRESS, Asked, Reply, Scripted, numbered, says
from tests.ledger.ledgers import obeyed

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

JOBS = 300
"""More than can be sent before the word arrives."""


async def ask(p: Process, action: Action) -> None:
    await obeyed(p.ledger, action, run=p.run.id)
    p.control.on_change()
    await anyio.sleep(0.6)


@pytest.mark.slow
async def test_a_paused_run_sends_nothing_and_collects_and_goes_on_when_it_continues(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=lambda asked: says("COMPLETED", asked.remote_id, output=1))
    async with process(tmp_path / "db", transport, jobs=JOBS) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 50)
        await ask(p, Action.PAUSE)
        sent = len(transport.of("run"))
        assert 50 <= sent < JOBS
        await anyio.sleep(60)
        assert len(transport.of("run")) == sent == p.progress.count("succeeded")
        await ask(p, Action.CONTINUE)
        await p.finish()
        assert p.progress.count("succeeded") == JOBS
        assert [warning.partition(":")[0] for warning in p.warnings] == ["run is paused", "run continues"]


async def test_a_cancelled_run_ends_and_results_that_still_arrive_count(tmp_path: Path) -> None:
    def status(asked: Asked) -> Reply:
        if asked.remote_id == "r-1":
            return says("COMPLETED", "r-1", output=1) if transport.of("cancel") else IN_PROGRESS
        cancelled = {question.remote_id for question in transport.of("cancel")}
        return CANCELLED if asked.remote_id in cancelled else IN_PROGRESS

    transport = Scripted(run=numbered(), status=status)
    async with process(tmp_path / "db", transport, jobs=JOBS) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 30)
        await ask(p, Action.CANCEL)
        sent = len(transport.of("run"))
        await p.finish()
        assert len(transport.of("run")) == sent < JOBS
        assert len(transport.of("cancel")) == sent
        assert (p.progress.count("succeeded"), p.progress.count("cancelled")) == (1, JOBS - 1)


async def test_a_run_that_was_cancelled_while_nobody_worked_on_it_is_not_begun(tmp_path: Path) -> None:
    transport = Scripted()
    async with process(tmp_path / "db", transport, jobs=5) as p:
        await obeyed(p.ledger, Action.CANCEL, run=p.run.id)
        await p.begin()
        await p.finish()
        assert transport.asked == []
        assert await p.counts() == {"cancelled": 5}


async def test_of_one_that_had_ended_before_nothing_is_told_whoever_comes_to_serve_its_endpoint(tmp_path: Path) -> None:
    for cancelled in (5, 0):
        async with process(tmp_path / "db", Scripted(), jobs=cancelled) as p:
            await obeyed(p.ledger, Action.CANCEL, run=1)
            await p.begin()
            await p.finish()
            assert any("is cancelled: nothing more is sent" in warning for warning in p.warnings) is bool(cancelled)


async def test_what_is_asked_and_taken_back_is_told_once_each_whoever_looks_at_the_same_time(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=lambda asked: says("IN_PROGRESS", asked.remote_id))
    async with process(tmp_path / "db", transport, jobs=5) as p:
        await p.begin()

        async def follow() -> None:
            while not is_obeyed.is_set():
                await p.engine.host.control.follow()
            await p.engine.host.control.follow()

        for action in (Action.PAUSE, Action.CONTINUE):
            is_obeyed = anyio.Event()
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(follow)
                await obeyed(p.ledger, action, run=p.run.id)
                is_obeyed.set()
        assert len([warning for warning in p.warnings if "is paused" in warning]) == 1
        assert len([warning for warning in p.warnings if warning.endswith("continues")]) == 1


@pytest.mark.parametrize("settings", [RunSettings(), RunSettings(on_uncertain=OnUncertain.HOLD)])
async def test_an_uncertain_submission_of_a_cancelled_run_ends_at_once_and_is_not_made_anew(
    tmp_path: Path, settings: RunSettings
) -> None:
    transport = Scripted(run=CUT)
    async with process(tmp_path / "db", transport, settings=settings) as p:
        await p.begin()
        await p.until(State.UNCERTAIN)
        await ask(p, Action.CANCEL)
        with anyio.fail_after(1):
            await p.finish()
        assert len(transport.of("run")) == 1
        assert await p.story() == ["claimed", "unanswered uncertain", "cancelled cancelled"]
        assert await p.counts() == {"cancelled": 1, "uncertain_seen": 1}, "nothing was submitted anew"
        [failure] = await p.failures()
        assert "never came" in (failure.message or "")
