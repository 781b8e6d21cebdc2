"""A service that waits for a heartbeat hears it while a process works, and nothing once it does not."""

from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.foreground.run import run
from orchestrator.client.notify.delivery import TAKEN, Delivery
from orchestrator.core.pipelines.pipeline import Pipeline
from orchestrator.engine.flows.liveness_pings import LivenessPings
from orchestrator.ledger.flows.outbox import Notification
from orchestrator.ledger.flows.run_outbox import RunMessage
from orchestrator.ledger.runs.heartbeats import STALE_US
from orchestrator.settings.monitoring.notify_targets import NotifyTarget, TargetKind
from orchestrator.units import MINUTE_US, SECOND_US
from tests.api.flows.test_notifications import Receiver
from tests.api.runs.test_program import request_in
from tests.engine.flows.test_run_notifier import around
from tests.engine.hosting.test_continued import desk_in
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Ear:
    """A service that hears heartbeats, and notes when."""

    def __init__(self, clock: VirtualClock, *answers: Delivery, every_us: int = MINUTE_US) -> None:
        self.heartbeats: Mapping[str, int] = {"alive": every_us}
        self.heard_s: list[int] = []
        self._clock, self._began_at, self._answers = clock, clock.now(), list(answers)

    async def beat(self, target: str) -> Delivery:
        assert target == "alive"
        self.heard_s.append(round((self._clock.now() - self._began_at) / SECOND_US))
        return self._answers.pop(0) if self._answers else TAKEN

    async def tell(self, told: Notification, pipeline: Pipeline) -> Delivery:
        raise NotImplementedError

    async def tell_of_run(self, message: RunMessage) -> Delivery:
        raise NotImplementedError


@pytest.mark.slow
async def test_it_is_heard_at_once_and_every_so_often_until_the_process_ends(tmp_path: Path) -> None:
    receiver = Receiver()
    async with desk_in(tmp_path, seconds=lambda _: 290.0) as desk:
        request = request_in(tmp_path, 3)
        target = NotifyTarget(kind=TargetKind.PING, heartbeat="env:ALIVE", every_us=MINUTE_US)
        request = replace(request, connection=replace(request.connection, targets={"alive": target}))
        dependencies = around(desk, receiver, ALIVE="https://hc.example/very-secret")
        await run(request, desk.console, dependencies)
        heard = len(receiver.got)
        assert heard in (5, 6), "once a minute, from the first moment on"
        await anyio.sleep(600)
        assert len(receiver.got) == heard, "nobody works any more"
    assert {(str(each.url), each.content) for each in receiver.got} == {
        ("https://hc.example/very-secret", b"works on ledger.db")
    }
    assert not any("very-secret" in line for line in desk.console.lines)


async def test_a_process_that_cannot_write_its_ledger_is_not_at_work(tmp_path: Path) -> None:
    clock = VirtualClock()
    ear, written_at = Ear(clock), clock.now()
    pings = LivenessPings(sender=ear, clock=clock, written_at=lambda: written_at, warn=print)
    async with anyio.create_task_group() as tasks:
        await tasks.start(pings.serve)
        await anyio.sleep(200)
        assert ear.heard_s == [0], "the next one was due after a minute, and the last writing was too long ago"
        written_at = clock.now() + STALE_US
        await anyio.sleep(2)
        assert ear.heard_s[1:] in ([200], [201])
        tasks.cancel_scope.cancel()


async def test_what_does_not_arrive_is_said_once_and_tried_again_when_the_service_wants_it() -> None:
    clock = VirtualClock()
    refused, busy = Delivery(problem="hc.example answered 500"), Delivery(problem="429", wait_us=5 * MINUTE_US)
    ear, warnings = Ear(clock, refused, busy, TAKEN, refused), list[str]()
    pings = LivenessPings(sender=ear, clock=clock, written_at=clock.now, warn=warnings.append)
    async with anyio.create_task_group() as tasks:
        await tasks.start(pings.serve)
        await anyio.sleep(9 * 60 + 1)
        tasks.cancel_scope.cancel()
    assert ear.heard_s == [0, 60, 360, 420, 480, 540]
    assert warnings == ["alive: its heartbeat does not arrive: hc.example answered 500; it is tried again"] * 2
