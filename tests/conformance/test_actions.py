"""Actions: what people have asked, by which way, and what came of it, in the transaction that does it."""

import msgspec
import pytest

from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.ledger import Ledger
from orchestrator.ledger.actions.action_rows import KEPT_US, Act, ActionRow, AskedBefore, Ended, SubjectKind
from orchestrator.ledger.actions.asker import BY_COMMAND, BY_PYTHON, ActionWay, Asker
from orchestrator.ledger.commands.command_types import Action, CancelledJobs, NewPriority, Reply
from orchestrator.ledger.flows.flow_actions import MadeUp
from orchestrator.settings.command_requests import RetryChoice
from orchestrator.units import HOUR_US, SECOND_US
from tests.ledger.ledgers import OpenLedger, a_run
from tests.ledger.pipelines import a_pipeline, applied
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FORM = Asker(way=ActionWay.PAGE, by="anna", form="f1", count=3, where="class=timed_out")


async def latest(ledger: Ledger) -> ActionRow:
    return (await ledger.actions.page(most=1))[0]


async def test_a_command_that_somebody_asks_for_stands_there_with_what_came_of_it(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 2, name="night")
        number = await ledger.commands.ask(Action.PRIORITY, run=run.id, argument=NewPriority(3), asked=BY_COMMAND)
        asked = await latest(ledger)
        assert (asked.way, asked.verb, asked.kind, asked.number) == (
            ActionWay.COMMAND,
            "priority",
            SubjectKind.RUN,
            run.id,
        )
        assert (asked.subject, asked.command, asked.outcome, asked.done_at) == ("night", number, None, None)
        assert "@" in asked.asked_by
        assert msgspec.json.decode(asked.options) == {"priority": "3"}
        [command] = await ledger.commands.pending()
        await ledger.commands.change_ledger(command)
        done = await latest(ledger)
        assert done.outcome == "it takes its turns with priority 3"
        assert done.done_at == (await ledger.commands.one(number)).done_at
        assert not done.is_refused
        assert done.done_n is None


async def test_what_programs_ask_of_each_other_is_no_action(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await ledger.commands.ask(Action.TICK)
        assert await ledger.actions.page(most=9) == []


async def test_a_refusal_stands_there_and_how_far_something_has_come(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 2)
        choice = RetryChoice(where="class=lost", execution_timeout_ms=90_000, max_attempts=2)
        number = await ledger.commands.ask(Action.RETRY, run=run.id, argument=choice, asked=BY_PYTHON)
        await ledger.commands.take(number)
        begun = await latest(ledger)
        assert begun.taken_at is not None
        assert begun.where == "class=lost"
        assert msgspec.json.decode(begun.options) == {"execution timeout": "90 s", "max attempts": "2"}
        await ledger.commands.finish(number, Reply("it is to be cancelled", is_refused=True))
        refused = await latest(ledger)
        assert (refused.way, refused.is_refused, refused.outcome) == (ActionWay.PYTHON, True, "it is to be cancelled")
        cancelled = await ledger.commands.ask(
            Action.CANCEL_JOBS, run=run.id, argument=CancelledJobs("id=1"), asked=FORM
        )
        row = await latest(ledger)
        assert (row.where, row.asked_n, row.asked_by, row.done_n) == ("id=1", 3, "anna", None)
        await ledger.commands.finish(cancelled, Reply("nothing to cancel"))
        assert (await latest(ledger)).done_n == 0


async def test_a_form_acts_once_whatever_it_asks_for(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 1)
        of = await applied(ledger, a_pipeline(), now=ledger.now())
        await ledger.commands.ask(Action.PAUSE, run=run.id, asked=FORM)
        [first] = await ledger.actions.page(most=9)
        with pytest.raises(AskedBefore) as again:
            await ledger.commands.ask(Action.PAUSE, run=run.id, asked=FORM)
        assert again.value.action == first.id
        at = ledger.now() // SECOND_US * SECOND_US
        with pytest.raises(AskedBefore):
            await ledger.flows.add(of.id, of.name, of.definition, [at], FlowKind.TRIGGERED, asked=FORM)
        with pytest.raises(AskedBefore):
            await ledger.flows.pipelines.pause(of, now=ledger.now(), until=None, note="x", asked=FORM)
        assert len(await ledger.commands.pending()) == 1
        assert await ledger.flows.names() == []
        now = await ledger.flows.pipelines.named(of.name)
        assert now is not None
        assert now.watermark == of.watermark
        assert await ledger.actions.of_form("f1") == first
        assert await ledger.actions.of_form("f2") is None


async def test_what_is_asked_of_flows_is_written_where_it_is_done(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        of = await applied(ledger, a_pipeline(), now=ledger.now())
        at = ledger.now() // SECOND_US * SECOND_US
        [name] = await ledger.flows.add(of.id, of.name, of.definition, [at], FlowKind.TRIGGERED, asked=BY_COMMAND)
        fired = await latest(ledger)
        assert (fired.verb, fired.kind, fired.number) == ("fire", SubjectKind.PIPELINE, of.id)
        assert (fired.asked_n, fired.done_n, fired.outcome) == (1, 1, f"{name} was made")
        again = [at, at + HOUR_US]
        made_up = MadeUp(parallel=2)
        await ledger.flows.add(
            of.id, of.name, of.definition, again, FlowKind.BACKFILL, made_up=made_up, asked=BY_COMMAND
        )
        filled = await latest(ledger)
        assert (filled.verb, filled.asked_n, filled.done_n) == ("backfill", 2, 1)
        assert msgspec.json.decode(filled.options)["first"] == name
        flow = await ledger.flows.named(name)
        assert flow is not None
        assert not await ledger.flows.proceed(flow.id, asked=BY_COMMAND)
        assert (await latest(ledger)) == filled
        assert await ledger.flows.cancel(flow.id, "enough", asked=BY_COMMAND)
        assert [row.verb for row in await ledger.actions.about(SubjectKind.FLOW, flow.id, 9)] == ["cancel"]
        assert await ledger.flows.rerun(flow.id, ["caption"], only_failed=True, asked=BY_COMMAND)
        rerun = await latest(ledger)
        assert (rerun.verb, rerun.subject) == ("rerun", name)
        assert msgspec.json.decode(rerun.options) == {"stages": "caption", "only": "what has failed"}


async def test_what_is_asked_of_schedules_is_written_where_it_is_done(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        of = await applied(ledger, a_pipeline(), now=ledger.now())
        now = ledger.now()
        assert await ledger.flows.pipelines.pause(of, now=now, until=None, note="stocktaking", asked=BY_COMMAND)
        assert not await ledger.flows.pipelines.pause(of, now=now, until=None, note="again", asked=BY_COMMAND)
        paused = await ledger.flows.pipelines.named(of.name)
        assert paused is not None
        assert await ledger.flows.pipelines.proceed(paused, now=now + 1, gap=None, catch_up=False, asked=BY_PYTHON)
        assert await ledger.flows.pipelines.unschedule(of, asked=BY_COMMAND)
        assert not await ledger.flows.pipelines.unschedule(of, asked=BY_COMMAND)
        rows = await ledger.actions.about(SubjectKind.PIPELINE, of.id, 9)
        assert [row.verb for row in rows] == ["schedule-remove", "schedule-continue", "schedule-pause"]
        assert msgspec.json.decode(rows[2].options) == {"note": "stocktaking"}


async def test_the_list_goes_on_from_where_it_ended_and_is_narrowed_by_who_and_what(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        for number in range(5):
            act = Act(verb="pause", subject=SubjectKind.RUN, number=number, name=f"run-{number}%")
            who = Asker(way=ActionWay.PAGE if number % 2 else ActionWay.PYTHON, by="anna" if number else "ben")
            await ledger.actions.note(who, act, Ended("done"))
        first = await ledger.actions.page(most=2)
        assert [row.number for row in first] == [4, 3]
        assert [row.number for row in await ledger.actions.page(most=9, before=first[-1].id)] == [2, 1, 0]
        assert [row.number for row in await ledger.actions.page(most=9, by="Ben")] == [0]
        assert [row.number for row in await ledger.actions.page(most=9, by="page")] == [3, 1]
        assert [row.number for row in await ledger.actions.page(most=9, what="run-3%")] == [3]
        assert await ledger.actions.page(most=9, what="run%3") == []


async def test_what_takes_more_than_a_transaction_is_begun_and_settled_once(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        act = Act(verb="send-again", subject=SubjectKind.MESSAGE, number=1, name="ops")
        number = await ledger.actions.note(FORM, act, None)
        assert number is not None
        assert (await latest(ledger)).outcome is None
        await ledger.actions.settle(number, Ended("it is sent", done=1))
        await ledger.actions.settle(number, Ended("it is refused", is_refused=True))
        row = await ledger.actions.one(number)
        assert row is not None
        assert (row.outcome, row.is_refused, row.done_n) == ("it is sent", False, 1)
        assert await ledger.actions.one(number + 1) is None


async def test_what_came_of_it_is_kept_for_longer_than_commands_are_and_not_for_ever(open_file: OpenLedger) -> None:
    clock = VirtualClock()
    async with open_file(clock=clock) as ledger:
        run = await a_run(ledger, 1)
        await ledger.commands.ask(Action.PAUSE, run=run.id, asked=BY_COMMAND)
        [command] = await ledger.commands.pending()
        await ledger.commands.change_ledger(command)
        clock.jump(KEPT_US - 24 * HOUR_US)
        await ledger.commands.ask(Action.TICK)
        assert (await latest(ledger)).outcome == "nothing more of it is sent"
        clock.jump(2 * 24 * HOUR_US)
        await ledger.commands.ask(Action.CONTINUE, run=run.id, asked=BY_COMMAND)
        assert [row.verb for row in await ledger.actions.page(most=9)] == ["continue"]
