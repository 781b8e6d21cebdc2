"""What happens to a chunk on its way happens to all of its rows, and to each once."""

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.chunks.chunk_terms import ChunkTerms
from orchestrator.core.gates.brake_gates import Canary
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.emulator.contract.faults import Faults
from orchestrator.engine.collecting.chunk_results import LATE
from orchestrator.engine.commands.cancel_jobs import IN_COMPANY, cancel_chosen
from orchestrator.ledger.commands.command_types import Action, CancelledJobs
from orchestrator.settings.run_settings import RunSettings
from tests.crashes.commits import audited
from tests.engine.chunks.test_chunks import all_doubled, at_work
from tests.engine.chunks.travelling import CHUNKS, Handler
from tests.engine.collecting.test_webhook_inbox import submission_of, tell
from tests.engine.process import Process, process
from tests.engine.scripted import CUT, GONE, Asked, Reply, Scripted, in_turn, says

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SMALL = RunSettings(chunk=ChunkTerms(rows=4))
PARTS = '[{"twice":2},{"twice":4},{"twice":6},{"twice":8}]'


def done(asked: Asked) -> Reply:
    return Reply(body=f'{{"id":"{asked.remote_id}","status":"COMPLETED","executionTime":7,"output":{PARTS}}}'.encode())


async def test_a_chunk_that_is_not_taken_waits_as_a_whole(tmp_path: Path) -> None:
    transport = Scripted(run=in_turn(Reply(429), says("IN_QUEUE", "r-1")), status=done)
    async with process(tmp_path / "db", transport, jobs=4, settings=SMALL) as p:
        await p.begin()
        await p.finish()
        await all_doubled(p, 4)
        assert len(transport.of("run")) == 2
        assert await p.story(3) == ["claimed", "deferred throttled", "claimed", "accepted", "completed"]
        assert {row.paid_at_most for row in await p.results()} == {1}


async def test_a_chunk_without_an_answer_is_sent_again_once(tmp_path: Path) -> None:
    transport = Scripted(run=in_turn(CUT, says("IN_QUEUE", "r-1")), status=done)
    async with process(tmp_path / "db", transport, jobs=4, settings=SMALL) as p:
        await p.begin()
        await p.finish()
        await all_doubled(p, 4)
        assert len(transport.of("run")) == 2
        assert await p.story(1) == await p.story(4)
        assert await p.counts() == {"succeeded": 4, "uncertain_seen": 1, "uncertain_resubmitted": 1}
        assert await audited(p.ledger) == []


async def test_a_chunk_that_the_service_will_not_have_is_halved_and_nothing_is_counted(tmp_path: Path) -> None:
    """As where it is too large, or one of its rows is."""

    def run(asked: Asked) -> Reply:
        return (
            Reply(400, body=b"no")
            if asked.body.count(b'"n":') > 1
            else says("IN_QUEUE", f"r-{asked.body[20:40].strip().hex()}")
        )

    transport = Scripted(run=run, status=says("COMPLETED", output=[{"twice": 2}]))
    async with process(tmp_path / "db", transport, jobs=4, settings=replace(SMALL, max_attempts=1)) as p:
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": 4}
        assert {row.paid_at_most for row in await p.results()} == {1}


async def test_a_webhook_brings_what_is_in_a_chunk_and_nobody_else_is_asked(tmp_path: Path) -> None:
    faults = Faults(lost_answer=0.3)
    async with at_work(tmp_path, Handler(), rows=320, webhooks=True, seed=5, faults=faults) as (p, service):
        await p.finish()
        await all_doubled(p, 320)
        assert (await p.counts())["uncertain_adopted"] >= 3
        assert service.paid == 20
        assert p.endpoint.api.limiter.counts(Operation.STATUS).codes == {}
        assert await audited(p.ledger) == []


async def test_where_a_webhook_has_not_all_of_a_chunk_status_is_asked(tmp_path: Path) -> None:
    transport = Scripted(run=says("IN_QUEUE", "r-1"), status=done)
    async with process(tmp_path / "db", transport, jobs=4, settings=SMALL, webhooks=True) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 4)
        assert transport.of("status") == []
        await tell(p, await submission_of(p), says("COMPLETED", "r-1", output=[{"twice": 2}]))
        await p.finish()
        await all_doubled(p, 4)
        assert len(transport.of("status")) == 1
        assert await p.story(4) == ["claimed", "accepted", "completed"]


async def test_what_was_given_up_and_ends_all_the_same_is_not_executed_again(tmp_path: Path) -> None:
    """Though its rows had been claimed again meanwhile, and were refused."""
    transport = Scripted(run=in_turn(says("IN_QUEUE", "r-1"), Reply(429, headers={"retry-after": "900"})), status=GONE)
    async with process(tmp_path / "db", transport, jobs=4, settings=SMALL, webhooks=True) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 4)
        submission = await submission_of(p)
        await p.until_event(lambda step: step.event is Event.DEFERRED)
        await tell(p, submission, done(Asked(0.0, "run", "r-1", b"")))
        await p.finish()
        await all_doubled(p, 4)
        assert len(transport.of("run")) == 2
        story = ["claimed", "accepted", "retried lost", "claimed", "deferred throttled", "completed"]
        assert [await p.story(n) for n in (1, 4)] == [story] * 2
        assert (await p.events(4))[-1].text == LATE
        assert {(row.remote_id, row.attempts) for row in await p.results()} == {("r-1", 1)}
        assert await audited(p.ledger) == []


async def test_rows_that_wait_take_a_late_result_also_while_the_first_of_them_is_on_its_way_again(
    tmp_path: Path,
) -> None:
    answers = in_turn(says("IN_QUEUE", "r-1"), CUT, Reply(429, headers={"retry-after": "900"}))
    transport = Scripted(run=answers, status=says("FAILED", error="boom"))
    async with process(tmp_path / "db", transport, jobs=4, settings=SMALL, webhooks=True) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 4)
        submission = await submission_of(p)
        await p.until_event(lambda step: step.event is Event.DEFERRED)
        assert [(await p.job(n)).state for n in (1, 2, 3, 4)] == [State.UNCERTAIN] * 2 + [State.QUEUED] * 2
        await tell(p, submission, done(Asked(0.0, "run", "r-1", b"")))
        await p.until(State.SUCCEEDED, 2)
        assert [(await p.job(n)).state for n in (1, 2)] == [State.UNCERTAIN] * 2, "of what is sent again nobody knows"
        assert {row.custom_id for row in await p.results()} == {"job-3", "job-4"}
        assert (await p.events(4))[-1].text == LATE


async def test_the_rows_that_go_first_go_alone(tmp_path: Path) -> None:
    handler = Handler()
    async with at_work(tmp_path, handler, rows=34, settings=replace(CHUNKS, canary=Canary(rows=2))) as (p, _):
        await p.finish()
        await all_doubled(p, 34)
        assert handler.sizes[:2] == [1, 1]
        assert sorted(handler.sizes) == [1, 1, 16, 16]


async def cancelled(p: Process, where: str) -> str:
    """What is said to who cancels these rows."""
    commands = p.ledger.commands
    await commands.ask(Action.CANCEL_JOBS, run=p.run.id, argument=CancelledJobs(where))
    [command] = await commands.pending()
    reply = await cancel_chosen(p.ledger, p.canceller.wake, command)
    await commands.finish(command.id, reply)
    return reply.text


async def test_one_row_of_a_chunk_is_not_cancelled_and_all_of_them_are(tmp_path: Path) -> None:
    async with at_work(tmp_path, Handler(), rows=32, seconds=lambda _: 500.0) as (p, service):
        await p.until(State.OUTSTANDING, 32)
        assert await cancelled(p, "line<=16") == "16 jobs are being cancelled, at the service"
        said = await cancelled(p, "line=17 or line=20")
        assert said == f"2 jobs are being cancelled, at the service{IN_COMPANY.format('2 jobs travel')}"
        await p.until(State.CANCELLED, 16)
        await anyio.sleep(60)
        assert await p.counts() == {"cancelled": 16, "outstanding": 16}
        await p.finish()
        assert await p.counts() == {"cancelled": 16, "succeeded": 16}
        assert service.paid <= 2
        assert await audited(p.ledger) == []


@pytest.mark.slow
async def test_of_a_chunk_that_fails_what_people_want_no_more_is_cancelled_and_the_rest_goes_again(
    tmp_path: Path,
) -> None:
    handler = Handler(poisonous={2})
    async with at_work(tmp_path, handler, rows=16, seconds=lambda _: 500.0) as (p, _):
        await p.until(State.OUTSTANDING, 16)
        await cancelled(p, "line<=3")
        await p.finish()
        assert await p.counts() == {"cancelled": 3, "succeeded": 13}
        assert sorted(handler.sizes) == [5, 8, 16]
