"""What a process whose clock was ahead has left to one whose clock is right."""

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.text.durations import Policy
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnUncertain
from tests.engine.process import process
from tests.engine.scripted import COMPLETED, CUT, FAILED, IN_PROGRESS, REFUSED, Reply, Scripted, numbered
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECOND = 1_000_000
HOUR = 3_600 * SECOND


def an_hour_ahead() -> VirtualClock:
    clock = VirtualClock()
    clock.jump(HOUR)
    return clock


async def test_what_a_clock_that_was_ahead_has_put_off_is_not_waited_for(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=Reply(503)), clock=an_hour_ahead(), jobs=3) as p:
        await p.start("dispatcher")
        await p.until_event(lambda step: step.event is Event.DEFERRED)
        await anyio.sleep(10)
    async with process(tmp_path / "db", Scripted(status=COMPLETED)) as p:
        assert p.ledger.was_ahead_us == pytest.approx(HOUR, abs=15 * SECOND)
        began_at_s = anyio.current_time()
        await p.begin()
        await p.finish()
        assert anyio.current_time() - began_at_s < 70


@pytest.mark.parametrize(("policy", "within_s"), [(OnUncertain.RESUBMIT, 30.0), (OnUncertain.HOLD, 95.0)])
async def test_an_uncertain_submission_of_a_clock_that_was_ahead_is_settled_in_its_time(
    tmp_path: Path, policy: OnUncertain, within_s: float
) -> None:
    settings = RunSettings(on_uncertain=policy, policy=Policy(ttl_ms=20_000))
    async with process(tmp_path / "db", Scripted(run=CUT), clock=an_hour_ahead(), settings=settings) as p:
        await p.start("dispatcher")
        await p.until(State.UNCERTAIN)
    async with process(tmp_path / "db", Scripted(status=COMPLETED)) as p:
        began_at_s = anyio.current_time()
        await p.begin()
        await p.finish()
        assert anyio.current_time() - began_at_s < within_s


async def test_when_a_job_was_last_unfinished_in_the_future_is_unknown_and_it_is_asked_for_at_once(
    tmp_path: Path,
) -> None:
    async with process(tmp_path / "db", Scripted(run=numbered()), clock=an_hour_ahead(), jobs=2) as p:
        await p.start("dispatcher", "collector")
        await p.until(State.OUTSTANDING, 2)
        await anyio.sleep(5)
    transport = Scripted(status=REFUSED)
    async with process(tmp_path / "db", transport) as p:
        began_at_s = anyio.current_time()
        safe_until = await p.ledger.jobs.margins.safe_until(p.run.id, retention_us=1_800 * SECOND, now=p.clock.now())
        assert (safe_until or 0) < p.clock.now(), "whoever looks is told of no safety"
        await p.begin()
        await anyio.sleep(1)
        assert transport.times("status")[0] < began_at_s + 1
        assert (p.endpoint.outstanding.plan.deadlines.soonest() or 0) < p.clock.now(), (
            "nor is it safe until one is answered"
        )
        transport.scripts["status"] = IN_PROGRESS
        await anyio.sleep(20)
        assert ((p.endpoint.outstanding.plan.deadlines.soonest() or 0) - p.clock.now()) / SECOND > 1_700
        transport.scripts["status"] = COMPLETED
        await p.finish()


async def test_a_job_whose_retry_was_on_its_way_is_asked_for_at_once(tmp_path: Path) -> None:
    path = tmp_path / "db"
    async with process(path, Scripted(run=numbered(), status=FAILED), clock=an_hour_ahead()) as p:
        await p.start("dispatcher", "collector")
        await p.until_event(lambda step: step.event is Event.ACCEPTED and step.reason == "retry")
    with closing(sqlite3.connect(path)) as database:  # as `kill -9` leaves it a moment before
        database.execute("UPDATE jobs SET state = 'submitting', retry_until = unfinished_at + 60000000")
        database.commit()
    transport = Scripted(status=REFUSED)
    async with process(path, transport) as p:
        began_at_s = anyio.current_time()
        assert (await p.begin()).outstanding == 1
        await anyio.sleep(1)
        assert transport.times("status")[0] < began_at_s + 1
        assert (p.endpoint.outstanding.plan.deadlines.soonest() or 0) < p.clock.now(), (
            "whoever looks is told of no safety"
        )
        transport.scripts["status"] = COMPLETED
        await p.finish()
        assert anyio.current_time() - began_at_s < 30


async def test_times_of_a_clock_that_was_right_are_left_alone(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=CUT), settings=RunSettings(uncertain_after_us=HOUR)) as p:
        await p.start("dispatcher")
        await p.until(State.UNCERTAIN)
        due_at = (await p.job()).due_at
        assert due_at > p.clock.now() + HOUR // 2
    async with process(tmp_path / "db", Scripted()) as p:
        assert p.ledger.was_ahead_us == 0
        assert (await p.job()).due_at == due_at


async def test_nothing_that_is_read_lies_in_the_future_after_a_clock_that_was_ahead(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=CUT), clock=an_hour_ahead()) as p:
        await p.start("dispatcher")
        await p.until(State.UNCERTAIN)
        before = await p.job()
    async with process(tmp_path / "db", Scripted()) as p:
        after, now = await p.job(), p.clock.now()
        assert (after.sent_at or 0) <= now
        assert (after.ttl_at or 0) - (after.sent_at or 0) == (before.ttl_at or 0) - (before.sent_at or 0)
        assert after.submission == before.submission, "a name, whatever it looks like"
        assert after.due_at <= now + 60 * SECOND
