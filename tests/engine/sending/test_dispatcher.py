import sqlite3
from functools import partial
from pathlib import Path

import anyio
import pytest

from orchestrator.client.jobs.rate_limiter import RateLimiter
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import Answer, Pointless
from orchestrator.core.text.durations import Policy
from orchestrator.settings.run_settings import RunSettings
from tests.engine.process import Process, process
from tests.engine.rows import rows
from tests.engine.scripted import (
    ACCEPTED,
    COMPLETED,
    CUT,
    FAILED,
    IN_PROGRESS,
    REFUSED,
    Asked,
    Reply,
    Scripted,
    in_turn,
    numbered,
)
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.run import Crash, run_until_crash
from tests.simulation.run import run as run_world

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def answered(p: Process) -> None:
    """Waits until the first request has had its effect."""
    await p.start("dispatcher")
    await p.until_event(lambda step: step.event is not Event.CLAIMED)


@pytest.mark.parametrize(
    ("reply", "trouble", "due_s"),
    [
        (Reply(429, headers={"retry-after": "7"}), FailureClass.THROTTLED, 7.0),
        (Reply(429), FailureClass.THROTTLED, 0.75),
        (Reply(503), FailureClass.SERVER, 0.75),
        (Reply(408), FailureClass.SERVER, 0.75),
        (Reply(425), FailureClass.SERVER, 0.75),
        (REFUSED, FailureClass.TRANSPORT, 0.75),
    ],
)
async def test_a_request_without_effect_is_put_off_and_costs_no_attempt(
    tmp_path: Path, reply: Reply, trouble: FailureClass, due_s: float
) -> None:
    async with process(tmp_path / "db", Scripted(run=reply)) as p:
        await answered(p)
        job = await p.job()
        assert (job.state, job.attempt, job.deferrals) == (State.QUEUED, 0, 1)
        assert job.due_at - p.clock.now() >= due_s * 1e6 - 100_000
        assert await p.story() == ["claimed", f"deferred {trouble}"]


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_refused_job_fails_as_rejected_with_no_attempt(tmp_path: Path, status: int) -> None:
    async with process(tmp_path / "db", Scripted(run=Reply(status, b'{"error":"bad input"}'))) as p:
        await answered(p)
        [failure] = await p.failures()
        assert (failure.trouble, failure.attempts, failure.remote_id) == ("rejected", 0, None)
        assert failure.message == f"the service refused the job ({status}: bad input)"
        assert await p.counts() == {"failed": 1}


@pytest.mark.parametrize(
    "reply",
    [
        Reply(500),
        Reply(502),
        Reply(504),
        Reply(522),
        Reply(301),
        Reply(200, b"<html>"),
        Reply(200, b'{"id":"../purge-queue"}'),
        Reply(200, b'{"status":"IN_QUEUE"}'),
        CUT,
        Reply(after_s=3600),
    ],
)
async def test_a_request_that_may_have_had_an_effect_makes_the_job_uncertain(tmp_path: Path, reply: Reply) -> None:
    transport = Scripted(run=reply)
    async with process(tmp_path / "db", transport) as p:
        await answered(p)
        assert (await p.job()).state is State.UNCERTAIN
        await anyio.sleep(60)  # no janitor is at work, and nothing else may send it again
        assert len(transport.of("run")) == 1
        assert await p.counts() == {"uncertain": 1, "uncertain_seen": 1}


def test_the_intent_to_send_is_durable_before_the_request_leaves(tmp_path: Path) -> None:
    crash, clock = Crash(), VirtualClock()

    def run(_: Asked) -> Reply:
        crash.pull()
        return ACCEPTED

    transport = Scripted(run=run)

    async def dies() -> None:
        slow = partial(float, 0.05)  # else a commit would take no time, and could not come too late
        # More than it claims at once: where it gets all there are, a look for others comes before the first request.
        async with process(tmp_path / "db", transport, clock=clock, jobs=100, delay=slow) as p:
            await p.begin()
            await p.finish()

    async def goes_on() -> None:
        async with process(tmp_path / "db", Scripted(), clock=clock) as p:
            recovered = await p.janitor.recover((p.endpoint.id,))
            assert (recovered.uncertain, recovered.to_repay) == (1, 1)
            assert await p.story() == ["claimed", "unanswered uncertain"]

    crashed_at_s = run_until_crash(dies)
    assert crashed_at_s is not None
    assert len(transport.asked) == 1
    with sqlite3.connect(tmp_path / "db") as connection:
        assert connection.execute("SELECT state FROM jobs WHERE id = 1").fetchall() == [("submitting",)]
        assert connection.execute("SELECT count(*) FROM submissions WHERE job_id = 1").fetchall() == [(1,)]
    connection.close()
    run_world(goes_on, start_s=crashed_at_s)


async def test_jobs_are_claimed_for_a_quarter_of_a_second_at_most(tmp_path: Path) -> None:
    most = 0
    async with process(tmp_path / "db", Scripted(run=numbered()), jobs=300) as p:

        def look(_: object) -> None:
            nonlocal most
            most = max(most, p.progress.count("submitting"))

        p.ledger.writer.subscribe(look)
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING, 300)
        assert anyio.current_time() == pytest.approx(3.0, abs=0.1)
        assert 20 <= most <= 30  # 25 at 100 a second, what may be caught up, and what a commit has not told yet


async def test_claimed_jobs_are_given_back_while_the_service_wants_no_requests(tmp_path: Path) -> None:
    transport = Scripted(run=in_turn(Reply(429, headers={"retry-after": "90"}, after_s=0.1), ACCEPTED))
    async with process(tmp_path / "db", transport, jobs=100) as p:
        await p.start("dispatcher")
        await anyio.sleep(5)
        counts = await p.counts()
        assert counts["queued"] + counts["outstanding"] == 100
        await anyio.sleep(60)
        assert await p.counts() == counts
        await p.until(State.OUTSTANDING, 100)
        assert {(await p.job(n)).attempt for n in range(1, 101)} == {1}


async def test_claimed_jobs_are_given_back_where_going_on_has_become_pointless_while_they_waited(
    tmp_path: Path,
) -> None:
    transport = Scripted(run=numbered())
    async with process(tmp_path / "db", transport, jobs=100) as p:
        await p.start("dispatcher")
        await anyio.sleep(0.505)  # between two ticks: nothing is just leaving
        p.endpoint.health.stop_submitting(Pointless("no such endpoint", 401))
        sent = len(transport.asked)
        assert p.progress.count("submitting") > 5  # claimed ahead
        await anyio.sleep(1)
        assert len(transport.of("run")) == sent < 60
        assert await p.counts() == {"queued": 100 - sent, "outstanding": sent}


@pytest.mark.slow
@pytest.mark.parametrize("limit", [Limit(20, 1), Limit(30, 10)], ids=str)
async def test_where_few_may_go_at_once_the_next_is_claimed_in_time(tmp_path: Path, limit: Limit) -> None:
    seconds, jobs = 40, 1_000
    clock = VirtualClock()
    limiter = RateLimiter(clock, {Operation.RUN: limit})

    async def send_all_that_may_go() -> None:
        while True:
            permit = await limiter.permit(Operation.RUN)
            permit.use(Operation.RUN)
            permit.answered(Answer(status=200, body=b"", sent_at=clock.now(), answered_at=clock.now()))

    with anyio.move_on_after(seconds):
        await send_all_that_may_go()
    transport = Scripted(run=numbered())
    settings = RunSettings(queue_depth="off")
    async with process(tmp_path / "db", transport, jobs=jobs, settings=settings, limits={Operation.RUN: limit}) as p:
        await p.start("dispatcher")
        await anyio.sleep(seconds)
        allowed = limiter.figures(Operation.RUN).sent
        assert allowed - 1 <= len(transport.of("run")) <= allowed


async def test_an_interruption_gives_back_what_was_claimed_and_leaves_what_is_in_flight_ten_seconds(
    tmp_path: Path,
) -> None:
    def run(asked: Asked) -> Reply:
        reply = numbered()(asked)
        return reply._replace(after_s=5.0 if len(transport.asked) == 1 else 3600.0)

    transport = Scripted(run=run)
    async with process(tmp_path / "db", transport, jobs=50) as p:
        await p.start("dispatcher")
        await anyio.sleep(0.105)
        sent = len(transport.of("run"))
        p.taking.cancel_scope.cancel()
        p.in_flight.cancel_scope.deadline = anyio.current_time() + 10
        with anyio.CancelScope(shield=True):
            await anyio.sleep(1)
            assert await p.counts() == {"submitting": sent, "queued": 50 - sent}
            await anyio.sleep(20)
            assert len(transport.of("run")) == sent
            assert await p.counts() == {
                "outstanding": 1,
                "uncertain": sent - 1,
                "uncertain_seen": sent - 1,
                "queued": 50 - sent,
            }
            assert (await p.events(2))[-1].reason == "interrupted before the answer came"


async def test_few_outstanding_jobs_are_sent_where_they_could_not_be_collected_in_time(tmp_path: Path) -> None:
    limits = {Operation.STATUS: Limit(1, 1)}
    settings = RunSettings(retention_us=60_000_000)
    async with process(tmp_path / "db", Scripted(run=numbered()), jobs=100, limits=limits, settings=settings) as p:
        await p.start("dispatcher")
        await anyio.sleep(60)
        counts = await p.counts()
        assert (
            40 <= counts["outstanding"] <= 42
        )  # 0.8 of one a second for 50 s, and what was in flight at the last look


async def test_a_failed_job_is_retried_under_its_id_while_the_service_retains_it(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(FAILED, IN_PROGRESS, COMPLETED))
    async with process(tmp_path / "db", transport) as p:
        await p.begin()
        await p.finish()
        assert [asked.operation for asked in transport.asked] == ["run", "status", "retry", "status", "status"]
        assert await p.story() == ["claimed", "accepted", "retried failed", "claimed", "accepted", "completed"]
        assert [event.attempt for event in await p.events()] == [1, 1, 1, 2, 2, 2]
        [result] = await p.results()
        assert (result.attempts, result.remote_id, result.output) == (2, "r-1", b'{"ok":1}')


async def test_a_failed_job_is_sent_anew_where_its_ttl_leaves_no_room_for_another_execution(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(FAILED, COMPLETED))
    settings = RunSettings(policy=Policy(ttl_ms=60_000, execution_timeout_ms=59_000))
    async with process(tmp_path / "db", transport, settings=settings) as p:
        await p.begin()
        await p.finish()
        assert [asked.operation for asked in transport.asked] == ["run", "status", "run", "status"]


@pytest.mark.parametrize("status", [400, 409])
async def test_before_a_retry_that_is_refused_is_paid_for_again_the_status_is_asked_for(
    tmp_path: Path, status: int
) -> None:
    """The failure may have been none: a webhook said so, or an answer that was another job's."""
    for told, operations in (
        ((FAILED, COMPLETED), ["run", "status", "retry", "status"]),
        ((FAILED, FAILED, COMPLETED), ["run", "status", "retry", "status", "run", "status"]),
    ):
        transport = Scripted(status=in_turn(*told), retry=Reply(status))
        async with process(tmp_path / f"db-{len(told)}", transport) as p:
            await p.begin()
            await p.finish()
            assert [asked.operation for asked in transport.asked] == operations
            assert [result.attempts for result in await p.results()] == [2]


@pytest.mark.parametrize("status", [404, 410])
async def test_a_retry_of_a_job_that_the_service_has_forgotten_becomes_a_new_submission_of_the_same_attempt(
    tmp_path: Path, status: int
) -> None:
    transport = Scripted(status=in_turn(FAILED, COMPLETED), retry=Reply(status))
    async with process(tmp_path / "db", transport) as p:
        await p.begin()
        await p.finish()
        assert [asked.operation for asked in transport.asked] == ["run", "status", "retry", "run", "status"]
        assert [result.attempts for result in await p.results()] == [2]


async def test_a_throttled_retry_stays_a_retry(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(FAILED, COMPLETED), retry=in_turn(Reply(429), REFUSED, ACCEPTED))
    async with process(tmp_path / "db", transport) as p:
        await p.begin()
        await p.finish()
        assert [asked.operation for asked in transport.asked] == [*(["run", "status"]), *["retry"] * 3, "status"]
        assert [result.attempts for result in await p.results()] == [2]


async def test_a_job_that_fails_each_time_ends_with_the_last_reason(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(status=FAILED), settings=RunSettings(max_attempts=3)) as p:
        await p.begin()
        await p.finish()
        [failure] = await p.failures()
        assert (failure.trouble, failure.attempts, failure.message, failure.status) == ("failed", 3, "boom", "FAILED")


async def test_a_vanished_secret_stops_sending_and_is_not_called_a_failure_of_the_job(tmp_path: Path) -> None:
    secret = b'{"accessId":"env:WHO","accessSecret":"env:SECRET","bucketName":"b","endpointUrl":"https://s3"}'
    transport = Scripted()
    async with process(tmp_path / "db", transport, jobs=rows(3, s3_config=secret)) as p:
        await p.start("dispatcher")
        await anyio.sleep(60)
        assert transport.asked == []
        assert "WHO" in (p.endpoint.why_stopped(p.run.id) or "")
        assert p.endpoint.health.stopped is None, "other runs may have it"
        assert await p.counts() == {"queued": 3}
        assert p.api.limiter.figures(Operation.RUN).in_flight == 0


async def test_the_time_of_sending_counts_and_not_that_of_a_late_answer(tmp_path: Path) -> None:
    transport = Scripted(run=ACCEPTED._replace(after_s=29.0))
    async with process(tmp_path / "db", transport) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        job = await p.job()
        assert p.clock.now() - EPOCH_AT == pytest.approx(29e6, abs=100_000)
        assert job.sent_at == job.unfinished_at == pytest.approx(EPOCH_AT, abs=100_000)
        assert len(transport.of("run")) == 1
