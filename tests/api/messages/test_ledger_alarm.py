"""People hear that a ledger cannot be used, though nothing can be written down meanwhile, and that it can be used again."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.foreground.serve import serve
from orchestrator.api.hosting.host import Host
from orchestrator.api.messages.ledger_alarm import AGAIN_S, TELL_DELAY_S, LedgerAlarm
from orchestrator.client.http.posts import post_notification
from orchestrator.core.pipelines.notifications import iso
from orchestrator.engine.engine import Engine
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import Ledger
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.monitoring.notify_targets import NotifyTarget, TargetKind
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import HOUR_US, SECOND_US
from tests.api.desk import desk
from tests.api.flows.test_notifications import Receiver
from tests.ledger.full_disk import full_disk
from tests.ledger.ledgers import opened
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.world import URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HOOK = NotifyTarget(kind=TargetKind.WEBHOOK, url="env:HOOK", on=("abandoned",))
OTHER = NotifyTarget(kind=TargetKind.WEBHOOK, url="env:HOOK", on=("failed",))
ENVIRON = {"HOOK": "https://hooks.example/ops"}


@asynccontextmanager
async def alarmed(path: Path, receiver: Receiver, warnings: list[str], *, is_fast_us: int = 0) -> AsyncIterator[Ledger]:
    """A ledger that a process waits for whose alarm is on, with two targets of which one asks for it. The clock of its
    machine is fast by so much.
    """
    clock = VirtualClock()
    async with opened(path, clock=clock) as ledger, anyio.create_task_group() as tasks:
        ledger.patience.seconds = math.inf
        alarm = LedgerAlarm(
            ledger=ledger,
            connection=ConnectionSettings(targets={"ops": HOOK, "others": OTHER}),
            dependencies=Dependencies(
                clock=VirtualClock(epoch_at=EPOCH_AT + is_fast_us),
                environ=ENVIRON,
                post_hook=partial(post_notification, transport=receiver),
            ),
            warn=warnings.append,
        )
        tasks.start_soon(alarm.serve)
        yield ledger
        tasks.cancel_scope.cancel()


async def full_for(ledger: Ledger, seconds: float) -> None:
    """The disk is full for so long, which is noticed at once, as somebody writes."""
    async with anyio.create_task_group() as tasks, full_disk(ledger):
        tasks.start_soon(a_large_run, ledger)
        await anyio.sleep(seconds)


async def a_large_run(ledger: Ledger) -> None:
    name = f"run-{ledger.now()}"
    await ledger.runs.create(
        name=name, service_url="https://x", endpoint="e", source="x" * 500_000, settings=RunSettings()
    )


async def test_who_asks_for_it_is_told_after_a_minute_and_once_it_is_over(tmp_path: Path) -> None:
    receiver, warnings = Receiver(), list[str]()
    async with alarmed(tmp_path / "l.db", receiver, warnings) as ledger:
        await full_for(ledger, TELL_DELAY_S - 5)
        await anyio.sleep(600)
        assert receiver.bodies == []
        await full_for(ledger, 600)
        await anyio.sleep(60)
        began, ended = receiver.bodies
        assert (began["type"], began["data"]["ledger"]) == ("ledger.unavailable", "l.db")
        assert began["data"]["why"].endswith("free some space on its disk")
        assert (ended["type"], ended["data"]["why"]) == ("ledger.recovered", "it can be used again")
        assert ended["data"]["since"] == began["data"]["since"]
        assert warnings == []
        await full_for(ledger, 600)
        await anyio.sleep(60)
        assert len(receiver.bodies) == 4, "the next time is another one"


async def test_what_is_told_has_the_time_of_the_ledger(tmp_path: Path) -> None:
    receiver = Receiver()
    async with alarmed(tmp_path / "l.db", receiver, [], is_fast_us=HOUR_US) as ledger:
        await full_for(ledger, 600)
        await anyio.sleep(60)
        assert [each["timestamp"] < iso(ledger.now()) for each in receiver.bodies] == [True, True]
    assert abs(int(receiver.got[0].headers["webhook-timestamp"]) - EPOCH_AT // SECOND_US - TELL_DELAY_S) < 30


async def test_who_cannot_be_told_is_tried_again(tmp_path: Path) -> None:
    receiver, warnings = Receiver(then=500), list[str]()
    async with alarmed(tmp_path / "l.db", receiver, warnings) as ledger:
        await full_for(ledger, TELL_DELAY_S + 3.5 * AGAIN_S)
        await anyio.sleep(60)
    assert [each["type"] for each in receiver.bodies] == ["ledger.unavailable"] * 4, "and nobody hears that it is over"
    assert "ops: nobody could be told that the ledger is unavailable" in warnings[0]


async def test_who_serves_has_it_on(tmp_path: Path) -> None:
    receiver = Receiver()

    async def alongside(_host: Host, engine: Engine) -> None:
        await full_for(engine.ledger, 600)
        stop.set()

    stop = anyio.Event()
    async with desk(tmp_path) as shop:
        around = replace(shop.dependencies, environ=ENVIRON, post_hook=partial(post_notification, transport=receiver))
        connection = ConnectionSettings(serverless_url=URL, api_key="key", targets={"ops": HOOK})
        request = ServeRequest(ledger=shop.ledger, connection=connection)
        await serve(request, dependencies=around, stop=stop, alongside=alongside)
    assert [each["type"] for each in receiver.bodies][:1] == ["ledger.unavailable"]
