"""What is owed of single runs: by the step that ends the last job, once, and until somebody has taken it."""

import json

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.pipelines.run_messages import RunNews
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.ledger import Ledger
from orchestrator.settings.run_settings import RunSettings
from tests.factories import S
from tests.ledger.ledgers import OpenLedger, a_run, obeyed
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

TELLS = RunSettings(notify="env:HOOK")


async def cancelled(ledger: Ledger, run: int) -> None:
    """All of its jobs end."""
    await obeyed(ledger, Action.CANCEL, run=run)
    while await ledger.jobs.cancels.end(run, most=1):
        pass


async def test_the_step_that_ends_the_last_job_owes_it_where_the_run_tells_somebody(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        told, silent = await a_run(ledger, 2, name="told", settings=TELLS), await a_run(ledger, 2, name="silent")
        await cancelled(ledger, silent.id)
        assert await ledger.flows.run_outbox.receivers_due(ledger.now()) == []
        await cancelled(ledger, told.id)
        [receiver] = await ledger.flows.run_outbox.receivers_due(ledger.now())
        assert receiver == (told.id, "")
        message = await ledger.flows.run_outbox.first_due(*receiver, ledger.now())
        assert message is not None
        assert (message.run, message.name, message.news, message.notify) == (
            told.id,
            "told",
            RunNews.FAILED,
            "env:HOOK",
        )
        assert json.loads(message.body)["data"]["cancelled"] == 2
        await ledger.flows.run_outbox.owe_end(told.id)
        await ledger.flows.run_outbox.owe_end(silent.id)
        assert await ledger.flows.run_outbox.of(told.id) == [message]
        assert await ledger.flows.run_outbox.of(silent.id) == []


async def test_what_nobody_took_is_due_later_and_what_was_taken_is_not_changed_any_more(
    open_file: OpenLedger,
) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        run, outbox = await a_run(ledger, 1, settings=TELLS), ledger.flows.run_outbox
        assert (await outbox.next_due(), await outbox.count_owed()) == (None, 0)
        await cancelled(ledger, run.id)
        [message] = await outbox.of(run.id)
        later = ledger.now() + 60 * S
        await outbox.undelivered(message.id, "no answer", due_at=later)
        assert await outbox.receivers_due(later - 1) == []
        assert (await outbox.next_due(), await outbox.count_owed(), await outbox.problem()) == (later, 1, "no answer")
        await outbox.delivered(message.id)
        await outbox.undelivered(message.id, "late", due_at=None)
        [told] = await outbox.of(run.id)
        assert (told.tries, told.problem, told.given_up_at) == (2, "", None)
        assert told.taken_at is not None
        assert (await outbox.count_owed(), await outbox.problem()) == (0, "")


async def test_an_episode_is_owed_once_however_often_it_comes_and_goes_and_its_end_once_it_is_quiet(
    open_file: OpenLedger,
) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        run, outbox = await a_run(ledger, 2, settings=TELLS), ledger.flows.run_outbox
        assert await outbox.begin_episode(run.id, RunNews.STOPPED, "the key is refused")
        assert not await outbox.begin_episode(run.id, RunNews.STOPPED, "the key is refused")
        assert await outbox.begin_episode(run.id, RunNews.ON_HOLD, "over budget")
        for _ in range(3):
            await anyio.sleep(1)
            await outbox.leave_episodes(run.id, [RunNews.ON_HOLD])
            assert (await outbox.episodes_of(run.id))[RunNews.ON_HOLD] == ledger.now()
            assert await outbox.end_episodes(run.id, ledger.now() - S) == []
            assert not await outbox.begin_episode(run.id, RunNews.ON_HOLD, "over budget")
        await outbox.leave_episodes(run.id, [RunNews.ON_HOLD])
        await anyio.sleep(1)
        assert await outbox.end_episodes(run.id, ledger.now() - S) == [RunNews.ON_HOLD]
        assert [each.news for each in await outbox.of(run.id)] == [RunNews.STOPPED, RunNews.ON_HOLD, RunNews.RECOVERED]
        assert await outbox.begin_episode(run.id, RunNews.ON_HOLD, "again, long after"), "that is another one"
        await ledger.runs.configure(run.id, replace(TELLS, notify=None), before=TELLS)
        assert not await outbox.begin_episode(run.id, RunNews.STALLED, "nobody wants to hear of it")
        assert not await outbox.begin_episode(7, RunNews.STOPPED, "no such run")
        first = (await outbox.of(run.id))[0]
        assert (first.notify, json.loads(first.body)["data"]["why"]) == (None, "the key is refused")


async def test_each_target_has_a_message_of_its_own_of_what_it_wants_to_hear(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        settings = RunSettings(notify="ops:held,failed\nmail\nenv:HOOK")
        run, outbox = await a_run(ledger, 2, settings=settings), ledger.flows.run_outbox
        await outbox.begin_episode(run.id, RunNews.STALLED, "the service is away")
        await cancelled(ledger, run.id)
        told = [(each.target, each.news) for each in await outbox.of(run.id)]
        assert sorted(told) == sorted([
            ("mail", RunNews.STARTED), ("mail", RunNews.STALLED), ("", RunNews.STALLED),
            ("ops", RunNews.FAILED), ("mail", RunNews.FAILED), ("", RunNews.FAILED),
        ])  # fmt: skip
        assert await outbox.episodes_of(run.id) == {}, "its end ends all of them"
        assert set(await outbox.receivers_due(ledger.now())) == {(0, "ops"), (0, "mail"), (run.id, "")}


async def test_who_does_not_have_the_ledger_to_itself_claims_before_it_sends(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        run, outbox = await a_run(ledger, 1, settings=TELLS), ledger.flows.run_outbox
        await cancelled(ledger, run.id)
        [message] = await outbox.of(run.id)
        later = ledger.now() + 60 * S
        assert await outbox.claim(message.id, message.due_at, later)
        assert not await outbox.claim(message.id, message.due_at, later), "another one was faster"
        assert await outbox.receivers_due(later - 1) == []
        await outbox.delivered(message.id)
        assert not await outbox.claim(message.id, later, later + 1)


async def test_what_was_taken_or_given_up_is_sent_again_when_somebody_asks_for_it(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        run, outbox = await a_run(ledger, 1, settings=TELLS), ledger.flows.run_outbox
        await cancelled(ledger, run.id)
        [message] = await outbox.of(run.id)
        assert await outbox.send_again(None) == 0, "nothing is the matter with it"
        await outbox.undelivered(message.id, "no answer", due_at=None)
        assert await outbox.count_owed() == 0
        assert await outbox.send_again(None) == 1
        assert await outbox.count_owed() == 1
        await outbox.delivered(message.id)
        assert await outbox.send_again(message.id) == 1
        [again] = await outbox.of(run.id)
        assert (again.id, again.owed_at, again.taken_at) == (message.id, message.owed_at, None), "so is its id"
        await outbox.unwanted(message.id)
        assert await outbox.of(run.id) == []
