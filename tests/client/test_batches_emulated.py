"""The service's own Batch by its client, against the emulator, which was written from its documents a second time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from orchestrator.client import EndpointJobs, InProcess, JobRefusedError, Service, Unanswered, UsageError
from orchestrator.client.jobs.endpoint_batches import EndpointBatches
from orchestrator.core.service.batches import CALL_BYTES_MAX, BatchChanged
from orchestrator.emulator.batches.batch_rules import BatchRules
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.server import Emulator
from orchestrator.emulator.workers.handlers import HandlerInput
from tests.client.scripted import KEY, PLENTY, Script, answer
from tests.emulator.emulators import emulator
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

DRAFT = '{"id":"batch_1","status":"DRAFT"}'


async def work(job: HandlerInput) -> object:
    await anyio.sleep(1)
    if job["input"].get("bad"):
        raise ValueError("bad seed")
    return {"got": job["input"]["n"]}


@asynccontextmanager
async def serving(**rules: Any) -> AsyncIterator[tuple[EndpointJobs, Emulator]]:
    clock = VirtualClock()
    emulated = emulator(work, clock=clock, batch=BatchRules(**rules))
    transport = InProcess(emulated.app, cut=ConnectionCut)
    async with anyio.create_task_group() as tasks:
        await tasks.start(emulated.serve)
        yield Service("http://emulated", KEY, clock, limits=PLENTY, transport=transport).endpoint("ep"), emulated
        tasks.cancel_scope.cancel()


async def test_a_batch_from_its_first_input_to_its_last_result() -> None:
    async with serving(page_max=2, append_ids=True) as (jobs, _):
        made = await jobs.batches.create([{"n": 1}])
        assert made.is_draft
        changed = await jobs.batches.append(made.id, [{"n": 2}, {"n": 3, "bad": True}, b'{"n":4.0}'])
        assert changed.request_ids is not None
        assert (await jobs.batches.change(made.id, {"name": "captions"})).total == 4
        final = await jobs.batches.finalize(made.id)
        assert (final.status, final.is_over) == ("FINALIZED", False)
        await anyio.sleep(61)
        running = await jobs.batches.get(made.id)
        assert (running.total, running.in_progress, running.is_over) == (4, 4, False)
        await anyio.sleep(1)
        over = await jobs.batches.get(made.id)
        assert (over.completed, over.failed, over.is_over) == (3, 1, True)
        rows = [row async for row in jobs.batches.rows(made.id)]
        assert [row.record.output for row in rows] == [b'{"got":1}', b'{"got":2}', None, b'{"got":4.0}']
        assert [row.record.remote_id for row in rows[1:]] == list(changed.request_ids)
        assert {row.record.execution_ms for row in rows} == {1000}
        assert "bad seed" in (rows[2].record.error or "")
        assert rows[0].finished_at is not None
        assert [batch.id async for batch in jobs.batches.all()] == [made.id]


async def test_where_an_append_names_no_ids_there_are_none() -> None:
    async with serving() as (jobs, _):
        made = await jobs.batches.create()
        changed = await jobs.batches.append(made.id, [{"n": 1}])
        assert changed == BatchChanged(batch=changed.batch)


async def test_a_cancelled_batch_is_so_once_what_runs_has_ended() -> None:
    async with serving(delay_s=0.0, workers=1) as (jobs, emulated):
        made = await jobs.batches.create([{"n": n} for n in range(3)])
        await jobs.batches.finalize(made.id)
        await anyio.sleep(0.5)
        assert (await jobs.batches.cancel(made.id)).status == "FINALIZED"
        await anyio.sleep(1)
        assert (await jobs.batches.get(made.id)).is_over
        assert [row.record.status async for row in jobs.batches.rows(made.id)] == [
            "COMPLETED",
            "CANCELLED",
            "CANCELLED",
        ]
        assert emulated.stats().endpoints["ep.batch"].executed_s == pytest.approx(1.0, abs=0.1)


async def test_batches_are_listed_page_after_page() -> None:
    async with serving(page_max=2) as (jobs, _):
        made = [(await jobs.batches.create()).id for _ in range(5)]
        assert [batch.id async for batch in jobs.batches.all()] == made[::-1]


@pytest.mark.parametrize(
    ("call", "status", "words"),
    [
        (lambda batches, empty, _: batches.finalize(empty), 400, "does not take it"),
        (lambda batches, _, full: batches.append(full, [{"n": 1}]), 409, "only a draft can be changed"),
        (lambda batches, *_: batches.get("batch_none"), 404, "does not know the batch"),
        (lambda batches, empty, _: batches.append(empty, [{"n": n} for n in (1, 2, 3)]), 400, "5,000 requests a batch"),
    ],
    ids=["finalize one without requests", "append to one that is finalized", "one that is not there", "too many"],
)
async def test_each_refusal_says_what_it_means(
    call: Callable[[EndpointBatches, str, str], Awaitable[object]], status: int, words: str
) -> None:
    async with serving(requests_max=2) as (jobs, _):
        empty, full = await jobs.batches.create(), await jobs.batches.create([{"n": 1}])
        await jobs.batches.finalize(full.id)
        with pytest.raises(JobRefusedError, match=words) as refused:
            await call(jobs.batches, empty.id, full.id)
        assert refused.value.status == status


async def test_a_change_whose_answer_is_lost_is_not_made_twice() -> None:
    async with serving() as (jobs, emulated):
        made = await jobs.batches.create()
        emulated.dice.faults = Faults(lost_answer=1.0)
        with pytest.raises(Unanswered, match="look at the endpoint's batches before repeating it"):
            await jobs.batches.append(made.id, [{"n": 1}])
        assert (await jobs.batches.get(made.id)).total == 1


async def test_what_changes_something_is_never_repeated_and_a_question_is() -> None:
    script = Script(answer(status=500))
    with pytest.raises(JobRefusedError, match="paid twice"):
        await script.jobs.batches.append("batch_1", [{"n": 1}])
    assert len(script.requests) == 1
    script = Script(answer(status=500), answer("<html>"), Unanswered("cut"), answer(DRAFT))
    assert (await script.jobs.batches.get("batch_1")).is_draft
    assert len(script.requests) == 4


async def test_a_question_that_fails_says_nothing_of_what_may_have_happened() -> None:
    script = Script(answer(status=500))
    with pytest.raises(JobRefusedError) as refused:
        await script.jobs.batches.get("batch_1")
    assert "paid twice" not in str(refused.value)


async def test_pages_that_never_end_are_not_followed_for_ever() -> None:
    script = Script(answer('{"requests":[],"hasMore":true}'))
    assert [row async for row in script.jobs.batches.rows("batch_1")] == []
    script = Script(answer('{"batches":[],"hasMore":true}'))
    assert [batch async for batch in script.jobs.batches.all()] == []


async def test_what_the_service_would_refuse_is_refused_before_it_is_sent() -> None:
    script = Script(answer(DRAFT))
    large = {"text": "x" * CALL_BYTES_MAX}
    for call in (script.jobs.batches.create([large]), script.jobs.batches.append("batch_1", [large])):
        with pytest.raises(UsageError, match="over the service's limit"):
            await call
    with pytest.raises(UsageError, match="is empty"):
        await script.jobs.batches.create([{}])
    with pytest.raises(UsageError, match="no batch id"):
        await script.jobs.batches.get("../x")
    assert script.requests == []
