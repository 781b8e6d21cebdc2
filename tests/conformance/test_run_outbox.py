"""What is owed of single runs: by the step that ends the last job, once, and until somebody has taken it."""

import json

import pytest
from msgspec.structs import replace

from orchestrator.core.pipelines.run_news import RunNews
from orchestrator.ledger.commands.command import Action
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
        assert await ledger.flows.run_outbox.due(ledger.now(), 9) == []
        await cancelled(ledger, told.id)
        [message] = await ledger.flows.run_outbox.due(ledger.now(), 9)
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
        assert await outbox.due(later - 1, 9) == []
        assert (await outbox.next_due(), await outbox.count_owed(), await outbox.problem()) == (later, 1, "no answer")
        await outbox.delivered(message.id)
        await outbox.undelivered(message.id, "late", due_at=None)
        [told] = await outbox.of(run.id)
        assert (told.tries, told.problem, told.given_up_at) == (2, "", None)
        assert told.taken_at is not None
        assert (await outbox.count_owed(), await outbox.problem()) == (0, "")


async def test_a_standstill_is_owed_once_until_the_run_has_moved(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        run = await a_run(ledger, 2, settings=TELLS)
        assert await ledger.flows.run_outbox.owe_stop(run.id, RunNews.STOPPED, "the key is refused")
        assert not await ledger.flows.run_outbox.owe_stop(run.id, RunNews.STOPPED, "the key is refused")
        assert await ledger.flows.run_outbox.owe_stop(run.id, RunNews.ON_HOLD, "the key is refused")
        await ledger.runs.configure(run.id, replace(TELLS, notify=None))
        assert not await ledger.flows.run_outbox.owe_stop(run.id, RunNews.STOPPED, "else")
        [first, _] = await ledger.flows.run_outbox.of(run.id)
        assert (first.notify, json.loads(first.body)["data"]["why"]) == (None, "the key is refused")
        assert not await ledger.flows.run_outbox.owe_stop(7, RunNews.STOPPED, "no such run")
