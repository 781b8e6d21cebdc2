"""Commands: asked by anybody, carried out and acknowledged once."""

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transitions import reopened
from orchestrator.ledger.commands.command_types import NO_RUN, Action, NewPriority, Reply, ReplyCode, ResetLimits
from orchestrator.ledger.transactions.run_controls import RunControls
from orchestrator.settings.run_settings import RunSettings
from tests.factories import S
from tests.ledger.ledgers import OpenLedger, a_run, brought_to, obeyed
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_a_command_says_who_asked_what_when_and_what_came_of_it(open_file: OpenLedger) -> None:
    clock = VirtualClock()
    async with open_file(clock=clock) as ledger:
        run = await a_run(ledger, 2)
        asked_at = clock.now()
        number = await ledger.commands.ask(Action.CANCEL, run=run.id)
        await anyio.sleep(3)
        await ledger.commands.take(number)
        await anyio.sleep(2)
        [command] = await ledger.commands.pending()
        assert command.taken_at is not None
        assert command.taken_at - command.asked_at == pytest.approx(3 * S, abs=S // 10)
        await ledger.commands.change_ledger(command)
        found = await ledger.commands.one(number)
        assert (found.action, found.run) == ("cancel", run.id)
        assert abs(found.asked_at - asked_at) < S
        assert "@" in found.asked_by
        assert found.taken_at == command.taken_at
        assert found.done_at is not None
        assert found.outcome == "nothing more of it is sent; 2 unfinished jobs to be cancelled"
        assert await ledger.commands.pending() == []
        assert await ledger.runs.controls(run.id) == RunControls(cancel=True)


async def test_that_whoever_works_is_to_stop_is_seen_by_who_was_there_before(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        before = await ledger.commands.asked()
        await ledger.commands.ask(Action.TICK)
        assert not await ledger.commands.is_stop_asked(since=before)
        await ledger.commands.ask(Action.STOP)
        assert await ledger.commands.is_stop_asked(since=before)
        assert not await ledger.commands.is_stop_asked(since=await ledger.commands.asked())


async def test_what_is_acknowledged_is_not_carried_out_again(open_file: OpenLedger) -> None:
    async with open_file() as ledger, open_file() as other:
        run = await a_run(ledger, 1)
        first = await ledger.commands.ask(Action.PAUSE, run=run.id)
        [command] = await other.commands.pending()
        await ledger.commands.change_ledger(command)
        await obeyed(ledger, Action.CONTINUE, run=run.id)
        await other.commands.change_ledger(command)  # which it had read before
        assert await other.runs.controls(run.id) == RunControls()
        for late in (ledger, other):
            await late.commands.finish(first, Reply("later", is_refused=True))
        found = await other.commands.one(first)
        assert (found.outcome, found.is_refused) == ("nothing more of it is sent", False)


async def test_commands_are_told_in_the_order_in_which_they_were_asked_and_can_be_done_in_any(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger, open_file() as other:
        runs = [await a_run(ledger, 1, name=name) for name in ("a", "b", "c", "d")]
        whoever = (ledger, other, other, ledger)
        asked = [await by.commands.ask(Action.PAUSE, run=run.id) for by, run in zip(whoever, runs, strict=True)]
        pending = await other.commands.pending()
        assert [command.id for command in pending] == asked == sorted(set(asked))
        left = list(asked)
        for n, by in ((2, ledger), (0, other), (3, other), (1, ledger)):
            await by.commands.change_ledger(pending[n])
            left.remove(asked[n])
            assert [command.id for command in await ledger.commands.pending()] == left
            assert (await ledger.runs.asked()).keys() == {run.id for run in runs} - {
                command.run for command in await other.commands.pending()
            }


async def test_what_was_begun_when_its_process_was_killed_is_there_for_the_next(open_file: OpenLedger) -> None:
    clock = VirtualClock()
    async with open_file(clock=clock) as ledger:
        run = await a_run(ledger, 1)
        long = await ledger.commands.ask(Action.RETRY, run=run.id)
        short = await ledger.commands.ask(Action.PAUSE, run=run.id)
        for number in (long, short):
            await ledger.commands.take(number)
        begun_at = (await ledger.commands.one(long)).taken_at
    async with open_file(clock=clock) as ledger:
        await anyio.sleep(60)
        assert [command.id for command in await ledger.commands.pending()] == [long, short]
        await ledger.commands.take(long)
        await ledger.commands.finish(long, Reply("1 failed job is queued again"))
        await ledger.commands.change_ledger(await ledger.commands.one(short))
        found = await ledger.commands.one(long)
        assert (found.taken_at, found.outcome) == (begun_at, "1 failed job is queued again")
        assert await ledger.runs.controls(run.id) == RunControls(pause=True)
        assert await ledger.commands.pending() == []


async def test_the_same_command_twice_is_harmless(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 1)
        both = [await obeyed(ledger, Action.CANCEL, run=run.id) for _ in range(2)]
        assert both[0].outcome == both[1].outcome
        assert await ledger.runs.controls(run.id) == RunControls(cancel=True)


async def test_a_priority_is_changed_by_a_command_and_nothing_else_with_it(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 1, settings=RunSettings(max_attempts=7))
        done = await obeyed(ledger, Action.PRIORITY, run=run.id, argument=NewPriority(7))
        assert done.outcome == "it takes its turns with priority 7"
        found = await ledger.runs.named(run.name)
        assert found is not None
        assert found.settings == RunSettings(max_attempts=7, priority=7)


async def test_what_cannot_be_done_is_refused_with_a_sentence(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
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


async def test_a_command_for_a_run_that_has_ended_says_so(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 0)
        assert (await obeyed(ledger, Action.CANCEL, run=run.id)).code is ReplyCode.HAD_ENDED


async def test_whoever_asks_waits_for_the_answer_but_not_for_ever(open_file: OpenLedger) -> None:
    async with open_file() as ledger, anyio.create_task_group() as group:
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


async def test_of_a_run_that_was_taken_back_nothing_is_done_again(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 1)
        job = await brought_to(ledger, State.FAILED, ledger.now(), job=1)
        number = await ledger.commands.ask(Action.RETRY, run=run.id)
        assert await ledger.runs.take_back(run.id)
        assert await ledger.commands.apply(number, [reopened(job, at=ledger.now())]) == frozenset()
        assert (await ledger.commands.one(number)).progress == 0


async def test_commands_of_long_ago_are_forgotten_once_acknowledged(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        old, pending = [await ledger.commands.ask(Action.RETRY, run=1) for _ in range(2)]
        await ledger.commands.finish(old, Reply("done"))
        await anyio.sleep(31 * 24 * 3_600)
        number = await ledger.commands.ask(Action.RETRY, run=1)
        assert [each.id for each in await ledger.commands.pending()] == [pending, number]
        with pytest.raises(ValueError, match="not enough values"):
            await ledger.commands.one(old)
