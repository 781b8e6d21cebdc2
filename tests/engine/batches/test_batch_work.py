"""Jobs that leave in batches of the service's own: packed, finalized, collected; failed ones go again."""

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.runs.run_costs import run_costs
from orchestrator.core.gates.brake_gates import Canary, MaxFailures
from orchestrator.core.gates.failure_breaker import BreakerRules
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.emulator.batches.batch_rules import BatchOrder, BatchRules
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.views.batches import NoBatch
from tests.engine.batches.batched import BATCH, batched
from tests.factories import S
from tests.simulation.clock import VirtualClock
from tests.simulation.world import ENDPOINT, SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.mark.parametrize("append_ids", [True, False])
async def test_rows_leave_in_a_batch_and_come_back(tmp_path: Path, append_ids: bool) -> None:
    rules = BatchRules(append_ids=append_ids, delay_s=600.0)
    async with batched(tmp_path, rows=130, rules=rules) as b:
        await b.p.finish()
        assert await b.p.story() == ["claimed", "accepted", "completed"]
        await b.all_done_once(130)
        assert b.p.warnings == []
        [batch] = await b.p.ledger.runs.batches.of_run(b.p.run.id)
        assert (batch.stage, batch.total, batch.completed) == ("over", 130, 130)
        assert b.p.endpoint.outstanding.carried == 0
        assert b.asked["get"] < 40, "it is asked for at pauses"


@pytest.mark.slow
async def test_places_tell_nothing_where_they_change_once_the_batch_runs(tmp_path: Path) -> None:
    def some_fail(raw: bytes, number: int) -> WorkerResult:
        return WorkerResult(output=raw) if raw[-2] in b"13579" else WorkerResult(error="odd ones only")

    rules = BatchRules(order=BatchOrder.BY_STATUS)
    async with batched(tmp_path, rows=60, rules=rules, work=some_fail, settings=replace(BATCH, max_attempts=1)) as b:
        await b.p.finish()
        assert [each.output for each in await b.p.results()] == [b'{"n":%d}' % n for n in range(1, 61, 2)]
        assert [each.line for each in await b.p.failures()] == list(range(2, 61, 2))


@pytest.mark.slow
async def test_more_rows_than_a_batch_takes_go_in_several_within_the_limits(tmp_path: Path) -> None:
    settings = replace(BATCH, batch_rows=20, batch_active=2, batch_queued=35)
    rules = BatchRules(append_ids=True, requests_max=20, active_max=2, queued_max=40)
    async with batched(tmp_path, rows=90, rules=rules, settings=settings) as b:
        await b.p.finish()
        await b.all_done_once(90)
        assert await b.stages() == ["over"] * 5
        assert b.p.warnings == []


async def test_a_body_is_no_longer_than_the_service_takes(tmp_path: Path) -> None:
    settings = replace(BATCH, batch_call_bytes=1_024)
    async with batched(tmp_path, rows=200, settings=settings) as b:
        await b.p.finish()
        await b.all_done_once(200)
        assert b.asked["append"] > 7


class FailsOnce:
    """Every fifth row fails, the first time that it is executed."""

    def __init__(self) -> None:
        self.failed: set[bytes] = set()

    def __call__(self, raw: bytes, _number: int) -> WorkerResult:
        if raw[-2] in b"05" and raw not in self.failed:
            self.failed.add(raw)
            return WorkerResult(error="not yet")
        return WorkerResult(output=raw)


@pytest.mark.parametrize(("repeats", "batches"), [(50, 1), (0, 2), (7, 2)])
async def test_what_failed_goes_again_in_a_later_batch_or_where_little_is_left_by_run(
    tmp_path: Path, repeats: int, batches: int
) -> None:
    settings = replace(BATCH, batch_repeats=repeats)
    async with batched(tmp_path, rows=40, settings=settings, work=FailsOnce()) as b:
        await b.p.finish()
        assert [each.line for each in await b.p.results()] == list(range(1, 41))
        assert await b.stages() == ["over"] * batches
        assert await b.p.story(5) == ["claimed", "accepted", "retried failed", "claimed", "accepted", "completed"]
        assert b.service.counts.executed.total() == 48
        assert (await b.p.job(5)).batch == (None if batches == 1 else 2)


async def test_a_batch_that_the_service_gives_up_has_its_rows_sent_anew(tmp_path: Path) -> None:
    settings = replace(BATCH, batch_repeats=0)
    async with batched(tmp_path, rows=60, settings=settings, faults=Faults(failed_batch=1.0)) as b:
        await b.p.until_event(lambda step: step.trouble is FailureClass.LOST)
        b.service.dice.faults = Faults()
        await b.p.finish()
        assert [each.output for each in await b.p.results()] == [b'{"n":%d}' % n for n in range(1, 61)]
        assert b.service.counts.executed.total() == 60, "what had ended counts, and what had not was not begun"
        assert await b.stages() == ["over", "over"]


@pytest.mark.slow
async def test_results_are_read_while_the_batch_runs_before_they_may_be_gone(tmp_path: Path) -> None:
    settings = replace(BATCH, batch_retention_us=600 * S)
    rules = BatchRules(append_ids=True, workers=1)
    async with batched(tmp_path, rows=60, rules=rules, settings=settings, seconds=lambda _: 60.0) as b:
        await b.p.finish()
        assert 0 < (b.p.progress.margin_min_s or 0) < 600
        await b.all_done_once(60)


async def test_a_canary_leaves_by_run_and_the_rest_once_it_is_back(tmp_path: Path) -> None:
    settings = replace(BATCH, canary=Canary(rows=3))
    async with batched(tmp_path, rows=30, settings=settings) as b:
        await b.p.finish()
        await b.all_done_once(30)
        assert sum([(await b.p.job(n)).batch is None for n in range(1, 31)]) == 3
        assert await b.stages() == ["over"]


async def test_another_program_s_batches_are_left_alone(tmp_path: Path) -> None:
    async with batched(tmp_path, rows=30) as b:
        now = b.p.clock.now()
        empty = b.service.batches.create(ENDPOINT, [], now)
        full = b.service.batches.create(ENDPOINT, [b'{"n":"theirs"}'], now)
        await b.p.finish()
        assert {empty.id, full.id} == set(b.drafts())
        await b.all_done_once(30)


@pytest.mark.slow
async def test_a_few_rows_find_out_by_run_whether_executions_work_and_the_rest_leaves_in_a_batch(
    tmp_path: Path,
) -> None:
    async with batched(tmp_path, rows=200, breaker=BreakerRules(first=50)) as b:
        await b.p.finish()
        await b.all_done_once(200)
        assert sum([(await b.p.job(n)).batch is None for n in range(1, 201)]) == 3
        assert await b.stages() == ["over"]


async def test_a_run_whose_executions_fail_ends_without_waiting_for_a_draft(tmp_path: Path) -> None:
    def broken(_raw: bytes, _number: int) -> WorkerResult:
        return WorkerResult(error="boom")

    settings = replace(BATCH, max_failures=MaxFailures(rows=4), max_attempts=1, batch_rows=20, batch_repeats=0)
    async with batched(tmp_path, rows=100, settings=settings, work=broken) as b:
        await b.p.wait(lambda: b.p.session.why_stopped is not None and b.p.progress.at_service == 0)
        assert b.service.counts.executed.total() < 100
        assert b.drafts() == []


@pytest.mark.slow
async def test_what_a_budget_counts_already_goes_and_the_rest_once_that_has_cost_less(tmp_path: Path) -> None:
    settings = replace(BATCH, price_per_second=0.001, budget=10.0)
    async with batched(tmp_path, rows=60, settings=settings) as b:
        await b.p.finish()
        await b.all_done_once(60)
        assert len(await b.stages()) > 1


async def test_what_batches_have_executed_costs_less_and_the_rest_does_not(tmp_path: Path) -> None:
    priced = replace(BATCH, price_per_second=0.01, batch_discount=200_000)
    async with batched(tmp_path, rows=40, settings=priced, work=FailsOnce()) as b:
        await b.p.finish()
        ledger, run, spent = b.p.ledger, b.p.run, b.p.engine.runs.brakes.spent
        [took] = (await ledger.jobs.brakes.executed()).values()
        assert 0 < took.batch_ms < took.total_ms, "what failed was executed again by /run"
        cost = 0.01 * (took.total_ms - 0.2 * took.batch_ms) / 1_000
        told = await run_costs(ledger, run, await b.p.counts())
        brakes = spent.costs(run.id, priced)
        assert told.spent is not None
        assert brakes is not None
        assert [told.spent.amount, brakes.spent.amount] == pytest.approx([cost, cost])


@pytest.mark.slow
async def test_it_is_said_since_when_the_service_makes_no_batch_and_no_more_once_it_does(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, batch=BatchRules(append_ids=True, active_max=1, has_active_drafts=True))
    theirs = service.batches.create(ENDPOINT, [], clock.now())
    async with batched(tmp_path, rows=5, service=service, clock=clock) as b:

        def none() -> NoBatch | None:
            return b.p.engine.report().of(b.p.run.id).no_batch

        began_at = clock.now()
        await anyio.sleep(1_200)
        told = none()
        assert told is not None
        assert told.since - began_at < 60 * S
        assert "at most 1 active" in told.reason
        service.batches.cancel(ENDPOINT, theirs.id, clock.now())
        await b.p.until(State.OUTSTANDING)
        assert none() is None
        await b.p.finish()


async def test_rows_are_packed_as_soon_as_it_is_known_that_executions_work(tmp_path: Path) -> None:
    async with batched(tmp_path, rows=20, breaker=BreakerRules(first=50)) as b:
        begun_at = b.p.clock.now()
        await b.p.until(State.OUTSTANDING, 10)
        assert b.p.clock.now() - begun_at < 10 * S
