"""What the ledger keeps for those who look at it while nobody works."""

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.polling.endpoint_estimates import Learned
from orchestrator.ledger.commands.command_types import Action, Reply
from tests.factories import S
from tests.ledger.ledgers import OpenLedger, a_run, brought_to
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_what_was_learned_of_an_endpoint_outlives_the_process_and_is_replaced(open_file: OpenLedger) -> None:
    learned = Learned(time_scale=60.0, counted_on_us=5 * S, refused=(EPOCH_AT, "the key was refused"))
    async with open_file() as ledger:
        run = await a_run(ledger, 1)
        assert await ledger.runs.learned.of(run.endpoint_id) == Learned()
        assert await ledger.runs.learned.all() == {}
        await ledger.runs.learned.write(run.endpoint_id, learned)
    async with open_file() as ledger:
        assert await ledger.runs.learned.of(run.endpoint_id) == learned
        assert await ledger.runs.learned.all() == {run.endpoint_id: learned}
        seen = await ledger.reports.overview()
        assert seen.learned_of(run) == learned
        assert seen.retention_us(run) == learned.retention_us(run.settings.retention_us)
        await ledger.runs.learned.write(run.endpoint_id, Learned())
        assert await ledger.runs.learned.all() == {run.endpoint_id: Learned()}


async def test_what_was_asked_and_is_not_done_is_known_by_run(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 1)
        first = await ledger.commands.ask(Action.RETRY, run=run.id)
        second = await ledger.commands.ask(Action.RESEND, run=run.id)
        await ledger.commands.ask(Action.LIMITS_RESET, endpoint=run.endpoint_id)
        seen = await ledger.reports.overview()
        assert {run: [each.id for each in asked] for run, asked in seen.pending.items()} == {run.id: [first, second]}
        await ledger.commands.finish(first, Reply("done"))
        seen = await ledger.reports.overview()
        assert [each.action for each in seen.pending[run.id]] == [Action.RESEND]


async def test_the_job_is_known_that_has_been_outstanding_for_the_longest_time(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 3)
        assert await ledger.jobs.outstanding_since() == {}
        first = await brought_to(ledger, State.OUTSTANDING, EPOCH_AT + 10 * S, job=1)
        await brought_to(ledger, State.OUTSTANDING, EPOCH_AT + 20 * S, job=2)
        assert await ledger.jobs.outstanding_since() == {run.id: first.submission}
