"""What the janitor has looked after while a run goes on."""

from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.escalation_text import parse_rule
from orchestrator.core.jobs.lifecycle import TRANSITIONS, Event, State
from orchestrator.core.text.durations import Policy
from orchestrator.engine.maintenance.janitor import Duty, Janitor
from orchestrator.engine.maintenance.pruning import Pruner
from orchestrator.errors import StorageError
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnStuck
from orchestrator.views.status import StuckSummary
from tests.engine.process import Process, process
from tests.engine.scripted import (
    CANCELLED,
    CUT,
    IN_PROGRESS,
    REFUSED,
    Reply,
    Scripted,
    gaps,
    in_turn,
    numbered,
    says,
)

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECOND = 1_000_000
DAY_S = 86_400.0
IDLE = Reply(body=b'{"workers":{"idle":2,"running":0}}')
BUSY = Reply(body=b'{"workers":{"idle":0,"running":2}}')


@pytest.mark.parametrize(
    ("marked", "settled"),
    [(True, ["unanswered uncertain", "retried uncertain"]), (False, ["deferred"])],
    ids=["marked", "not marked"],
)
async def test_a_claim_that_no_request_is_about_becomes_uncertain_if_it_may_have_left(
    tmp_path: Path, marked: bool, settled: list[str]
) -> None:
    transport = Scripted(run=numbered())
    async with process(tmp_path / "db", transport, jobs=2) as p:
        [lost, _] = (
            await p.ledger.jobs.claims.take(
                ClaimLine(p.run.id, endpoint=p.run.endpoint_id, by_retry=False, ttl_of=p.builder.ttl_us), most=2
            )
        ).claims
        if marked:
            p.ledger.marks.mark(lost.job.submission or 0)
        await p.start("collector", "janitor", "dispatcher")
        await anyio.sleep(110)
        assert (await p.job(lost.job.id)).state is State.SUBMITTING
        await p.until(State.OUTSTANDING, 2)
        assert await p.story() == ["claimed", *settled, "claimed", "accepted"]


async def test_a_request_that_takes_its_time_is_left_alone(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=says("IN_QUEUE")._replace(after_s=29))) as p:
        await p.begin()
        await p.until(State.SUBMITTING)
        for _ in range(3):
            await p.reconciler.run_once()
        assert 1 in p.endpoint.claimed
        await p.until(State.OUTSTANDING)
        assert await p.story() == ["claimed", "accepted"]
        assert 1 not in p.endpoint.claimed


async def test_an_outstanding_job_in_nobodys_plan_is_found_and_asked_for(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=IN_PROGRESS)
    async with process(tmp_path / "db", transport, jobs=3) as p:
        await p.start("dispatcher", "collector")
        await p.until(State.OUTSTANDING, 3)
        p.endpoint.outstanding.forget(2)
        await p.reconciler.run_once()
        assert p.endpoint.outstanding.plan.get(2) is None  # it could be a step on its way
        asked = len(transport.of("status"))
        await p.reconciler.run_once()
        assert p.endpoint.outstanding.plan.get(2)
        await anyio.sleep(0.1)
        assert [question.remote_id for question in transport.of("status")[asked:]] == ["r-2"]


async def test_what_was_planned_and_never_asked_is_planned_anew(tmp_path: Path) -> None:
    transport = Scripted()
    async with process(tmp_path / "db", transport) as p:
        await p.start("dispatcher")  # nobody asks
        await p.until(State.OUTSTANDING)
        assert p.endpoint.outstanding.revive() == 0
        await anyio.sleep(2_000)
        assert p.endpoint.outstanding.revive() == 1


async def test_a_job_in_progress_for_far_longer_than_the_others_is_reported_once(tmp_path: Path) -> None:
    transport = Scripted(run=numbered())
    async with process(tmp_path / "db", transport, jobs=2) as p:
        for _ in range(200):
            p.endpoint.estimates.durations.observe(10, 1_000)
        await p.begin()
        await p.until(State.OUTSTANDING, 2)
        await anyio.sleep(200)
        found = p.stuck.found(p.run.id)
        assert (found.in_progress, found.in_queue, len(found.examples)) == (2, 0, 2)
        [warning] = p.warnings
        assert "2 in progress far longer than the others were" in warning
        assert "<setting on-stuck=resubmit> would send them anew" in warning
        assert transport.of("health") == []
        transport.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
        await p.finish()
        await anyio.sleep(31)
        assert p.stuck.found(p.run.id) == StuckSummary()


async def test_while_little_is_known_a_job_may_take_twice_its_timeout(tmp_path: Path) -> None:
    settings = RunSettings(policy=Policy(execution_timeout_ms=100_000))
    async with process(tmp_path / "db", Scripted(), settings=settings) as p:
        await p.begin()
        await anyio.sleep(190)
        assert p.warnings == []
        await anyio.sleep(60)
        assert p.stuck.found(p.run.id).in_progress == 1


async def test_a_job_that_was_given_more_time_may_take_it_however_quick_the_others_were(tmp_path: Path) -> None:
    rule = parse_rule("timed_out: execution-timeout*4")
    settings = RunSettings(policy=Policy(execution_timeout_ms=100_000), escalate=(rule,))
    transport = Scripted(status=in_turn(says("TIMED_OUT"), IN_PROGRESS))
    async with process(tmp_path / "db", transport, settings=settings) as p:
        for _ in range(200):
            p.endpoint.estimates.durations.observe(10, 1_000)
        await p.begin()
        await p.until_event(lambda step: step.event is Event.RETRIED)
        await p.until(State.OUTSTANDING)
        await anyio.sleep(2 * 400 - 60)
        assert p.warnings == []
        await anyio.sleep(200)
        assert p.stuck.found(p.run.id).in_progress == 1


@pytest.mark.parametrize(
    ("health", "stuck"), [(IDLE, 1), (BUSY, 0), (in_turn(IDLE, BUSY, IDLE, BUSY), 0), (REFUSED, 0), (CUT, 0)]
)
async def test_a_job_in_the_queue_is_stuck_only_while_workers_are_idle(
    tmp_path: Path, health: Reply, stuck: int
) -> None:
    transport = Scripted(status=says("IN_QUEUE"), health=health)
    async with process(tmp_path / "db", transport) as p:
        await p.begin()
        await anyio.sleep(280)
        assert transport.of("health") == []
        await anyio.sleep(140)
        assert p.stuck.found(p.run.id).in_queue == stuck
        assert len(p.warnings) == stuck
        assert all(gap >= 25 for gap in gaps(transport.times("health")))


async def test_a_stuck_job_is_cancelled_and_sent_anew_where_that_is_asked_for(tmp_path: Path) -> None:
    def status(asked: object) -> Reply:
        if getattr(asked, "remote_id", "") == "r-2":
            return says("COMPLETED", "r-2", output=2)
        return CANCELLED if transport.of("cancel") else IN_PROGRESS

    settings = RunSettings(on_stuck=OnStuck.RESUBMIT, policy=Policy(execution_timeout_ms=10_000))
    transport = Scripted(run=in_turn(says("IN_QUEUE"), says("IN_QUEUE", "r-2")), status=status)
    async with process(tmp_path / "db", transport, settings=settings) as p:
        await p.begin()
        await p.finish()
        assert [asked.remote_id for asked in transport.of("cancel")] == ["r-1"]
        assert [result.attempts for result in await p.results()] == [2]
        assert "They are cancelled and sent anew" in p.warnings[0]
        assert anyio.current_time() < 120


async def test_old_events_go_but_the_last_of_each_job_and_those_of_unfinished_ones(tmp_path: Path) -> None:
    settings = RunSettings(events_kept_us=round(DAY_S) * SECOND, policy=Policy(ttl_ms=7 * 86_400_000))
    transport = Scripted(
        run=numbered(),
        status=lambda asked: IN_PROGRESS if asked.remote_id == "r-2" else says("COMPLETED", asked.remote_id, output=1),
    )
    async with process(tmp_path / "db", transport, jobs=3, settings=settings) as p:
        await p.start("dispatcher", "collector")
        await p.until(State.SUCCEEDED, 2)
        before = [await p.story(n) for n in (1, 2, 3)]
        assert await p.pruner.run_once() is None
        assert [await p.story(n) for n in (1, 2, 3)] == before
        p.taking.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(DAY_S + 60)
            afresh = Pruner(ledger=p.ledger, clock=p.clock)
            assert await afresh.run_once() is None
            assert [await p.story(n) for n in (1, 2, 3)] == [["completed"], before[1], ["completed"]]
            assert TRANSITIONS[State.OUTSTANDING][Event("completed")] is State.SUCCEEDED
            assert await afresh.run_once() is None  # nothing is left to do


async def test_a_long_history_is_gone_through_in_parts(tmp_path: Path) -> None:
    settings = RunSettings(events_kept_us=SECOND)
    transport = Scripted(run=numbered(), status=lambda asked: says("COMPLETED", asked.remote_id, output=1))
    async with process(tmp_path / "db", transport, jobs=20, settings=settings) as p:
        p.pruner = Pruner(ledger=p.ledger, clock=p.clock, page=7, pages_max=2)
        await p.start("dispatcher", "collector")
        await p.finish()
        await anyio.sleep(5)
        rounds = 0
        while await p.pruner.run_once() is not None:
            rounds += 1
        assert rounds == 5  # 60 events and 20 submissions, 14 at a time
        assert {len(await p.events(n)) for n in range(1, 21)} == {1}


async def test_a_debt_is_written_off_once_the_service_has_deleted_the_job(tmp_path: Path) -> None:
    settings = RunSettings(policy=Policy(ttl_ms=20_000))
    async with process(tmp_path / "db", Scripted(), settings=settings) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        await p.ledger.jobs.cancels.owe([1], CancelWhy.ASKED, now=p.clock.now())

        async def owed() -> int:
            return len(await p.ledger.jobs.cancels.due(now=p.clock.now(), after=(0, 0), most=9))

        await p.pruner.run_once()
        assert await owed() == 1
        await anyio.sleep(21)
        await p.pruner.run_once()
        assert await owed() == 0


def janitor_with(p: Process, *duties: Duty) -> Janitor:
    return Janitor(p.ledger, p.endpoints, p.settings, duties)


async def test_a_duty_that_fails_is_tried_again_later_and_later_while_the_others_go_on(tmp_path: Path) -> None:
    failed: list[float] = []
    done: list[float] = []

    async def fails() -> None:
        failed.append(anyio.current_time())
        if len(failed) < 5:
            raise StorageError("the disk is full")

    async def works() -> float:
        done.append(anyio.current_time())
        return 2.0

    async with process(tmp_path / "db", Scripted()) as p:
        p.janitor = janitor_with(p, Duty("fail", 100.0, fails), Duty("work", 60.0, works))
        await p.start("janitor")
        await anyio.sleep(10)
        first = p.janitor.summary
        assert first is not None
        assert first.failing == ("fail",)
        await anyio.sleep(50)
        assert gaps(failed) == pytest.approx([1, 2, 4, 8], rel=0.3)
        assert len(done) >= 28
        assert p.janitor.summary is not None
        assert p.janitor.summary.failing == ()
        assert first.at < p.janitor.summary.at


async def test_a_defect_in_a_duty_is_not_swallowed(tmp_path: Path) -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    async with process(tmp_path / "db", Scripted()) as p:
        with pytest.raises(ZeroDivisionError):
            await janitor_with(p, Duty("break", 1.0, broken)).serve()


async def test_the_counts_by_endpoint_are_those_of_its_runs(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=numbered()), jobs=3) as p:
        assert (await p.ledger.runs.outstanding()).get(p.run.endpoint_id, 0) == 0
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING, 3)
        assert await p.ledger.runs.outstanding() == {p.run.endpoint_id: 3}
        names = await p.ledger.jobs.custom_ids(ids=[1, 2, 3])
        assert len(set(names)) == 3
        assert await p.ledger.jobs.custom_ids(ids=[3, 1]) == [names[2], names[0]]
