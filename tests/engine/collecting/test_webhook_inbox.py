import json
import random
from pathlib import Path

import anyio
import httpx
import pytest

from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.webhook_token import Notice, token
from orchestrator.engine.collecting.notice_desk import NoticeDesk
from orchestrator.engine.collecting.notice_queue import NoticeQueue
from orchestrator.engine.collecting.webhook_inbox import IDLE_S, WebhookInbox
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.ledger import Ledger, command_ledger
from orchestrator.settings.run_settings import RunSettings
from orchestrator.web.application import listener_application
from orchestrator.web.webhook_routes import Webhooks
from tests.engine.process import KEY, Process, process
from tests.engine.scripted import (
    ACCEPTED,
    CANCELLED,
    COMPLETED,
    CUT,
    FAILED,
    IN_PROGRESS,
    Reply,
    Scripted,
    in_turn,
    numbered,
    says,
)
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def tell(p: Process, submission: int, record: Reply = COMPLETED, headers: dict[str, str] | None = None) -> int:
    """The service's webhook for `submission`, with the body of `record`."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(p.listener)) as client:
        url = f"http://listener/hooks/{token(KEY, submission)}"
        return (await client.post(url, content=record.body, headers=headers)).status_code


async def submission_of(p: Process, n: int = 1) -> int:
    submission = (await p.job(n)).submission
    assert submission is not None
    return submission


async def test_a_webhook_brings_the_result_of_a_first_execution_without_a_question(tmp_path: Path) -> None:
    transport = Scripted()
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        sent = json.loads(transport.asked[0].body)
        assert sent["webhook"] == f"http://listener/hooks/{token(KEY, await submission_of(p))}"
        assert await tell(p, await submission_of(p)) == 200
        await p.finish()
        assert [asked.operation for asked in transport.asked] == ["run"]
        [result] = await p.results()
        assert (result.output, result.delay_ms, result.execution_ms, result.attempts) == (b'{"ok":1}', 10, 20, 1)
        assert p.progress.margin_min_s == pytest.approx(1800, abs=0.1)


async def test_a_webhook_that_comes_twice_and_once_more_late_changes_nothing(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(), webhooks=True) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        submission = await submission_of(p)
        async with anyio.create_task_group() as both:
            both.start_soon(tell, p, submission)
            both.start_soon(tell, p, submission)
        await p.finish()
        assert await tell(p, submission) == 200
        assert await tell(p, submission, FAILED) == 200
        await anyio.sleep(10)
        assert await p.story() == ["claimed", "accepted", "completed"]
        assert await p.ledger.jobs.notices.count() == 0  # no notice is left behind


async def test_a_failure_told_by_webhook_is_retried_and_a_late_repetition_does_not_fail_the_second_attempt(
    tmp_path: Path,
) -> None:
    transport = Scripted()
    async with process(tmp_path / "db", transport, webhooks=True, settings=RunSettings(max_attempts=2)) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        submission = await submission_of(p)
        await tell(p, submission, FAILED)
        await p.until_event(lambda step: step.event is Event.RETRIED)
        await tell(p, submission, FAILED)
        await p.until_event(lambda step: step.event is Event.ACCEPTED)
        assert (await p.job()).attempt == 2
        for _ in range(3):
            await tell(p, submission, FAILED)  # of the first attempt, for all one knows
            await anyio.sleep(1)
        assert [asked.operation for asked in transport.asked][:5] == ["run", "retry", "status", "status", "status"]
        assert len(transport.of("retry")) == 1
        assert (await p.job()).state is State.OUTSTANDING
        transport.scripts["status"] = COMPLETED
        await tell(p, submission, COMPLETED)
        await p.finish()
        assert [result.attempts for result in await p.results()] == [2]


async def test_a_webhook_while_the_retry_waits_for_its_time_is_ignored_unless_it_is_a_result(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(), webhooks=True) as p:
        await p.start("dispatcher", "collector", "inbox")
        await p.until(State.OUTSTANDING)
        submission = await submission_of(p)
        await tell(p, submission, FAILED)
        await p.until_event(lambda step: step.event is Event.RETRIED)
        await tell(p, submission, says("TIMED_OUT"))
        await anyio.sleep(0.1)
        assert (await p.job()).state is State.QUEUED
        await tell(p, submission, COMPLETED)
        await p.finish()
        assert (await p.job()).state is State.SUCCEEDED


async def test_an_unanswered_retry_after_a_failure_told_by_webhook_costs_no_attempt(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(FAILED, COMPLETED), retry=in_turn(CUT, Reply()))
    async with process(tmp_path / "db", transport, webhooks=True, settings=RunSettings(max_attempts=2)) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        await tell(p, await submission_of(p), says("FAILED", error="boom", delayTime=10, executionTime=20))
        await p.finish()
        assert len(transport.of("retry")) == 2
        assert [result.attempts for result in await p.results()] == [2]


@pytest.mark.parametrize(
    ("record", "story"),
    [
        (COMPLETED, ["claimed", "unanswered uncertain", "completed"]),
        (FAILED, ["claimed", "unanswered uncertain", "adopted", "retried failed"]),
        (CANCELLED, ["claimed", "unanswered uncertain", "adopted", "cancelled cancelled"]),
    ],
)
async def test_an_uncertain_submission_is_adopted_by_its_webhook(
    tmp_path: Path, record: Reply, story: list[str]
) -> None:
    async with process(tmp_path / "db", Scripted(run=CUT), webhooks=True) as p:
        await p.begin()
        await p.until(State.UNCERTAIN)
        await tell(p, await submission_of(p), record)
        last = story[-1].split()[0]
        await p.until_event(lambda step: step.event == last)
        assert (await p.story())[: len(story)] == story
        counts = await p.counts()
        assert (counts["uncertain_seen"], counts["uncertain_adopted"]) == (1, 1)
        assert (await p.job()).remote_id == "r-1"
        await anyio.sleep(0.1)
        learned = 0 if record is CANCELLED else 1
        assert p.endpoint.estimates.durations.execution.weight == learned, "an adopted job's webhook counts once"


async def test_a_failure_without_a_usable_id_cannot_adopt(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=CUT), webhooks=True) as p:
        await p.begin()
        await p.until(State.UNCERTAIN)
        await tell(p, await submission_of(p), says("FAILED", "../purge-queue"))
        await anyio.sleep(1)
        assert (await p.job()).state is State.UNCERTAIN
        assert await p.ledger.jobs.notices.count() == 0


@pytest.mark.parametrize("record", [COMPLETED, FAILED])
async def test_a_webhook_may_come_before_the_answer_to_its_submission(tmp_path: Path, record: Reply) -> None:
    transport = Scripted(run=ACCEPTED._replace(after_s=5), retry=Reply(after_s=5), status=COMPLETED)
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        await p.begin()
        await p.until(State.SUBMITTING)
        await tell(p, await submission_of(p), record)
        await p.finish()
        await anyio.sleep(10)
        assert len(transport.of("run")) == 1
        story = await p.story()
        assert story[:2] == ["claimed", "accepted"], "the answer says what the service calls the job"
        assert story[2] == ("completed" if record is COMPLETED else "retried failed")
        assert (await p.job()).remote_id == "r-1"
        assert [job.trouble for job in await p.results()] == [None]


@pytest.mark.parametrize("records", [(FAILED, COMPLETED), (COMPLETED, FAILED)])
async def test_a_job_that_was_announced_as_failed_and_as_completed_before_its_answer_has_its_result(
    tmp_path: Path, records: tuple[Reply, ...]
) -> None:
    transport = Scripted(run=ACCEPTED._replace(after_s=5))
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        await p.begin()
        await p.until(State.SUBMITTING)
        for record in records:
            await tell(p, await submission_of(p), record)
        await p.finish()
        assert await p.story() == ["claimed", "accepted", "completed"], "nothing is paid again whose result is there"


async def test_a_webhook_with_another_id_than_the_answer_gave_is_only_a_hint(tmp_path: Path) -> None:
    transport = Scripted()
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        await tell(p, await submission_of(p), says("COMPLETED", "r-666", output="forged"))
        await anyio.sleep(0.5)
        assert (await p.job()).state is State.OUTSTANDING
        assert [asked.operation for asked in transport.asked] == ["run", "status"]


@pytest.mark.parametrize(
    ("record", "headers"),
    [
        (Reply(body=b"{}"), {"content-length": str(64 * 1024 * 1024)}),
        (Reply(body=b'{"id":"r-1","status":"COMPLETED","output":NaN}'), None),
        (IN_PROGRESS, None),
    ],
)
async def test_a_body_that_is_too_large_or_tells_no_end_is_a_hint_to_ask(
    tmp_path: Path, record: Reply, headers: dict[str, str] | None
) -> None:
    transport = Scripted(status=COMPLETED)
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        told_s = anyio.current_time()
        assert await tell(p, await submission_of(p), record, headers) == 200
        await p.finish()
        assert anyio.current_time() - told_s < 0.2
        assert [asked.operation for asked in transport.asked] == ["run", "status"]


async def test_the_result_of_a_submission_that_was_given_up_still_counts_and_the_first_one_wins(
    tmp_path: Path,
) -> None:
    transport = Scripted(run=in_turn(CUT, says("IN_QUEUE", "r-2")))
    settings = RunSettings(uncertain_after_us=5_000_000)
    async with process(tmp_path / "db", transport, webhooks=True, settings=settings) as p:
        await p.begin()
        await p.until(State.UNCERTAIN)
        first = await submission_of(p)
        await p.until(State.OUTSTANDING)
        second = await submission_of(p)
        assert first != second
        await tell(p, first, FAILED)
        await anyio.sleep(1)
        assert (await p.job()).state is State.OUTSTANDING
        await tell(p, first, says("COMPLETED", "r-1", output="first"))
        await tell(p, second, says("COMPLETED", "r-2", output="second"))
        await p.finish()
        [result] = await p.results()
        assert (result.output, result.remote_id) == (b'"first"', "r-1")
        assert (result.attempts, result.paid_at_most) == (1, 2)


@pytest.mark.parametrize("seed", range(4))
async def test_a_notice_whose_job_changed_under_our_hands_is_tried_again(tmp_path: Path, seed: int) -> None:
    """The answer to /run is written between the look at the job and the step that the notice makes of it."""
    chance = random.Random(seed)
    transport = Scripted(run=ACCEPTED._replace(after_s=1.0), status=COMPLETED)
    async with process(tmp_path / "db", transport, webhooks=True, delay=lambda: chance.uniform(0, 0.02)) as p:
        await p.begin()
        await p.until(State.SUBMITTING)
        submission = await submission_of(p)
        await anyio.sleep(0.8)
        async with anyio.create_task_group() as telling:
            for _ in range(20):
                telling.start_soon(tell, p, submission, FAILED)
                await anyio.sleep(0.03)
        await p.finish()
        story = await p.story()
        assert story.count("retried failed") == 1, f"seed {seed}"
        assert story[-3:] == ["claimed", "accepted", "completed"], f"seed {seed}"
        await anyio.sleep(1)
        assert await p.ledger.jobs.notices.count() == 0


async def test_what_a_dead_process_noted_is_dealt_with_by_the_next_one(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=numbered()), webhooks=True, jobs=3) as p:
        await p.start("dispatcher")  # nobody goes through the notices
        await p.until(State.OUTSTANDING, 3)
        for n in (1, 2):
            assert await tell(p, await submission_of(p, n), says("COMPLETED", f"r-{n}", output=n)) == 200
        assert await p.ledger.jobs.notices.count() == 2, "answered, so durable"
    transport = Scripted(status=lambda asked: says("COMPLETED", asked.remote_id, output=int(asked.remote_id[2:])))
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        await p.begin()
        await p.finish()
        assert [result.output for result in await p.results()] == [b"1", b"2", b"3"]


@pytest.mark.parametrize(("waiting_max", "bytes_max"), [(2, 1 << 20), (5_000, 20)])
async def test_more_notices_than_memory_may_hold_wait_in_the_ledger(
    tmp_path: Path, waiting_max: int, bytes_max: int
) -> None:
    n_max = 40
    async with process(tmp_path / "db", Scripted(run=numbered()), webhooks=True, jobs=n_max) as p:
        p.inbox = WebhookInbox(
            ledger=p.ledger,
            endpoints=p.endpoints,
            validators=p.engine.endpoints.validators,
            launch=p.task_pool.launch,
            progress={},
            owed=Subscribers(),
            queue=NoticeQueue(p.ledger, p.endpoints, waiting_max=waiting_max, bytes_max=bytes_max),
        )
        desk = NoticeDesk(p.ledger)
        desk.add(p.inbox)
        p.listener = listener_application(Webhooks(key=KEY, sink=desk, clock=p.clock))
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING, n_max)
        submissions = [await submission_of(p, n) for n in range(1, n_max + 1)]
        async with anyio.create_task_group() as telling:
            for n, submission in enumerate(submissions, start=1):
                telling.start_soon(tell, p, submission, says("COMPLETED", f"r-{n}", output="x" * 10))
                await anyio.sleep(0.003)
        held = p.inbox.waiting
        await p.start("inbox")
        await p.finish()
        await anyio.sleep(1)
        assert await p.ledger.jobs.notices.count() == 0
        assert 0 < held <= 3


async def test_a_notice_for_an_endpoint_that_another_process_serves_is_left_to_it(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(), webhooks=True) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        del p.endpoints[p.endpoint.id]
        await p.start("inbox")
        await tell(p, await submission_of(p))
        await anyio.sleep(10)
        assert (await p.job()).state is State.OUTSTANDING
    async with process(tmp_path / "db", Scripted(), webhooks=True) as p:
        await p.begin()
        await p.finish()
        assert [result.output for result in await p.results()] == [b'{"ok":1}']


async def test_a_notice_of_a_submission_that_nobody_knows_is_forgotten(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(), webhooks=True) as p:
        await p.start("inbox")
        assert await tell(p, 7) == 200
        await anyio.sleep(1)
        assert await p.ledger.jobs.notices.count() == 0
        assert await p.inbox._poll() == IDLE_S


async def test_a_webhook_that_says_completed_without_output_is_a_failure_where_output_is_required(
    tmp_path: Path,
) -> None:
    settings = RunSettings(output_required=True, max_attempts=1)
    async with process(tmp_path / "db", Scripted(), webhooks=True, settings=settings) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        await tell(p, await submission_of(p), says("COMPLETED"))
        await p.finish()
        assert [failure.trouble for failure in await p.failures()] == ["invalid_output"]


async def told(ledger: Ledger, submission: int, n: int, at: int) -> None:
    """Another listener notes the result of job `n`."""
    record = Record(remote_id=f"r-{n}", status="COMPLETED", output=b"%d" % n, execution_ms=20)
    await ledger.writer.record_notice(Notice(submission=submission, received_at=at, record=record))


async def test_what_a_listener_elsewhere_has_noted_counts_within_a_second(tmp_path: Path) -> None:
    path = tmp_path / "db"
    async with (
        process(path, Scripted(run=numbered()), webhooks=True, watch_every_s=0.25) as p,
        command_ledger(path, clock=p.clock, connect=async_creator(path)) as elsewhere,
    ):
        await p.begin()
        await p.until(State.OUTSTANDING)
        await anyio.sleep(7)
        await told(elsewhere, await submission_of(p), 1, p.clock.now())
        noted_s = anyio.current_time()
        await p.until_event(lambda step: step.event is Event.COMPLETED)
        assert anyio.current_time() - noted_s < 1
        assert await p.ledger.jobs.notices.count() == 0


@pytest.mark.parametrize("seed", range(3))
async def test_what_comes_while_the_ledger_is_looked_into_counts_once(tmp_path: Path, seed: int) -> None:
    chance, n_max = random.Random(seed), 30
    transport = Scripted(run=numbered())
    async with process(
        tmp_path / "db", transport, webhooks=True, jobs=n_max, delay=lambda: chance.uniform(0, 0.02)
    ) as p:
        await p.start("dispatcher", "inbox")
        await p.until(State.OUTSTANDING, n_max)
        health = p.endpoint.estimates.webhook_health
        for _ in range(n_max):
            health.observe(finished=True, arrived=False)
        async with anyio.create_task_group() as telling:
            for n in range(1, n_max + 1):
                job = await p.job(n)
                assert job.remote_id is not None
                record = says("COMPLETED", job.remote_id, output=1, executionTime=20)
                telling.start_soon(tell, p, await submission_of(p, n), record)
                p.inbox.look()
                await anyio.sleep(chance.uniform(0, 0.01))
                p.inbox.look()
        await p.until(State.SUCCEEDED, n_max)
        await anyio.sleep(1)
        assert health.share == pytest.approx(0.5), f"seed {seed}: each counts once"
        assert await p.ledger.jobs.notices.count() == 0


async def test_several_engines_of_a_process_each_take_what_is_of_their_endpoints(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=numbered()), webhooks=True, jobs=2) as p:
        others = WebhookInbox(
            ledger=p.ledger,
            endpoints={},
            validators=p.engine.endpoints.validators,
            launch=p.task_pool.launch,
            progress={},
            owed=Subscribers(),
            queue=NoticeQueue(p.ledger, {}, is_keeper=False),
        )
        p.engine.process.desk.add(others)
        await p.start("dispatcher")
        p.taking.start_soon(others.serve)
        await p.until(State.OUTSTANDING, 2)
        for n in (1, 2):
            assert await tell(p, await submission_of(p, n), says("COMPLETED", f"r-{n}", output=n)) == 200
        assert await tell(p, 7) == 200
        await anyio.sleep(1)
        assert await p.ledger.jobs.notices.count() == 3, "none of them is of those that serve no endpoint"
        await p.start("inbox")
        await anyio.sleep(1)
        assert [result.output for result in await p.results()] == [b"1", b"2"]
        p.engine.process.desk.remove(others)
        assert await tell(p, 8) == 200
        await anyio.sleep(0.05)
        assert await p.ledger.jobs.notices.count() == 0, "the only one is handed what comes"


async def test_an_uncertain_submission_is_adopted_by_whatever_tells_what_the_service_calls_it(tmp_path: Path) -> None:
    transport = Scripted(run=CUT, status=COMPLETED)
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        await p.begin()
        await p.until(State.UNCERTAIN)
        await tell(p, await submission_of(p), says("IN_QUEUE", "r-1"))
        await p.finish()
        assert await p.story() == ["claimed", "unanswered uncertain", "adopted", "completed"]
        assert [asked.operation for asked in transport.asked] == ["run", "status"]
