"""Results that expire while nobody works are told of: once each time, by one of those who look, and never by mistake."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.messages.abandonment_watch import AbandonmentWatch
from orchestrator.api.messages.message_lists import message_page
from orchestrator.api.messages.outside_claims import CLAIMED_US
from orchestrator.api.messages.outside_sender import OutsideSender
from orchestrator.client.http.posts import post_notification
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.core.pipelines.message_text import letter_of
from orchestrator.core.pipelines.pipeline import News, Notify
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import Ledger, dispatcher_lock
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.monitoring.notify_targets import NotifyTarget, TargetKind
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US
from orchestrator.views.flows import MessageStanding
from tests.api.flows.test_notifications import Receiver, endless, hanging, telling
from tests.engine.flowing import a_pipeline, flowing
from tests.ledger.ledgers import a_run, brought_to, dump, obeyed, opened
from tests.ledger.pipelines import applied
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HOOK = NotifyTarget(kind=TargetKind.WEBHOOK, url="env:HOOK")
PAGER = NotifyTarget(kind=TargetKind.WEBHOOK, url="env:PAGER", on=("abandoned",))
ENVIRON = {"HOOK": "https://hooks.example/ops", "PAGER": "https://hooks.example/pager"}
MINUTE_S = 60


class Scene:
    """A ledger on which a process has worked until now, and those who look at it."""

    def __init__(self, path: Path, ledger: Ledger, clock: VirtualClock, receiver: Receiver) -> None:
        self.path, self.ledger, self.clock, self.receiver = path, ledger, clock, receiver

    async def at_service(self, name: str, notify: str | None = None, *, jobs: int = 2) -> int:
        """A run of which so many jobs are at the service since now."""
        settings = RunSettings(notify=notify, price_per_second=0.5)
        run = await a_run(self.ledger, jobs, name=name, settings=settings)
        latest = await self.ledger.reports.audit.jobs_number()
        for job in range(latest - jobs + 1, latest + 1):
            await brought_to(self.ledger, State.OUTSTANDING, self.clock.now(), job=job)
        return run.id

    async def worked(self, seconds: float = 0.0) -> None:
        """A process works for so long, says so, and is gone."""
        for _ in range(int(seconds // 5)):
            await anyio.sleep(5)
            await self.ledger.runs.heartbeats.beat(ProcessReport())
        await self.ledger.runs.heartbeats.beat(ProcessReport())

    def watch(self, **targets: NotifyTarget) -> AbandonmentWatch:
        """One who looks, with these targets in its configuration file."""
        dependencies = Dependencies(
            clock=self.clock,
            environ=ENVIRON,
            post_hook=partial(post_notification, transport=self.receiver),
            connect=async_creator,
        )
        connection = ConnectionSettings(targets=targets, dashboard_url="https://jobs.example/")
        return AbandonmentWatch(path=self.path, connection=connection, dependencies=dependencies)

    @property
    def told(self) -> list[tuple[str, str]]:
        """What was told, and where."""
        return [
            (request.url.path, f"{body['type']} {body['data'].get('run') or body['data'].get('flow')}")
            for request, body in zip(self.receiver.got, self.receiver.bodies, strict=True)
        ]


@asynccontextmanager
async def scene(tmp_path: Path, receiver: Receiver | None = None) -> AsyncIterator[Scene]:
    clock, path = VirtualClock(), tmp_path / "l.db"
    async with opened(path, clock=clock) as ledger:
        yield Scene(path, ledger, clock, receiver or Receiver())


async def test_two_dashboards_tell_it_once_ten_minutes_before_a_result_may_be_gone(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.at_service("night", "ops:abandoned")
        await s.worked()
        watches = [s.watch(ops=HOOK), s.watch(ops=HOOK)]
        for minute, slept in ((0, 0), (19, 19), (20, 1), (21, 1), (45, 24)):
            await anyio.sleep(slept * MINUTE_S)
            for watch in watches:
                await watch.look()
            assert bool(s.receiver.got) == (minute >= 20), minute
        assert s.told == [("/ops", "run.abandoned night")]
    letter = letter_of(s.receiver.got[0].content, "https://jobs.example/find?run=night")
    assert letter.title == "night is about to lose results: nobody works on it"
    assert letter.why.startswith("nobody works on it: ")
    assert letter.why.endswith("ended at 2026-01-01T00:00:00Z, without a word: it was killed, or its machine")
    figures = dict(letter.figures)
    assert (figures["at the service"], figures["may be gone from"]) == ("2 jobs", "2026-01-01T00:30:00Z")
    assert (figures["rows"], figures["spent"]) == ("2", "0.00")
    assert letter.commands == (f"orchestrator resume --ledger {tmp_path}/l.db night",)


async def test_it_is_told_again_once_somebody_has_worked_for_a_while_and_not_before(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.at_service("night", "ops:abandoned")
        await s.worked()
        watch = s.watch(ops=HOOK)
        await anyio.sleep(21 * MINUTE_S)
        await watch.look()
        assert len(s.receiver.got) == 1
        await s.worked(MINUTE_S)  # and is gone again
        await anyio.sleep(2 * MINUTE_S)
        await watch.look()
        assert len(s.receiver.got) == 1, "it is the same time"
        await s.worked(11 * MINUTE_S)
        await anyio.sleep(2 * MINUTE_S)
        await watch.look()
        assert len(set(s.receiver.ids)) == 2


async def test_nobody_is_told_while_somebody_works_and_says_so(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.at_service("night", "ops:abandoned")
        await s.worked()
        await anyio.sleep(29 * MINUTE_S)
        watch = s.watch(ops=HOOK)
        with dispatcher_lock(s.path, now=s.clock.now(), doing="orchestrator serve"):
            await watch.look()  # it has just begun, and said nothing yet
            await s.worked(2 * MINUTE_S)
            await watch.look()
            assert s.told == []
            await anyio.sleep(2 * MINUTE_S)  # it has the lock, and hangs
            await watch.look()
            assert s.told == [("/ops", "run.abandoned night")]
            assert "holds the ledger, and has done nothing since" in s.receiver.bodies[0]["data"]["why"]


async def test_who_begins_again_within_a_minute_is_not_missed(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.at_service("night", "ops:abandoned")
        await anyio.sleep(25 * MINUTE_S)
        await s.worked()
        await anyio.sleep(59)
        assert await s.watch(ops=HOOK).look() == []
        await anyio.sleep(2)
        assert len(await s.watch(ops=HOOK).look()) == 1


async def test_what_was_left_a_day_ago_or_cancelled_gets_nobody_up(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        run = await s.at_service("old", "ops:abandoned")
        await s.worked()
        watch = s.watch(ops=HOOK, pager=PAGER)
        s.clock.jump(25 * HOUR_US)
        await watch.look()
        await s.worked()
        await obeyed(s.ledger, "cancel", run=run)
        await anyio.sleep(2 * MINUTE_S)
        await watch.look()
        assert s.told == []


async def test_all_that_is_left_is_told_in_one_message_to_each(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.at_service("first", "ops\nhttps://hooks.example/first")
        await s.at_service("second", "ops:abandoned,failed", jobs=3)
        await s.at_service("third", "ops:failed")
        await s.at_service("fourth", jobs=1)
        await s.worked()
        await anyio.sleep(21 * MINUTE_S)
        await s.watch(ops=HOOK, pager=PAGER).look()
        assert sorted(s.told) == [
            ("/first", "run.abandoned first"),
            ("/ops", "run.abandoned first"),
            ("/pager", "run.abandoned first"),
        ]
        bodies = dict(zip((request.url.path for request in s.receiver.got), s.receiver.bodies, strict=True))
    assert [bodies[path]["data"]["waiting"] for path in ("/first", "/ops", "/pager")] == [2, 5, 8]
    letter = letter_of(s.receiver.got[1].content)
    assert "more are about to lose results: nobody works on them" in letter.title
    assert bodies["/pager"]["data"]["commands"] == [f"orchestrator serve --ledger {tmp_path}/l.db"]


async def test_a_flow_that_is_left_is_told_of_as_its_pipeline_says(tmp_path: Path) -> None:
    receiver, clock, path = Receiver(), VirtualClock(), tmp_path / "l.db"
    by_url = telling(a_pipeline(tmp_path), News.ABANDONED, secret=None)
    by_target = replace(a_pipeline(tmp_path, name="q"), notify=Notify(to=("ops:abandoned",)))
    by_nobody = replace(a_pipeline(tmp_path, name="r"), notify=Notify(to=("ops:failed",)))
    async with flowing(tmp_path, transport=endless(), receiver=receiver, clock=clock) as p:
        for pipeline in (by_url, by_target, by_nobody):
            of = await applied(p.ledger, pipeline, now=p.ledger.now())
            await p.ledger.flows.add(of.id, pipeline.name, of.definition, [EPOCH_AT], FlowKind.TRIGGERED)
        p.scheduler.on_change()
        await anyio.sleep(20)
    async with opened(path, clock=clock) as ledger:
        s = Scene(path, ledger, clock, receiver)
        await s.worked()
        await anyio.sleep(25 * MINUTE_S)
        await s.watch(ops=HOOK, pager=PAGER).look()
        await s.watch(ops=HOOK, pager=PAGER).look()
        lines = await message_page(ledger, None, most=9)
    assert sorted(path for path, _ in s.told) == ["/T0/very-secret-path", "/ops", "/pager"]
    assert {what.partition("@")[0] for path, what in s.told if path != "/pager"} == {
        "flow.abandoned p",
        "flow.abandoned q",
    }
    assert [line.standing for line in lines.lines] == [MessageStanding.TAKEN] * 3
    assert receiver.bodies[0]["data"]["commands"] == [f"orchestrator serve --ledger {tmp_path}/l.db"]


async def test_where_nobody_is_to_be_told_nothing_is_written(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.at_service("night", "ops:failed")
        await s.worked()
        await anyio.sleep(25 * MINUTE_S)
        before = dump(s.path)
        await s.watch(ops=HOOK).look()
        assert dump(s.path) == before
    assert s.told == []


async def test_a_dashboard_that_dies_with_a_message_out_has_the_next_one_send_it_under_its_id(tmp_path: Path) -> None:
    async with scene(tmp_path, Receiver(hanging)) as s:
        await s.at_service("night", "ops")
        await s.worked()
        await anyio.sleep(21 * MINUTE_S)
        with anyio.move_on_after(5):
            await s.watch(ops=HOOK).look()
        other = s.watch(ops=HOOK)
        assert await other.look() == [], "the message may still be on its way"
        await anyio.sleep(CLAIMED_US / SECOND_US)
        assert len(await other.look()) == 1
        await other.look()
    assert len(s.receiver.got) == 2
    assert len(set(s.receiver.ids)) == 1


async def test_what_nobody_took_is_sent_again_but_not_where_somebody_works_meanwhile(tmp_path: Path) -> None:
    async with scene(tmp_path, Receiver(500, then=204)) as s:
        await s.at_service("night", "ops")
        await s.worked()
        await anyio.sleep(21 * MINUTE_S)
        watch = s.watch(ops=HOOK)
        await watch.look()
        await anyio.sleep(10)
        message = (await s.ledger.flows.run_outbox.of(1))[-1]
        with dispatcher_lock(s.path, now=s.clock.now(), doing="orchestrator serve"):
            await watch.look()
            sender = await OutsideSender.of(s.ledger, watch.connection, watch.dependencies)
            assert await sender.of_runs([message]) == [], "somebody has begun to work since it was found"
            assert len(s.receiver.got) == 1, "it is left to whoever works"
            assert (await s.ledger.flows.run_outbox.of(1))[-1] == message, "and was given back"
        await watch.look()
    assert len(s.receiver.got) == 2
    assert len(set(s.receiver.ids)) == 1


async def test_it_waits_for_a_ledger_that_is_not_there_yet_and_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    dependencies = Dependencies(clock=clock, environ={}, connect=async_creator)
    watch = AbandonmentWatch(path=tmp_path / "l.db", connection=ConnectionSettings(), dependencies=dependencies)
    with anyio.move_on_after(MINUTE_US / SECOND_US) as scope:
        await watch.serve()
    assert scope.cancelled_caught
    assert not caplog.records
