"""How batches end before their rows do: cancelled by people, given up to `/run` in time, forgotten by the service."""

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.batches.batch_record import BatchStage
from orchestrator.core.batches.why import Why
from orchestrator.core.jobs.lifecycle import State
from orchestrator.emulator.batches.batch_rules import BatchRules
from orchestrator.emulator.contract.faults import Faults
from orchestrator.engine.batches.step_work import BILLED
from orchestrator.engine.commands.cancel_jobs import IN_BATCHES, cancel_chosen
from orchestrator.ledger.commands.command_types import Action, CancelledJobs
from tests.engine.batches.batched import BATCH, Batched, batched
from tests.factories import S
from tests.ledger.ledgers import obeyed
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NAMED = BatchRules(append_ids=True)


async def until_stage(b: Batched, stage: BatchStage) -> None:
    """Waits until a batch of the run is there; nothing tells of that but the ledger."""
    with anyio.fail_after(7_200):
        while stage not in await b.stages():  # noqa: ASYNC110
            await anyio.sleep(5)


async def cancel(b: Batched) -> None:
    await obeyed(b.p.ledger, Action.CANCEL, run=b.p.run.id)
    b.p.control.on_change()


async def cancel_row(b: Batched, line: int) -> str:
    """What is said to who cancels one."""
    commands = b.p.ledger.commands
    await commands.ask(Action.CANCEL_JOBS, run=b.p.run.id, argument=CancelledJobs(f"line={line}"))
    [command] = await commands.pending()
    reply = await cancel_chosen(b.p.ledger, b.p.canceller.wake, command)
    await commands.finish(command.id, reply)
    return reply.text


async def test_a_run_that_is_cancelled_while_a_batch_is_packed_pays_nothing(tmp_path: Path) -> None:
    rules = replace(NAMED, delay_s=600.0)
    async with batched(tmp_path, rows=60, rules=rules) as b:
        await b.p.until(State.OUTSTANDING, 3)
        await cancel(b)
        await b.p.finish()
        assert (await b.p.counts())["cancelled"] == 60
        assert b.service.paid == 0
        await until_stage(b, BatchStage.DROPPED)
        assert b.drafts() == []


@pytest.mark.slow
async def test_of_one_that_runs_what_has_begun_is_paid_and_its_result_kept(tmp_path: Path) -> None:
    rules = replace(NAMED, delay_s=60.0, workers=4)
    async with batched(tmp_path, rows=60, rules=rules, seconds=lambda _: 100.0) as b:
        await until_stage(b, BatchStage.RUNNING)
        await anyio.sleep(250)
        await cancel(b)
        await b.p.finish()
        counts = await b.p.counts()
        assert counts["succeeded"] == b.service.paid > 0
        assert counts["cancelled"] == 60 - b.service.paid
        [batch] = await b.p.ledger.runs.batches.of_run(b.p.run.id)
        assert (batch.stage, batch.why) == (BatchStage.OVER, Why.CANCELLED)
        assert BILLED in b.p.warnings


@pytest.mark.slow
async def test_what_would_be_late_leaves_by_run_once_its_batch_is_seen_to_be_cancelled(tmp_path: Path) -> None:
    rules = replace(NAMED, delay_s=2_500.0, workers=1)
    async with batched(tmp_path, rows=40, rules=rules, seconds=lambda _: 50.0) as b:
        finish_by = b.p.clock.now() + 3_600 * S
        b.p.settings[b.p.run.id] = replace(b.p.settings[b.p.run.id], finish_by=finish_by)
        await b.p.finish()
        assert b.p.clock.now() < finish_by
        await b.all_done_once(40)
        [batch] = await b.p.ledger.runs.batches.of_run(b.p.run.id)
        assert (batch.stage, batch.why) == (BatchStage.OVER, Why.LATE)
        assert any("at the full price" in line for line in b.p.warnings)
        by_run = [n for n in range(1, 41) if (await b.p.job(n)).batch is None]
        assert len(by_run) > 20


@pytest.mark.slow
async def test_a_batch_that_ends_in_time_is_left_alone(tmp_path: Path) -> None:
    rules = replace(NAMED, delay_s=60.0, workers=8)
    async with batched(tmp_path, rows=60, rules=rules, seconds=lambda _: 100.0) as b:
        finish_by = b.p.clock.now() + 1_700 * S
        b.p.settings[b.p.run.id] = replace(b.p.settings[b.p.run.id], finish_by=finish_by)
        await b.p.finish()
        await b.all_done_once(60)
        [batch] = await b.p.ledger.runs.batches.of_run(b.p.run.id)
        assert batch.why is None


async def test_a_batch_that_somebody_else_cancels_has_its_rows_cancelled(tmp_path: Path) -> None:
    async with batched(tmp_path, rows=40, rules=replace(NAMED, delay_s=600.0)) as b:
        await until_stage(b, BatchStage.RUNNING)
        [batch] = await b.p.ledger.runs.batches.of_run(b.p.run.id)
        [told] = b.p.engine.report().of(b.p.run.id).batches
        assert (told.batch, told.rows, told.waits) == (batch.remote_id, 40, True)
        b.service.batches.cancel(ENDPOINT, batch.remote_id or "", b.p.clock.now())
        await b.p.finish()
        assert await b.p.counts() == {"cancelled": 40}
        assert b.service.paid == 0


@pytest.mark.slow
@pytest.mark.parametrize("is_begun", [False, True])
async def test_a_row_that_people_cancel_stays_in_its_batch_and_is_never_sent_again(
    tmp_path: Path, is_begun: bool
) -> None:
    async with batched(tmp_path, rows=20, rules=replace(NAMED, delay_s=60.0 if is_begun else 6_000.0)) as b:
        await until_stage(b, BatchStage.RUNNING)
        run = b.p.run.id
        assert await cancel_row(b, 7) == f"1 job is being cancelled, at the service{IN_BATCHES.format('1 job')}"
        if not is_begun:
            b.p.settings[run] = replace(b.p.settings[run], finish_by=b.p.clock.now() + S)
        await b.p.finish()
        assert (await b.p.counts()).get("cancelled", 0) == (not is_begun)
        assert b.service.paid == 20 if is_begun else 19


async def test_a_row_that_people_cancel_while_its_batch_is_packed_goes_with_the_draft(tmp_path: Path) -> None:
    async with batched(tmp_path, rows=20, rules=replace(NAMED, delay_s=600.0)) as b:
        await b.p.until(State.OUTSTANDING, 20)
        run = b.p.run.id
        await cancel_row(b, 7)
        b.p.settings[run] = replace(b.p.settings[run], finish_by=b.p.clock.now() + S)
        await b.p.finish()
        assert (await b.p.counts())["cancelled"] == 1
        assert b.service.paid == 19


async def test_a_batch_that_the_service_forgets_has_its_rows_sent_anew(tmp_path: Path) -> None:
    settings = replace(BATCH, batch_repeats=0)
    async with batched(tmp_path, rows=40, rules=replace(NAMED, delay_s=600.0), settings=settings) as b:
        await until_stage(b, BatchStage.RUNNING)
        b.service.dice.faults = Faults(amnesia=1.0)
        await b.p.until(State.QUEUED)
        b.service.dice.faults = Faults()
        await b.p.finish()
        assert len(await b.p.results()) == 40
        assert "lost" in (await b.p.story())[2] or "expired" in (await b.p.story())[2]


@pytest.mark.slow
async def test_a_run_that_is_paused_begins_no_batch_and_goes_on_later(tmp_path: Path) -> None:
    async with batched(tmp_path, rows=40, rules=NAMED) as b:
        await b.p.until(State.OUTSTANDING, 3)
        await obeyed(b.p.ledger, Action.PAUSE, run=b.p.run.id)
        await b.p.control.follow()
        await anyio.sleep(1_000)
        assert await b.stages() == ["draft"]
        await obeyed(b.p.ledger, Action.CONTINUE, run=b.p.run.id)
        await b.p.control.follow()
        await b.p.finish()
        await b.all_done_once(40)
