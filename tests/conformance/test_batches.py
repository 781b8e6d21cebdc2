"""Batches of the service: what is intended with each, which rows are in it, and what is kept out of other hands."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.core.batches.batch_record import BatchRecord, BatchStage
from orchestrator.core.batches.why import Why
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.reasons import ReasonCode
from orchestrator.core.service.batches import ServiceBatch
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import Action, CancelledJobs
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.runs.batches import RowCounts
from orchestrator.settings.run_settings import RunSettings
from tests.factories import TTL_US, S, an_outcome
from tests.ledger.ledgers import OpenLedger, a_run, job_now
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT


async def a_draft(ledger: Ledger, rows: int = 3, **settings: Any) -> BatchRecord:
    run = await a_run(ledger, rows, settings=RunSettings(**settings))
    batch = await ledger.runs.batches.intend(run.id, endpoint=run.endpoint_id)
    return await ledger.runs.batches.move(batch, BatchStage.DRAFT, remote_id="batch_1")


async def claimed(ledger: Ledger, batch: BatchRecord, most: int = 9) -> list[Job]:
    line = ClaimLine(batch.run, batch.endpoint, by_retry=False, ttl_of=lambda _: TTL_US, batch=batch.id)
    return [each.job for each in (await ledger.jobs.claims.take(line, most=most)).claims]


async def put_in(ledger: Ledger, job: Job) -> Job:
    step = transitions.accepted(job, remote_id=f"req_{job.id}", sent_at=AT, at=AT, reason=ReasonCode.BATCH)
    assert await ledger.writer.step(step)
    return step.after


async def test_a_batch_is_intended_before_it_is_made_and_open_until_it_has_ended(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 1)
        batch = await ledger.runs.batches.intend(run.id, endpoint=run.endpoint_id)
        assert (batch.stage, batch.remote_id) == (BatchStage.CREATING, None)
    async with open_file() as ledger:
        assert await ledger.runs.batches.open_at(batch.endpoint) == [batch]
        assert await ledger.runs.batches.open_at(batch.endpoint + 1) == []
        draft = await ledger.runs.batches.move(batch, BatchStage.DRAFT, remote_id="batch_1", is_by_place=True)
        running = await ledger.runs.batches.move(draft, BatchStage.RUNNING)
        assert running.finalized_at is not None
        said = ServiceBatch(id="batch_1", status="FINALIZED", total=3, failed=0)
        assert (await ledger.runs.batches.tell(running, said, asked_before=0)).news_at is None
        running = await ledger.runs.batches.tell(running, replace(said, failed=1), asked_before=0)
        assert running.news_at is not None
        assert running.begun_at == running.finalized_at
        assert (
            await ledger.runs.batches.tell(running, replace(said, failed=1), asked_before=0)
        ).news_at == running.news_at
        assert await ledger.runs.batches.open_by_endpoint() == {batch.endpoint: [running]}
        over = await ledger.runs.batches.move(running, BatchStage.OVER, why=Why.LATE)
        assert await ledger.runs.batches.open_at(batch.endpoint) == []
        assert await ledger.runs.batches.of_run(run.id) == [over]
        assert (over.remote_id, over.is_by_place, over.why) == ("batch_1", True, Why.LATE)
        assert over.ended_at is not None


async def test_a_batch_that_is_in_another_stage_by_now_stays_there_and_its_rows_take_no_step(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        batch = await a_draft(ledger)
        [job, *_] = await claimed(ledger, batch)
        await ledger.runs.batches.move(batch, BatchStage.FINALIZING)
        step = transitions.deferred(job, due_at=AT, reason="dropped", at=AT)
        assert await ledger.runs.batches.move(batch, BatchStage.DROPPED, steps=[step]) == batch
        assert [each.stage for each in await ledger.runs.batches.of_run(batch.run)] == [BatchStage.FINALIZING]
        assert (await job_now(ledger)).state is State.SUBMITTING


async def test_rows_are_claimed_for_a_batch_and_found_by_it_in_their_order(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        batch = await a_draft(ledger)
        jobs = await claimed(ledger, batch, most=2)
        assert [job.batch for job in jobs] == [batch.id] * 2
        assert await ledger.runs.batches.counts(batch.id) == RowCounts(0, 2, 0)
        await put_in(ledger, jobs[1])
        await put_in(ledger, jobs[0])
        assert await ledger.runs.batches.ids(batch.id) == ["req_1", "req_2"]
        assert await ledger.runs.batches.counts(batch.id) == RowCounts(2, 0, 2)
        rows = await ledger.runs.batches.rows(batch.id)
        assert [(job.id, job.remote_id, job.batch) for job in rows] == [(1, "req_1", batch.id), (2, "req_2", batch.id)]
        done = transitions.completed(rows[0], an_outcome(rows[0]), reason="batch", at=AT)
        over = await ledger.runs.batches.move(batch, BatchStage.DROPPED, steps=[done])
        assert over.stage is BatchStage.DROPPED
        assert await ledger.runs.batches.counts(batch.id) == RowCounts(2, 0, 1)
        assert [job.id for job in await ledger.runs.batches.rows(batch.id)] == [2]


async def test_a_row_that_leaves_by_itself_the_next_time_is_in_no_batch_any_more(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        batch = await a_draft(ledger, rows=1)
        assert await ledger.runs.batches.has_fresh(batch.run, endpoint=batch.endpoint)
        [job] = await claimed(ledger, batch)
        job = await put_in(ledger, job)
        failed = transitions.retried(job, FailureClass.FAILED, due_at=AT, retry_until=None, reason="FAILED", at=AT)
        assert await ledger.writer.step(failed)
        assert (await job_now(ledger)).batch == batch.id
        assert not await ledger.runs.batches.has_fresh(batch.run, endpoint=batch.endpoint)
        line = ClaimLine(batch.run, batch.endpoint, by_retry=False, ttl_of=lambda _: TTL_US)
        [again] = (await ledger.jobs.claims.take(line, most=1)).claims
        assert again.job.batch is None
        assert (await job_now(ledger)).batch is None
        assert await ledger.runs.batches.rows(batch.id) == []


async def test_what_is_in_a_batch_is_owed_no_cancel_of_its_own_and_is_not_taken_to_expire(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        batch = await a_draft(ledger, rows=1)
        [job] = await claimed(ledger, batch)
        await put_in(ledger, job)
        assert await ledger.jobs.cancels.owe([job.id], CancelWhy.ASKED, now=AT) == [job.id]
        assert await ledger.jobs.cancels.due(now=AT + 100 * S, after=(0, 0), most=9) == []
        late = AT + 100_000 * S
        assert (await ledger.jobs.margins.waiting(now=late))[batch.run].unfinished_at == late


async def test_rows_that_people_have_cancelled_are_known_by_their_batch(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        batch = await a_draft(ledger)
        first, second, _ = [await put_in(ledger, job) for job in await claimed(ledger, batch)]
        command = await ledger.commands.ask(Action.CANCEL_JOBS, run=batch.run, argument=CancelledJobs("line=1"))
        found = await ledger.jobs.cancels.cancel([first.id], command=command)
        assert (found.owed, found.in_batches) == (1, 1)
        await ledger.jobs.cancels.owe([second.id], CancelWhy.MOVED, now=AT)
        assert await ledger.runs.batches.cancelled_rows(batch.id) == {first.id}


async def test_a_message_of_a_run_counts_what_was_executed_in_batches_at_their_price(open_file: OpenLedger) -> None:
    priced = {"price_per_second": 0.5, "batch_discount": 200_000, "notify": "env:HOOK"}
    async with open_file() as ledger:
        batch = await a_draft(ledger, rows=1, **priced)
        [job] = await claimed(ledger, batch)
        job = await put_in(ledger, job)
        done = transitions.completed(job, an_outcome(job, execution_ms=10_000), reason="batch", at=AT)
        assert await ledger.writer.step(done)
        [took] = (await ledger.jobs.brakes.executed()).values()
        assert (took.total_ms, took.batch_ms) == (10_000, 10_000)
        [receiver] = await ledger.flows.run_outbox.receivers_due(ledger.now())
        message = await ledger.flows.run_outbox.first_due(*receiver, ledger.now())
        assert message is not None
        assert json.loads(message.body)["data"]["spent"] == pytest.approx(4.0)


async def test_batches_go_with_their_run(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        batch = await a_draft(ledger, rows=1)
        [run] = await ledger.runs.all([batch.run])
        await ledger.runs.take_back(run.id)
        await ledger.runs.removals.clear(run.name)
        assert await ledger.runs.batches.of_run(batch.run) == []
