"""What the ledger keeps for those who look at it while nobody works."""

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import FlowEvent, FlowKind, FlowState
from orchestrator.core.polling.endpoint_estimates import Learned
from orchestrator.ledger.commands.command_types import Action, Reply
from orchestrator.ledger.flows.flow_actions import MadeUp
from tests.factories import S
from tests.ledger.ledgers import OpenLedger, a_run, brought_to
from tests.ledger.pipelines import applied
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


async def test_how_the_flows_of_one_backfill_stand_is_told_of_it_alone(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run, of = await a_run(ledger, 1), await applied(ledger, now=EPOCH_AT)
        made: list[str] = []
        for first in (1, 10):
            fires = [EPOCH_AT - (first + number) * S for number in range(3)]
            made = await ledger.flows.add(
                of.id, of.name, of.definition, fires, FlowKind.BACKFILL, made_up=MadeUp(parallel=2)
            )
            await anyio.sleep(1)
        flows = [flow for name in made if (flow := await ledger.flows.named(name)) is not None]
        await ledger.flows.start([flow.id for flow in flows[:2]])
        await ledger.flows.begin_stage(flows[0].id, "caption", run=run.id, source="", sha256="")
        await anyio.sleep(5)
        await ledger.flows.end(flows[0].id, FlowEvent.SUCCEEDED, "")
        await anyio.sleep(4)

        summaries, asked_at = ledger.overviews.flows, flows[0].recorded_at
        found = {each.state: each for each in await summaries.backfill(of.id, asked_at, now=ledger.now())}
        assert {state: each.number for state, each in found.items()} == dict.fromkeys(
            (FlowState.SUCCEEDED, FlowState.RUNNING, FlowState.WAITING), 1
        )
        assert [round(found[state].took_us / S) for state in (FlowState.SUCCEEDED, FlowState.RUNNING)] == [5, 9]
        assert (found[FlowState.WAITING].took_us, found[FlowState.WAITING].parallel) == (0, 2)
        assert await summaries.runs_of_backfill(of.id, asked_at, 9) == [run.id]
        assert await summaries.runs_of_backfill(of.id, asked_at - 1, 9) == []
