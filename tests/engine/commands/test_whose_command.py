"""Which engine carries out a command, and that those who did not notice what it has changed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.ledger import Ledger, command_ledger
from orchestrator.ledger.commands.command_types import (
    Action,
    Argument,
    Command,
    NewLimits,
    NewName,
    NewPriority,
    ResetLimits,
    StoppedProcess,
)
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.run_settings import RunSettings
from tests.engine.several import JOBS, ONE, OTHER, Workplace, workplace
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SLOW = RunSettings(queue_depth=1)
ALL = ResetLimits(tuple(Operation))
SEEN_S = 1.0
"""What is asked is seen within a second."""


@asynccontextmanager
async def elsewhere(w: Workplace, path: Path) -> AsyncIterator[Ledger]:
    """The ledger, as another process has it open."""
    async with command_ledger(path, clock=w.process.dependencies.clock, connect=async_creator(path)) as ledger:
        yield ledger


async def asked(
    ledger: Ledger,
    action: Action,
    run: Run | None = None,
    argument: Argument | None = None,
    endpoint: int | None = None,
) -> Command:
    """What came of a command within a second."""
    number = await ledger.commands.ask(
        action, run=None if run is None else run.id, endpoint=endpoint, argument=argument
    )
    return await ledger.commands.answer(number, within_s=SEEN_S)


async def test_a_command_is_carried_out_by_the_engine_of_its_run_and_one_of_no_run_by_the_keepers(
    tmp_path: Path,
) -> None:
    path = tmp_path / "l.db"
    async with workplace(path) as w, elsewhere(w, path) as beside:
        run, other = await w.a_run(ONE, SLOW), await w.a_run(OTHER, SLOW)
        async with w.at_work(run, is_keeper=True) as keeper:
            unanswered = await asked(beside, Action.PAUSE, other)
            assert unanswered.done_at is None, "nobody works on it"
            async with w.at_work(other) as engine:
                await anyio.sleep(SEEN_S)
                assert (await beside.commands.one(unanswered.id)).done_at is not None
                assert engine.host.control.controls(other.id).pause
                assert (await asked(beside, Action.CONTINUE, other)).outcome
                assert not engine.host.control.controls(other.id).pause

                new = Limit(7, 2.0)
                limits = NewLimits({Operation.RUN: new})
                done = await asked(beside, Action.LIMITS_SET, argument=limits, endpoint=other.endpoint_id)
                await anyio.sleep(SEEN_S)
                limiter = engine.endpoints.endpoints[other.endpoint_id].api.limiter
                assert (done.outcome, limiter.limit(Operation.RUN).requests) == ("they are in force", new.requests)
                assert (await asked(beside, Action.TICK)).outcome
                assert keeper.runs.sessions.keys() == {run.id}
            of_nobody = await asked(beside, Action.LIMITS_RESET, argument=ALL, endpoint=other.endpoint_id)
            assert of_nobody.done_at is None, "nobody works there"


async def test_what_asks_for_the_end_of_processes_is_left_to_each_of_several(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with workplace(path) as w, elsewhere(w, path) as beside:
        run = await w.a_run(ONE, SLOW)
        async with w.at_work(run, is_keeper=True):
            mine = StoppedProcess(w.ledger.runs.heartbeats.epoch)
            for action, argument in ((Action.STOP, None), (Action.STOP_PROCESS, mine)):
                assert (await asked(beside, action, argument=argument)).done_at is None
            assert (await asked(beside, Action.TICK)).outcome, "what comes after it is carried out"


async def test_who_did_not_carry_it_out_notices_what_was_changed_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with workplace(path) as w, elsewhere(w, path) as beside:
        run, gone = await w.a_run(ONE, SLOW), await w.a_run(OTHER, SLOW)
        async with w.at_work(run, gone) as engine:
            for action, argument in ((Action.PRIORITY, NewPriority(5)), (Action.RENAME, NewName("new"))):
                await carried_out_elsewhere(beside, action, run, argument)
            await anyio.sleep(SEEN_S)
            assert engine.runs.settings_of[run.id].priority == 5
            assert engine.runs.sessions[run.id].run.name == engine.endpoints.homes.names[run.id] == "new"

            await carried_out_elsewhere(beside, Action.PAUSE, gone)
            await w.until(gone, State.OUTSTANDING, 0)
            await anyio.sleep(30)
            await carried_out_elsewhere(beside, Action.DELETE, gone)
            await anyio.sleep(SEEN_S)
            assert engine.runs.sessions.keys() == {run.id}


async def carried_out_elsewhere(ledger: Ledger, action: Action, run: Run, argument: Argument | None = None) -> None:
    """Another process obeys it at once."""
    number = await ledger.commands.ask(action, run=run.id, argument=argument)
    await ledger.commands.change_ledger(await ledger.commands.one(number))
    done = await ledger.commands.one(number)
    assert not done.is_refused, done.outcome


async def test_a_run_is_served_that_others_take_in_and_none_that_somebody_has_released(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with workplace(path) as w, elsewhere(w, path) as beside:
        run = await w.a_run(ONE, SLOW)
        async with w.at_work(run) as engine:
            later = await w.a_run(ONE, SLOW, name="later", ledger=beside)
            await anyio.sleep(SEEN_S)
            assert engine.runs.sessions.keys() == {run.id, later.id}
            assert (await asked(beside, Action.RELEASE, run)).outcome == "no more of it is sent"
        before = await w.count(run, State.QUEUED)
        assert before > 0
        async with w.at_work(run) as successor:
            await w.until(later, State.SUCCEEDED, JOBS)
            assert successor.runs.sessions.keys() == {later.id}
            assert await w.count(run, State.QUEUED) == before
            assert (await asked(beside, Action.SERVE, run)).outcome == "it is served"
            await w.until(run, State.SUCCEEDED, JOBS)
