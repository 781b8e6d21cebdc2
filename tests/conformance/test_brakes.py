"""What brakes go by: executions added up, rows chosen to go first, how they stand, and that people went on."""

from functools import partial

import pytest

from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.gates.failure_breaker import BreakerPhase, BreakerState
from orchestrator.core.gates.gates import Hold
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.error_text import error_key
from orchestrator.ledger.commands.command_types import Action, NewBrakes
from orchestrator.ledger.jobs.brake_state import Kept, OfRun
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.units import DAY_US
from tests.factories import S, a_row, an_outcome
from tests.ledger.ledgers import OpenLedger, a_run, brought_to, job_now, obeyed, taken_in
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]
AT = EPOCH_AT + 1_000 * S
TODAY = AT // DAY_US


async def test_every_execution_counts_also_one_that_is_tried_again(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, rows=2)
        first = await brought_to(ledger, State.OUTSTANDING, AT, job=1)
        failed = an_outcome(first, FailureClass.FAILED, execution_ms=2_000)
        again = transitions.retried(
            first,
            FailureClass.FAILED,
            due_at=AT,
            retry_until=None,
            reason="status",
            at=AT + 5 * S,
            previous_outcome=failed,
        )
        assert await ledger.writer.step(again)
        second = await brought_to(ledger, State.OUTSTANDING, AT + 50 * S, job=2)
        well = transitions.completed(second, an_outcome(second, execution_ms=1_000), reason="status", at=AT + DAY_US)
        assert await ledger.writer.step(well)
        assert not await ledger.writer.step(well), "a stale step counts nothing"
        assert await ledger.jobs.brakes.executed() == {
            (1, 1, TODAY): DurationTotals(timed=1, total_ms=2_000, squares=4.0, failed=1),
            (1, 1, TODAY + 1): DurationTotals(timed=1, total_ms=1_000, squares=1.0),
        }
        told = await ledger.jobs.brakes.latest(1, 10)
        assert [each.is_failed for each in told] == [True, False]
        assert [each.kind for each in told] == [error_key(FailureClass.FAILED, failed.message), None]
        assert told[0].summary == f"failed: {failed.message}"
        assert len(await ledger.jobs.brakes.latest(1, 1)) == 1
        assert await ledger.jobs.brakes.latest(2, 10) == []


async def test_rows_that_go_first_are_spread_over_the_input(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, rows=10)
        await ledger.runs.intakes.add(await ledger.runs.intakes.start(run), [])
        assert await ledger.jobs.brakes.choose(run.id, 3) == (1, 5, 8)
        assert (await ledger.jobs.brakes.of(run.id)).canary == (1, 5, 8)
        assert await ledger.jobs.brakes.choose(run.id, 99) == tuple(range(1, 11)), "there are no more"
        await brought_to(ledger, State.OUTSTANDING, AT, job=1)
        assert 1 not in await ledger.jobs.brakes.choose(run.id, 3)
        other = await a_run(ledger, name="other", rows=0)
        assert await ledger.jobs.brakes.choose(other.id, 3) == ()
        assert (await ledger.jobs.brakes.of(other.id)).canary is None, (
            "its rows are yet to come, and some of them go first"
        )


async def test_how_brakes_stand_is_kept_by_run(open_file: OpenLedger) -> None:
    kept = Kept(breaker=BreakerState(phase=BreakerPhase.OPEN, why="boom", base=7), overruled={"canary": "10"})
    async with open_file() as ledger:
        run = await a_run(ledger)
        assert await ledger.jobs.brakes.of(run.id) == OfRun(Kept(), None, 0)
        await ledger.jobs.brakes.keep(run.id, kept)
        assert await ledger.jobs.brakes.continued() == {}
    async with open_file() as ledger:
        assert (await ledger.jobs.brakes.of(run.id)).kept == kept
        command = await obeyed(ledger, Action.CONTINUE, run=run.id)
        found = await ledger.jobs.brakes.of(run.id)
        assert not command.is_refused
        assert found.kept == kept, "whoever works on it goes by it"
        assert found.continued_at == (await ledger.jobs.brakes.continued())[run.id] > 0


async def test_what_holds_a_run_is_kept_until_people_lift_it(open_file: OpenLedger) -> None:
    held = Hold("budget", "it is spent")
    async with open_file() as ledger:
        run = await a_run(ledger)
        for action, argument in ((Action.CONTINUE, None), (Action.BRAKES, NewBrakes({"max-failures": "9"}))):
            await ledger.jobs.brakes.keep(run.id, Kept(), held)
            assert await ledger.jobs.brakes.holds() == (await ledger.reports.overview()).brakes == {run.id: held}
            assert not (await obeyed(ledger, action, run=run.id, argument=argument)).is_refused
            assert await ledger.jobs.brakes.holds() == {}


async def test_brakes_are_changed_together_or_not_at_all(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger)
        bad = await obeyed(ledger, Action.BRAKES, run=run.id, argument=NewBrakes({"canary": "5", "budget": "25"}))
        assert bad.is_refused
        assert "give --price-per-second too" in (bad.outcome or "")
        unreadable = await obeyed(ledger, Action.BRAKES, run=run.id, argument=NewBrakes({"budget": "much"}))
        assert unreadable.is_refused
        [same] = await ledger.runs.all([run.id])
        assert same.settings == run.settings
        told = {"budget": "25", "price-per-second": "0.5", "max-failures": "5%", "breaker": "off"}
        good = await obeyed(ledger, Action.BRAKES, run=run.id, argument=NewBrakes(told))
        assert not good.is_refused
        [changed] = await ledger.runs.all([run.id])
        assert (changed.settings.budget, changed.settings.price_per_second) == (25.0, 0.5)
        assert (changed.settings.max_failures.share, changed.settings.breaker.first) == (50_000, 0)
        none = await obeyed(ledger, Action.BRAKES, run=99, argument=NewBrakes(told))
        assert none.is_refused


async def test_of_some_jobs_alone_any_are_claimed(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, rows=0)
        await taken_in(ledger, run, [a_row(n) for n in range(1, 8)])
        take = partial(
            ledger.jobs.claims.take,
            ClaimLine(run.id, endpoint=run.endpoint_id, by_retry=False, ttl_of=lambda _: 90 * S, only=[2, 5, 6]),
        )
        assert [each.job.id for each in (await take(most=2)).claims] == [2, 5]
        assert [each.job.id for each in (await take(most=9)).claims] == [6]
        assert (await job_now(ledger, 1)).state is State.QUEUED
