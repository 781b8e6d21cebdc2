import json
from pathlib import Path

import anyio
import httpx
import msgspec
import pytest

from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.service.http_answers import Pointless
from orchestrator.core.text.durations import Policy
from orchestrator.engine.collecting.collector import IDLE_S
from orchestrator.formats.input.rows import Row
from orchestrator.ledger.transactions.group_commit import PENDING_BYTES_MAX
from orchestrator.settings.run_settings import RunSettings
from tests.engine.process import process
from tests.engine.rows import rows
from tests.engine.scripted import (
    COMPLETED,
    CUT,
    FAILED,
    IN_PROGRESS,
    REFUSED,
    WELL,
    Asked,
    Reply,
    Script,
    Scripted,
    gaps,
    in_turn,
    numbered,
    says,
)
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECOND = 1_000_000


def with_policies(*policies: bytes | None) -> list[Row]:
    """A row for each policy."""
    return [msgspec.structs.replace(row, policy=p) for row, p in zip(rows(len(policies)), policies, strict=True)]


def settings(retention_s: float = 1800.0, **more: object) -> RunSettings:
    return RunSettings(retention_us=round(retention_s * SECOND), **more)  # type: ignore[arg-type]


async def test_a_lone_job_of_which_nothing_is_known_is_asked_for_at_gaps_of_a_second_or_a_tenth_of_its_age(
    tmp_path: Path,
) -> None:
    transport = Scripted()
    async with process(tmp_path / "db", transport) as p:
        await p.start("dispatcher", "collector")
        await anyio.sleep(40)
        times = transport.since_sent("status")
        assert times[0] == pytest.approx(1.0, abs=0.01)
        assert len(times) > 20
        assert all(0.99 <= gap <= max(1.2, 0.13 * age) for age, gap in zip(times, gaps(times), strict=False))


async def test_where_turnarounds_are_known_the_first_question_comes_when_the_others_have_finished(
    tmp_path: Path,
) -> None:
    transport = Scripted()
    async with process(tmp_path / "db", transport) as p:
        for _ in range(60):
            p.endpoint.estimates.durations.observe(1_000, 15_000)
        await p.start("dispatcher", "collector")
        await anyio.sleep(30)
        assert 16 <= transport.since_sent("status")[0] <= 16.8


async def test_with_webhooks_the_first_question_leaves_them_the_time_for_all_their_tries(tmp_path: Path) -> None:
    transport = Scripted()
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        await p.start("dispatcher", "collector")
        await anyio.sleep(40)
        assert transport.since_sent("status")[0] == pytest.approx(31, abs=0.01)


async def test_a_state_that_says_not_finished_moves_the_deadline_and_an_unknown_one_does_not(tmp_path: Path) -> None:
    transport = Scripted(status=says("PREPARING"))
    async with process(tmp_path / "db", transport, settings=settings(60)) as p:
        await p.start("dispatcher", "collector")
        await anyio.sleep(50.2)
        deadline = p.endpoint.outstanding.plan.deadlines.soonest()
        assert deadline is not None
        assert (deadline - p.clock.now()) / SECOND == pytest.approx(9.5, abs=0.7)
        assert 49 <= transport.since_sent("status")[-1] <= 51, "by the deadline, and not twice within a second"
        transport.scripts["status"] = IN_PROGRESS
        await anyio.sleep(2)
        assert ((p.endpoint.outstanding.plan.deadlines.soonest() or 0) - p.clock.now()) / SECOND > 57
    assert max(gaps(transport.times("status"))) <= 10


async def test_no_job_is_asked_for_later_than_its_hard_deadline_even_where_nobody_answers(tmp_path: Path) -> None:
    replies = [CUT, REFUSED, Reply(500), Reply(503, headers={"retry-after": "900"}), Reply(408), IN_PROGRESS]
    transport = Scripted(status=in_turn(*replies))
    async with process(tmp_path / "db", transport, settings=settings(30)) as p:
        await p.start("dispatcher", "collector")
        await anyio.sleep(30)
        times = transport.since_sent("status")
        assert len(times) >= 6
        assert times[4] == pytest.approx(25, abs=0.01)  # whatever the service wished at 503
        assert (await p.story()) == ["claimed", "accepted"]


async def test_a_question_that_is_never_answered_tells_that_nothing_gets_through_since_it_was_asked(
    tmp_path: Path,
) -> None:
    silent = Reply(after_s=30, error=httpx.ReadTimeout("nothing came"))
    transport = Scripted(status=in_turn(IN_PROGRESS, silent))
    async with process(tmp_path / "db", transport, settings=settings(600)) as p:
        await p.start("dispatcher", "collector")
        await anyio.sleep(35)
        connectivity = p.endpoint.health.connectivity
        asked_s = transport.times("status")[1] - transport.times("status")[0]
        since_answer_us = p.clock.now() - connectivity.answered_at
        assert connectivity.unreachable_us(p.clock.now()) == pytest.approx(
            since_answer_us - asked_s * SECOND, abs=SECOND / 10
        )


async def test_scarce_questions_go_to_the_earliest_deadline_first(tmp_path: Path) -> None:
    jobs = with_policies(None, b'{"ttl":20000}', b'{"ttl":12000}')
    transport = Scripted(run=numbered(), status=COMPLETED)
    limits = {Operation.STATUS: Limit(1, 8, 1)}
    async with process(tmp_path / "db", transport, jobs=jobs, limits=limits) as p:
        permit = await p.api.limiter.permit(Operation.STATUS)
        await p.start("dispatcher", "collector")
        await anyio.sleep(1.5)
        permit.give_back()
        await anyio.sleep(40)
    assert [asked.remote_id for asked in transport.of("status")] == ["r-3", "r-2", "r-1"]


async def test_jobs_of_an_earlier_process_are_asked_for_at_once_in_the_order_of_their_deadlines(tmp_path: Path) -> None:
    policies = [b'{"ttl":3000000}', b'{"ttl":1000000}', b'{"ttl":1200000}']
    jobs = with_policies(*policies)
    transport = Scripted(run=numbered())
    async with process(tmp_path / "db", transport, jobs=jobs) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING, 3)
    again = Scripted()
    async with process(tmp_path / "db", again) as p:
        recovered = await p.begin()
        assert (recovered.outstanding, recovered.uncertain, recovered.to_repay) == (3, 0, 0)
        await anyio.sleep(0.5)
        assert [asked.remote_id for asked in again.asked] == ["r-2", "r-3", "r-1"]


async def test_a_hint_cuts_the_wait_short_and_one_for_an_unknown_job_does_nothing(tmp_path: Path) -> None:
    transport = Scripted()
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        await p.start("dispatcher", "collector")
        await anyio.sleep(10)
        assert transport.times("status") == []
        hinted_s = anyio.current_time()
        p.endpoint.outstanding.hint(1)
        p.endpoint.outstanding.hint(99)
        await anyio.sleep(0.1)
        assert transport.times("status") == [pytest.approx(hinted_s)]


async def test_a_job_at_its_ttl_is_asked_for_shortly_before_and_then_failed_as_timed_out(tmp_path: Path) -> None:
    def status(asked: Asked) -> Reply:
        return IN_PROGRESS if asked.at_s < 20 else Reply(404)

    transport = Scripted(status=status)
    run_settings = settings(max_attempts=1, policy=Policy(ttl_ms=20_000))
    async with process(tmp_path / "db", transport, settings=run_settings) as p:
        await p.begin()
        await p.finish()
        times = transport.times("status")
        assert any(17.9 <= at <= 18.1 for at in times)  # a tenth of its life before
        assert times[-1] <= 21.1
        [failure] = await p.failures()
        assert failure.trouble == "timed_out"
        assert "TTL" in (failure.message or "")
        assert "health" not in [asked.operation for asked in transport.asked]


async def test_the_time_that_it_is_safe_to_stay_away_ends_with_the_ttl(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(), settings=settings(policy=Policy(ttl_ms=600_000))) as p:
        assert p.endpoint.outstanding.plan.deadlines.soonest() is None
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        await anyio.sleep(0.1)
        assert ((p.endpoint.outstanding.plan.deadlines.soonest() or 0) - p.clock.now()) / SECOND == pytest.approx(
            600, abs=0.5
        )


async def test_a_404_after_the_retention_is_expired_and_paid_again_once(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(), settings=settings(60)) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        await anyio.sleep(61)
    transport = Scripted(status=Reply(404))
    async with process(tmp_path / "db", transport, clock=p.clock) as p:
        assert (await p.begin()).to_repay == 1
        await p.until_event(lambda step: step.event is Event.RETRIED)
        assert (await p.story())[:3] == ["claimed", "accepted", "retried expired"]
        assert (await p.counts())["expired"] == 1


async def test_a_job_is_lost_after_two_404s_half_a_minute_apart_and_a_good_health_after_each(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(*[Reply(404)] * 2, COMPLETED))
    async with process(tmp_path / "db", transport) as p:
        await p.begin()
        await p.finish()
        operations = [asked.operation for asked in transport.asked]
        assert operations == ["run", "status", "health", "status", "health", "run", "status"]
        assert gaps(transport.times("status"))[0] == pytest.approx(30, abs=0.05)
        assert "retried lost" in await p.story()
        assert await p.counts() == {"succeeded": 1, "lost": 1}


@pytest.mark.parametrize("health", [Reply(404), Reply(500), Reply(body=b'{"error":"no"}'), CUT, REFUSED])
async def test_nothing_is_lost_while_the_endpoint_is_not_well(tmp_path: Path, health: Reply) -> None:
    def status(asked: Asked) -> Reply:
        return Reply(404) if asked.at_s < 200 else COMPLETED

    transport = Scripted(status=status, health=health)
    async with process(tmp_path / "db", transport) as p:
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": 1}
        assert len(transport.of("run")) == 1


async def test_an_endpoint_that_comes_back_just_after_the_second_404_loses_nothing(tmp_path: Path) -> None:
    """Its health is good by the time one would ask for it, and says nothing of the minute before."""

    def hidden(reply: Reply) -> Script:
        return lambda asked: Reply(404) if asked.at_s < 31.1 else reply

    transport = Scripted(status=hidden(COMPLETED), health=hidden(WELL))
    async with process(tmp_path / "db", transport) as p:
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": 1}


async def test_an_endpoint_that_vanishes_again_just_before_the_second_404_loses_nothing(tmp_path: Path) -> None:
    def hidden(reply: Reply, *, until_s: float) -> Script:
        return lambda asked: Reply(404) if asked.at_s < until_s or 30 < asked.at_s < 40 else reply

    transport = Scripted(status=hidden(COMPLETED, until_s=2), health=hidden(WELL, until_s=0))
    async with process(tmp_path / "db", transport) as p:
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": 1}
        assert len(transport.of("status")) == 3


async def test_many_404s_share_one_look_at_the_health(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=in_turn(*[Reply(404)] * 10, COMPLETED))
    limits = {Operation.RUN: Limit(100, 1), Operation.HEALTH: Limit(1, 20)}
    async with process(tmp_path / "db", transport, jobs=8, limits=limits) as p:
        await p.begin()
        await p.finish()
        assert len(transport.of("health")) <= 3
        assert await p.counts() == {"succeeded": 8, "lost": 2}


async def test_an_endpoint_that_vanishes_for_two_minutes_loses_nothing_and_nothing_is_paid_twice(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=100, seconds=lambda _: 60.0)
    async with (
        service.serving(),
        process(tmp_path / "db", service.transport(), clock=clock, jobs=60) as p,
    ):
        await p.begin()
        await p.until(State.OUTSTANDING, 60)
        await anyio.sleep(5)
        service.gate.hide("ep")
        await anyio.sleep(120)
        [warning] = p.warnings
        assert warning.startswith("the service no longer knows many of our jobs; sending is paused until ")
        assert p.endpoint.health.is_suspect(p.clock.now())
        assert p.dispatcher.turns.ready(Operation.RUN, 0)[0] == {}
        service.gate.show("ep")
        await p.finish()
        assert await p.counts() == {"succeeded": 60}
        assert service.paid == service.counts.submitted.total() == 60


@pytest.mark.slow
async def test_no_more_is_asked_for_while_many_bytes_of_outputs_wait_to_be_written(tmp_path: Path) -> None:
    jobs, size = 24, 4 * 1024 * 1024
    output = json.dumps("x" * size)

    def large(asked: Asked) -> Reply:
        return Reply(body=f'{{"id":"{asked.remote_id}","status":"COMPLETED","output":{output}}}'.encode())

    commit_s = 0.0
    transport = Scripted(run=numbered(), status=large)
    async with process(tmp_path / "db", transport, jobs=jobs, delay=lambda: commit_s) as p:
        await p.start("dispatcher", "collector")
        await p.until(State.OUTSTANDING, jobs)
        commit_s = 2.0
        waiting: list[int] = []
        p.ledger.writer.subscribe(
            lambda _: waiting.append(len(transport.of("status")) - p.progress.count(State.SUCCEEDED))
        )
        await p.finish()

    assert PENDING_BYTES_MAX // size < max(waiting) < jobs // 3 * 2


async def test_completed_without_output_is_a_result_where_none_is_required(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(status=says("COMPLETED"))) as p:
        await p.begin()
        await p.finish()
        assert [result.output for result in await p.results()] == [None]


async def test_completed_without_output_is_made_anew_where_output_is_required(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(says("COMPLETED"), COMPLETED))
    async with process(tmp_path / "db", transport, settings=settings(output_required=True)) as p:
        await p.begin()
        await p.finish()
        assert await p.story() == [
            "claimed", "accepted", "retried invalid_output", "claimed", "accepted", "completed"
        ]  # fmt: skip
        assert len(transport.of("run")) == 2  # the service retries only what it calls failed


async def test_a_job_cancelled_at_the_service_is_a_row_of_its_own(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(status=says("CANCELLED"))) as p:
        await p.begin()
        await p.finish()
        [failure] = await p.failures()
        assert (failure.state, failure.trouble, failure.status) == (State.CANCELLED, "cancelled", "CANCELLED")
        assert failure.message == "cancelled at the service"


async def test_an_unanswered_retry_is_settled_by_the_status(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(FAILED, IN_PROGRESS, COMPLETED), retry=CUT)
    async with process(tmp_path / "db", transport) as p:
        await p.begin()
        await p.finish()
        assert len(transport.of("retry")) == 1
        assert [result.attempts for result in await p.results()] == [2]
        assert "retry unanswered" in [event.reason for event in await p.events()]
        assert "uncertain_seen" not in await p.counts()


async def test_the_same_failure_after_an_unanswered_retry_means_that_it_was_not_applied(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(FAILED, FAILED, COMPLETED), retry=in_turn(CUT, Reply(body=b"{}")))
    async with process(tmp_path / "db", transport, settings=settings(max_attempts=2)) as p:
        await p.begin()
        await p.finish()
        assert len(transport.of("retry")) == 2
        assert "the /retry was not applied" in [event.reason for event in await p.events()]
        assert [result.attempts for result in await p.results()] == [2]


async def test_another_failure_after_an_unanswered_retry_counts(tmp_path: Path) -> None:
    other = says("FAILED", error="boom", delayTime=10, executionTime=21, workerId="w")
    transport = Scripted(status=in_turn(FAILED, other), retry=CUT)
    async with process(tmp_path / "db", transport, settings=settings(max_attempts=2)) as p:
        await p.begin()
        await p.finish()
        assert len(transport.of("retry")) == 1
        assert [failure.attempts for failure in await p.failures()] == [2]


async def test_results_are_collected_with_the_margin_that_was_left(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(status=COMPLETED), settings=settings(60)) as p:
        await p.begin()
        await p.finish()
        assert p.progress.margin_min_s == pytest.approx(59, abs=0.1)


async def test_an_idle_collector_sleeps(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted()) as p:
        assert await p.collector._poll() == IDLE_S
        p.endpoint.health.stop_collecting(Pointless("enough", 401))
        assert await p.collector._poll() == IDLE_S


async def test_what_a_process_whose_clock_was_ahead_has_left_is_asked_for_at_once(tmp_path: Path) -> None:
    ahead = VirtualClock()
    ahead.jump(3_600_000_000)
    async with process(tmp_path / "db", Scripted(), clock=ahead) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
    transport = Scripted(status=COMPLETED)
    async with process(tmp_path / "db", transport) as p:
        begun_at_s = anyio.current_time()
        await p.begin()
        await p.finish()
        assert transport.times("status")[0] < begun_at_s + 5
