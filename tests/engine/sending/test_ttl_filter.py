"""What the dispatcher does not send, or not yet."""

from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.durations import Policy
from orchestrator.engine.sending.ttl_filter import AGAIN_US
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.settings.run_settings import RunSettings
from tests.engine.collecting.test_collector import with_policies
from tests.engine.process import Process, process
from tests.engine.scripted import COMPLETED, REFUSED, Reply, Scripted, in_turn, numbered
from tests.factories import S
from tests.ledger.ledgers import dump
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SLOW = 20
SHORT, LONG = b'{"ttl":120000}', b'{"ttl":7200000}'
ONE_A_SECOND = {Operation.RUN: Limit(1, 1)}


def learn(p: Process, *, delay_s: int, execution_s: int) -> None:
    for _ in range(SLOW):
        p.endpoint.estimates.durations.observe(delay_s * 1_000, execution_s * 1_000)


async def test_the_queue_gets_no_deeper_than_is_asked_for_and_what_runs_does_not_count(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), health=Reply(200, b'{"jobs":{"inProgress":3}}', after_s=1.0))
    settings = RunSettings(queue_depth=5)
    async with process(tmp_path / "db", transport, jobs=20, settings=settings) as p:
        await p.start("dispatcher")
        await anyio.sleep(0.5)
        assert len(transport.of("run")) == 5
        await anyio.sleep(10)
        assert (len(transport.of("run")), len(transport.of("health"))) == (8, 1)
        await anyio.sleep(30)
        assert (len(transport.of("run")), len(transport.of("health"))) == (8, 3)


async def test_a_health_that_does_not_answer_changes_nothing(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), health=Reply(500))
    settings = RunSettings(queue_depth=5)
    async with process(tmp_path / "db", transport, jobs=20, settings=settings) as p:
        await p.start("dispatcher")
        await anyio.sleep(10)
        assert len(transport.of("run")) == 5


async def test_how_many_jobs_run_stays_known_while_health_says_nothing_of_it(tmp_path: Path) -> None:
    health = in_turn(Reply(200, b'{"jobs":{"inProgress":3}}'), Reply(503), Reply(200, b"{}"), REFUSED)
    transport = Scripted(run=numbered(), health=health)
    async with process(tmp_path / "db", transport, jobs=20, settings=RunSettings(queue_depth=5)) as p:
        await p.start("dispatcher")
        await anyio.sleep(90)
        assert (len(transport.of("run")), len(transport.of("health")), p.endpoint.estimates.running) == (8, 6, 3)


async def test_without_the_rule_everything_that_can_be_collected_is_sent(tmp_path: Path) -> None:
    transport = Scripted(run=numbered())
    async with process(tmp_path / "db", transport, jobs=20, settings=RunSettings(queue_depth="off")) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING, 20)
        assert transport.of("health") == []


async def test_a_job_whose_ttl_is_over_before_the_fastest_execution_is_not_sent_but_reported(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=COMPLETED)
    jobs = with_policies(b'{"ttl":10000}', None, b'{"ttl":10000}')
    async with process(tmp_path / "db", transport, jobs=jobs) as p:
        learn(p, delay_s=1, execution_s=60)
        await p.begin()
        await p.finish()
        assert await p.counts() == {"failed": 2, "succeeded": 1}
        assert len(transport.of("run")) == 1
        failures = await p.failures()
        assert [(each.trouble, each.attempts) for each in failures] == [("rejected", 0)] * 2
        assert failures[0].message is not None
        assert "its TTL of 10 s is over" in failures[0].message
        assert len(p.warnings) == 1
        assert "longer <setting ttl> and <setting retry-failed>" in p.warnings[0]


async def test_a_job_whose_ttl_would_end_in_the_queue_waits_until_the_endpoint_is_idle(tmp_path: Path) -> None:
    transport = Scripted(run=numbered())
    jobs = with_policies(None, b'{"ttl":120000}', b'{"ttl":120000}')
    limits = {Operation.RUN: Limit(1, 1)}
    async with process(tmp_path / "db", transport, jobs=jobs, limits=limits) as p:
        learn(p, delay_s=600, execution_s=20)
        await p.start("dispatcher", "collector")
        await anyio.sleep(100)
        assert len(transport.of("run")) == 1
        assert await p.story(2) == []
        assert len(p.warnings) == 1
        assert "until the endpoint's queue is shorter" in p.warnings[0]
        transport.scripts["status"] = COMPLETED
        await p.finish()
        assert await p.counts() == {"succeeded": 3}


async def test_where_the_ttl_of_the_whole_run_would_end_in_the_queue_nothing_is_claimed(tmp_path: Path) -> None:
    transport = Scripted(run=numbered())
    settings = RunSettings(policy=Policy(ttl_ms=120_000))
    limits = {Operation.RUN: Limit(1, 1)}
    async with process(tmp_path / "db", transport, jobs=3, settings=settings, limits=limits) as p:
        learn(p, delay_s=600, execution_s=20)
        await p.start("dispatcher", "collector")
        await anyio.sleep(60)
        assert len(transport.of("run")) == 1
        assert [await p.story(n) for n in (2, 3)] == [[], []]
        assert len(p.warnings) == 1


async def test_a_ttl_of_the_whole_run_that_would_end_in_the_queue_holds_nobody_back_who_has_a_longer_one(
    tmp_path: Path,
) -> None:
    transport = Scripted(run=numbered())
    settings = RunSettings(policy=Policy(ttl_ms=120_000))
    jobs = with_policies(None, None, LONG, None, LONG, LONG)
    async with process(tmp_path / "db", transport, jobs=jobs, settings=settings, limits=ONE_A_SECOND) as p:
        learn(p, delay_s=600, execution_s=20)
        await p.start("dispatcher", "collector")
        await anyio.sleep(20)
        assert [await p.story(n) for n in (2, 4)] == [[], []]
        assert [await p.story(n) for n in (3, 5, 6)] == [["claimed", "accepted"]] * 3


async def test_while_their_ttl_would_end_in_the_queue_jobs_leave_no_trace_in_the_ledger_and_then_they_go(
    tmp_path: Path,
) -> None:
    path = tmp_path / "db"
    transport = Scripted(run=numbered())
    async with process(path, transport, jobs=with_policies(None, *[SHORT] * 40), limits=ONE_A_SECOND) as p:
        learn(p, delay_s=600, execution_s=20)
        await p.start("dispatcher", "collector")
        await anyio.sleep(600)
        found = dump(path)
        assert (len(found["submissions"]), len(found["events"])) == (1, 2)
        transport.scripts["status"] = COMPLETED
        await p.until(State.SUCCEEDED)
        await anyio.sleep(0.5)
        assert len(transport.of("run")) > 1
        await p.finish()
        assert await p.counts() == {"succeeded": 41}
        assert len(p.warnings) == 1


@pytest.mark.slow
async def test_twenty_thousand_late_jobs_keep_nobody_behind_them_from_leaving(tmp_path: Path) -> None:
    path = tmp_path / "db"
    jobs = with_policies(None, *[SHORT] * 20_000, LONG, LONG)
    async with process(path, Scripted(run=numbered()), jobs=jobs, limits=ONE_A_SECOND) as p:
        learn(p, delay_s=600, execution_s=20)
        await p.start("dispatcher", "collector")
        await p.until(State.OUTSTANDING, 3)
        assert p.clock.now() < EPOCH_AT + 10 * S
        assert {row[1] for row in dump(path)["submissions"]} == {1, 20_002, 20_003}


async def test_who_turns_up_among_those_that_were_passed_over_goes_within_a_minute(tmp_path: Path) -> None:
    """A `/retry` that has not left in time becomes a `/run`, and no step tells of that."""
    limits = {Operation.RETRY: Limit(1, 7_200)}
    jobs = with_policies(None, LONG, SHORT)
    async with process(tmp_path / "db", Scripted(run=numbered()), jobs=jobs, limits=limits) as p:
        await p.api.limiter.permit(Operation.RETRY)
        claims = (
            await p.ledger.jobs.claims.take(
                ClaimLine(p.run.id, endpoint=p.run.endpoint_id, by_retry=False, ttl_of=p.builder.ttl_us), most=3
            )
        ).claims
        now = p.clock.now()
        taken = [
            transitions.accepted(each.job, remote_id=f"x-{n}", sent_at=now, at=now) for n, each in enumerate(claims)
        ]
        await p.ledger.writer.apply(taken)
        failed = [
            transitions.retried(
                step.after, FailureClass.FAILED, due_at=now + n, retry_until=until, reason="FAILED", at=now
            )
            for n, (step, until) in enumerate(zip(taken[1:], (now + 100 * S, None), strict=True))
        ]
        await p.ledger.writer.apply(failed)
        (again,) = (
            await p.ledger.jobs.claims.take(
                ClaimLine(p.run.id, endpoint=p.run.endpoint_id, by_retry=True, ttl_of=p.builder.ttl_us), most=1
            )
        ).claims  # its request came to nothing: only another `/retry` may make up for it
        until = now + 100 * S
        await p.ledger.writer.step(
            transitions.deferred(
                again.job, due_at=now, reason="429", at=now, trouble=FailureClass.THROTTLED, retry_until=until
            )
        )
        p.endpoint.outstanding.plan.add(taken[0].after)
        learn(p, delay_s=600, execution_s=20)
        await p.start("dispatcher", "collector")
        await anyio.sleep(99)
        assert p.progress.count("queued") == 2
        await anyio.sleep(AGAIN_US / S + 2)
        assert (await p.story(2))[-2:] == ["claimed", "accepted"]
        assert (await p.story(3))[-1] == "retried failed"


async def test_jobs_that_were_passed_over_go_to_an_idle_endpoint_that_was_silent(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), health=Reply(200, b'{"jobs":{}}'))
    async with process(tmp_path / "db", transport, jobs=with_policies(None, SHORT), limits=ONE_A_SECOND) as p:
        learn(p, delay_s=600, execution_s=20)
        await p.start("dispatcher", "collector")
        await anyio.sleep(10)
        while not p.endpoint.health.submissions.breaker.is_tripped:
            p.endpoint.health.submissions.breaker.record_failure(sent_at=p.clock.now(), now=p.clock.now())
        transport.scripts["status"] = COMPLETED
        await p.until(State.SUCCEEDED)
        await anyio.sleep(10)
        assert len(transport.of("run")) == 2
