"""Commands: asked by anybody, carried out and acknowledged once."""

from pathlib import Path

import anyio
import pytest

from orchestrator.core.pacing import Limit, Operation
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands import (
    ENDED,
    NO_RUN,
    Action,
    Argument,
    Command,
    NewLimits,
    NewPriority,
    Reply,
    ResetLimits,
)
from orchestrator.ledger.control import Wishes
from tests.factories import S
from tests.ledger.ledgers import a_run, opened
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

RUN = Operation.RUN


async def obeyed(
    ledger: Ledger,
    action: str,
    *,
    run: int | None = None,
    endpoint: int | None = None,
    argument: Argument | None = None,
) -> Command:
    """The command once it was carried out."""
    number = await ledger.commands.ask(action, run=run, endpoint=endpoint, argument=argument)
    [command] = await ledger.commands.pending()
    assert command.id == number
    await ledger.commands.obey(command)
    return await ledger.commands.one(number)


async def test_a_command_says_who_asked_what_when_and_what_came_of_it(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with opened(tmp_path / "l.db", clock=clock) as ledger:
        run = await a_run(ledger, 2)
        asked_at = clock.now()
        number = await ledger.commands.ask(Action.CANCEL, run=run.id)
        await anyio.sleep(3)
        await ledger.commands.take(number)
        await anyio.sleep(2)
        [command] = await ledger.commands.pending()
        assert command.taken_at is not None
        assert command.taken_at - command.asked_at == pytest.approx(3 * S, abs=S // 10)
        await ledger.commands.obey(command)
        found = await ledger.commands.one(number)
        assert (found.action, found.run) == ("cancel", run.id)
        assert abs(found.asked_at - asked_at) < S
        assert "@" in found.asked_by
        assert found.taken_at == command.taken_at
        assert found.done_at is not None
        assert found.outcome == "nothing more of it is sent, and 2 unfinished jobs are being cancelled"
        assert await ledger.commands.pending() == []
        assert await ledger.runs.wishes(run.id) == Wishes(cancel=True)


async def test_what_is_acknowledged_is_not_carried_out_again(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger, 1)
        first = await ledger.commands.ask(Action.PAUSE, run=run.id)
        [command] = await ledger.commands.pending()
        await ledger.commands.obey(command)
        await obeyed(ledger, Action.CONTINUE, run=run.id)
        await ledger.commands.obey(command)  # by a process that had read it before
        assert await ledger.runs.wishes(run.id) == Wishes()
        await ledger.commands.finish(first, Reply("later", is_refused=True))
        assert (await ledger.commands.one(first)).outcome == "nothing more of it is sent"


async def test_the_same_command_twice_is_harmless(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger, 1)
        both = [await ledger.commands.ask(Action.CANCEL, run=run.id) for _ in range(2)]
        for command in await ledger.commands.pending():
            await ledger.commands.obey(command)
        first, second = [await ledger.commands.one(number) for number in both]
        assert first.outcome == second.outcome
        assert await ledger.runs.wishes(run.id) == Wishes(cancel=True)


async def test_limits_and_priority_are_changed_by_commands(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger, 1)
        chosen = NewLimits({RUN: Limit(5, 1, 2), Operation.STATUS: Limit(7, 1)})
        assert not (await obeyed(ledger, Action.LIMITS_SET, endpoint=run.endpoint_id, argument=chosen)).is_refused
        reset = ResetLimits((Operation.STATUS,))
        assert not (await obeyed(ledger, Action.LIMITS_RESET, endpoint=run.endpoint_id, argument=reset)).is_refused
        assert {operation: each.limit for operation, each in (await ledger.limits.all())[1].items()} == {
            RUN: Limit(5, 1, 2)
        }
        done = await obeyed(ledger, Action.PRIORITY, run=run.id, argument=NewPriority(7))
        assert done.outcome == "it takes its turns with priority 7"
        found = await ledger.runs.named(run.name)
        assert found is not None
        assert found.settings.priority == 7


async def test_what_cannot_be_done_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger, 1)
        gone = [
            await obeyed(ledger, Action.PAUSE, run=99),
            await obeyed(ledger, Action.PRIORITY, run=99, argument=NewPriority(1)),
        ]
        assert [(each.outcome, each.is_refused) for each in gone] == [(NO_RUN, True)] * 2
        garbled = await obeyed(ledger, Action.PRIORITY, run=run.id, argument=ResetLimits(()))
        assert garbled.is_refused
        assert (garbled.outcome or "").startswith("priority cannot be understood here: ")
        loud = await obeyed(ledger, Action.PRIORITY, run=run.id, argument=NewPriority(99))
        assert (loud.is_refused, loud.outcome) == (True, "priority 99 is not from -10 to 10")


async def test_a_command_for_a_run_that_has_ended_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger, 0)
        assert (await obeyed(ledger, Action.CANCEL, run=run.id)).outcome == ENDED


async def test_whoever_asks_waits_for_the_answer_but_not_for_ever(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger, anyio.create_task_group() as group:
        run = await a_run(ledger, 1)

        async def later(number: int) -> None:
            await anyio.sleep(2)
            await ledger.commands.finish(number, Reply("done"))

        first, second = [await ledger.commands.ask(Action.RETRY, run=run.id) for _ in range(2)]
        begun = anyio.current_time()
        group.start_soon(later, first)
        assert (await ledger.commands.answer(first)).outcome == "done"
        assert anyio.current_time() - begun == pytest.approx(2, abs=0.2)
        assert (await ledger.commands.answer(second)).done_at is None
        assert anyio.current_time() - begun == pytest.approx(7, abs=0.3)


async def test_commands_of_long_ago_are_forgotten_once_acknowledged(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        old, pending = [await ledger.commands.ask(Action.RETRY, run=1) for _ in range(2)]
        await ledger.commands.finish(old, Reply("done"))
        await anyio.sleep(31 * 24 * 3_600)
        number = await ledger.commands.ask(Action.RETRY, run=1)
        assert [each.id for each in await ledger.commands.pending()] == [pending, number]
        with pytest.raises(ValueError, match="not enough values"):
            await ledger.commands.one(old)
