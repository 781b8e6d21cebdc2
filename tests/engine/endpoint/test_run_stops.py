"""Executions that fail: what is remembered of them over a crash, and what the user hears."""

from pathlib import Path

import anyio
import msgspec
import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.job import Job, Outcome
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.jobs.segments import SegmentEnd
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Record
from orchestrator.engine.collecting.result_steps import on_finished
from orchestrator.engine.endpoint.run_stops import failure_message, is_success
from orchestrator.settings.run_settings import RunSettings
from tests.engine.collecting.test_webhook_inbox import submission_of, tell
from tests.engine.process import process
from tests.engine.scripted import COMPLETED, CUT, FAILED, IN_PROGRESS, Asked, Reply, Scripted, in_turn, numbered, says
from tests.simulation.clock import VirtualClock
from tests.simulation.run import Crash, run_until_crash
from tests.simulation.run import run as run_world

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECOND = 1_000_000
TWO = RunSettings(max_attempts=2)
OTHER = says("FAILED", error="boom", delayTime=11, executionTime=20, workerId="w")


@pytest.mark.parametrize("moment", ["while the retry is sent", "after it was cut"])
@pytest.mark.parametrize(
    ("later", "story"),
    [
        ((FAILED, COMPLETED), ["deferred transport", "claimed", "accepted", "completed"]),
        ((OTHER,), ["abandoned failed"]),
        ((IN_PROGRESS, FAILED), ["abandoned failed"]),  # applied: the same figures again are chance
    ],
)
def test_a_crash_around_a_retry_does_not_count_its_failure_twice(
    tmp_path: Path, moment: str, later: tuple[Reply, ...], story: list[str]
) -> None:
    crash, clock = Crash(), VirtualClock()

    def retry(_: Asked) -> Reply:
        if moment == "while the retry is sent":
            crash.pull()
        return CUT

    def status(_: Asked) -> Reply:
        if before.of("retry"):
            crash.pull()
        return FAILED

    before = Scripted(status=status, retry=retry)

    async def dies() -> None:
        async with process(tmp_path / "db", before, clock=clock, settings=TWO) as p:
            await p.begin()
            await p.finish()

    async def goes_on() -> None:
        async with process(tmp_path / "db", Scripted(status=in_turn(*later)), clock=clock, settings=TWO) as p:
            await p.begin()
            await p.finish()
            told = await p.story()
            assert told[-len(story) :] == story
            assert told.count("retried failed") == 1

    at_s = run_until_crash(dies)
    assert at_s is not None
    run_world(goes_on, start_s=at_s)


async def test_a_hint_that_comes_while_the_question_is_on_its_way_is_remembered(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(IN_PROGRESS._replace(after_s=3), COMPLETED))
    async with process(tmp_path / "db", transport, webhooks=True, settings=RunSettings(retention_us=60 * SECOND)) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        await tell(p, await submission_of(p), Reply(body=b"{}"))
        await anyio.sleep(1)
        assert len(transport.of("status")) == 1
        await tell(p, await submission_of(p), Reply(body=b"{}"))
        await p.finish()
        assert [asked.at_s - transport.of("status")[0].at_s for asked in transport.of("status")] == [
            0,
            pytest.approx(3, abs=0.1),
        ]


@pytest.mark.slow
async def test_a_run_whose_every_execution_fails_says_so_early_and_stops_where_that_is_wanted(tmp_path: Path) -> None:
    settings = RunSettings(max_attempts=1, stop_after_failures=25)
    transport = Scripted(run=numbered(), status=says("FAILED", error="CUDA error: no kernel image"))
    async with process(tmp_path / "db", transport, jobs=1_000, settings=settings) as p:
        await p.begin()
        await p.wait(lambda: p.endpoint.why_stopped(p.run.id) is not None)
        [warning] = p.warnings
        assert "20 of the first 20 executions failed" in warning
        assert "CUDA error: no kernel image" in warning
        await p.wait(lambda: p.progress.to_collect(adoptable=False) == 0)
        sent = len(transport.of("run"))
        assert 25 <= sent < 1_000
        await anyio.sleep(30)
        assert len(transport.of("run")) == sent
        assert p.progress.count("failed_executions") == p.progress.count("failed") == sent
        assert not any(step.event is Event.RETRIED for step in p.steps)


async def test_a_run_that_stops_after_failures_stops_no_other_run_at_its_endpoint(tmp_path: Path) -> None:
    path = tmp_path / "db"
    settings = RunSettings(max_attempts=1, stop_after_failures=3)
    async with process(path, Scripted(run=numbered()), jobs=5, settings=settings, name="failing") as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING, 5)
    transport = Scripted(
        run=says("IN_QUEUE", "s-1"),
        status=lambda asked: COMPLETED if asked.remote_id == "s-1" else says("FAILED", asked.remote_id, error="boom"),
    )
    async with process(path, transport, jobs=1, name="other") as p:
        failing = await p.ledger.runs.named("failing")
        assert failing is not None
        await p.start("collector")
        await p.recover()
        await p.wait(lambda: p.endpoint.why_stopped(failing.id) is not None)
        await p.start("dispatcher")
        await p.finish()
        assert len(await p.results()) == 1
        assert (p.endpoint.why_stopped(p.run.id), p.endpoint.health.stopped) == (None, None)


# --- what counts as an execution that failed, or that works

JOB = Job(id=1, run=1, endpoint=1, state=State.OUTSTANDING, submission=7, attempt=1, remote_id="r-1", segment=1)
END = SegmentEnd(has_progressed=True, report=None, execution_ms=1, executed_ms=1)


def ended(trouble: FailureClass | None, status: str | None, submission: int = 7) -> Outcome:
    return Outcome(submission=submission, remote_id="r-1", status=status, trouble=trouble, message="boom")


@pytest.mark.parametrize(
    ("outcome", "failure"),
    [
        (ended(FailureClass.FAILED, "FAILED"), "boom"),
        (ended(FailureClass.TIMED_OUT, "TIMED_OUT"), "boom"),
        (ended(FailureClass.INVALID_OUTPUT, "COMPLETED"), "boom"),
        (ended(FailureClass.INVALID_OUTPUT, ""), "boom"),  # the answer to a request past the queue, which comes once
        (ended(FailureClass.INVALID_OUTPUT, None), None),  # the record could not be read until its result was gone
        (ended(FailureClass.TIMED_OUT, None), None),  # its TTL ran out
        (ended(FailureClass.TIMED_OUT, "CANCELLED"), None),  # it was stuck
        (ended(FailureClass.LOST, None), None),
    ],
)
def test_only_what_the_service_said_of_an_execution_makes_it_one_that_failed(
    outcome: Outcome, failure: str | None
) -> None:
    trouble = outcome.trouble
    assert trouble is not None
    steps = (
        transitions.retried(JOB, trouble, due_at=0, retry_until=None, reason="status", at=1, previous_outcome=outcome),
        transitions.continued(JOB, END, due_at=0, reason="status", at=1, trouble=trouble, previous_outcome=outcome),
        transitions.abandoned(JOB, outcome, reason="status", at=1),
    )
    assert [(failure_message(step), is_success(step)) for step in steps] == [(failure, False)] * 3


def test_only_the_result_of_the_latest_submission_and_a_segment_that_was_given_back_show_that_executions_work() -> None:
    given_up = msgspec.structs.replace(JOB, state=State.FAILED)
    result, early = ended(None, "COMPLETED"), ended(None, "COMPLETED", submission=6)
    unsent, taken_again = (
        msgspec.structs.replace(JOB, submission=None),
        msgspec.structs.replace(result, submission=None),
    )
    steps = (
        transitions.completed(JOB, result, reason="status", at=1),
        transitions.continued(JOB, END, due_at=0, reason="given back unfinished", at=1),
        transitions.completed(JOB, early, reason="webhook of an earlier submission", at=1),
        transitions.completed(given_up, result, reason="webhook after it was given up", at=1),
        transitions.completed(unsent, taken_again, reason="reused", at=1),
    )
    assert [is_success(step) for step in steps] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("cancel_why", "record", "failure"),
    [
        (None, Record(remote_id="r-1", status="FAILED", error="boom"), "boom"),
        (CancelWhy.STUCK, Record(remote_id="r-1", status="CANCELLED"), None),
    ],
)
async def test_a_segment_that_goes_on_after_trouble_says_whether_its_worker_failed(
    tmp_path: Path, cancel_why: CancelWhy | None, record: Record, failure: str | None
) -> None:
    async with process(tmp_path / "db", Scripted(), settings=RunSettings(resumable=True)) as p:
        step = on_finished(p.endpoint, JOB, record, reason="status", margin_us=None, cancel_why=cancel_why, end=END)
        assert (step.event, failure_message(step)) == (Event.CONTINUED, failure)
