"""What holds of a run for a while is told once, owed with the fact itself, and told again once it has been over."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.admin.brakes import brakes_set
from orchestrator.api.foreground.run import run
from orchestrator.core.batches.stuck import OVERTAKEN_US
from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.core.lanes.via import Via
from orchestrator.emulator.contract.faults import Faults
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MINUTE_US, SECOND_US
from tests.api.flows.test_notifications import Receiver
from tests.api.runs.test_program import request_in
from tests.engine.flows.test_run_notifier import around
from tests.engine.hosting.test_continued import Desk, desk_in
from tests.engine.process import SAMPLE_EVERY_S, SAY_EVERY_S
from tests.simulation.clock import EPOCH_AT
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.slow]

TELLS = RunSettings(breaker=OFF, notify="env:HOOK", max_attempts=1)
MINUTE_S = 60
WATCH_EVERY_S = 15.0


class Told:
    """A run at work, and what was told of it so far."""

    def __init__(self, desk: Desk, receiver: Receiver, settings: RunSettings, jobs: int) -> None:
        self.desk, self.receiver = desk, receiver
        self.request = replace(request_in(desk.folder, jobs), settings=settings, output=None, errors=None)
        self.stop = anyio.Event()
        self.ended = anyio.Event()

    @property
    def news(self) -> list[str]:
        return [body["type"].partition(".")[2] for body in self.receiver.bodies]

    async def work(self) -> None:
        self.stop, self.ended = anyio.Event(), anyio.Event()
        seldom = {"say_every_s": SAY_EVERY_S, "sample_every_s": SAMPLE_EVERY_S, "watch_every_s": WATCH_EVERY_S}
        dependencies = replace(around(self.desk, self.receiver), **seldom)
        await run(self.request, SilentConsole(), dependencies, self.stop)
        self.ended.set()

    async def interrupt(self) -> None:
        self.stop.set()
        await self.ended.wait()

    async def until(self, *news: str, within_s: float = 3 * 3_600) -> None:
        """Waits until exactly that was told."""
        for _ in range(round(within_s / 5)):
            if self.news == list(news):
                break
            await anyio.sleep(5)
        assert self.news == list(news)


@asynccontextmanager
async def told_of(
    folder: Path, settings: RunSettings = TELLS, *, jobs: int = 20, seconds: float = 120.0, **service: Any
) -> AsyncIterator[Told]:
    """A run that is being worked on until the block ends."""
    async with (
        desk_in(folder, workers=1, seconds=lambda _: seconds, **service) as desk,
        anyio.create_task_group() as tasks,
    ):
        told = Told(desk, Receiver(), settings, jobs)
        tasks.start_soon(told.work)
        yield told
        assert len(set(told.receiver.ids)) == len(told.receiver.ids), "nothing was told under two ids, or twice"
        tasks.cancel_scope.cancel()


async def test_a_standstill_is_told_once_and_the_next_one_again(tmp_path: Path) -> None:
    async with told_of(tmp_path) as told:
        told.desk.service.staff(0)
        await told.until("stalled")
        assert "no workers" in told.receiver.bodies[0]["data"]["why"]
        await anyio.sleep(20 * MINUTE_S)
        await told.until("stalled")
        told.desk.service.staff(1)
        await told.until("stalled", "recovered")
        told.desk.service.staff(0)
        await told.until("stalled", "recovered", "stalled")


async def test_that_batches_wait_is_told_to_nobody_and_that_one_is_stuck_once(tmp_path: Path) -> None:
    settings = replace(TELLS, via=Via.BATCH, batch_rows=10, finish_by=EPOCH_AT + 160 * MINUTE_US)
    async with told_of(tmp_path, settings, faults=Faults(stuck_batch=1.0)) as told:
        service = told.desk.service
        for _ in range(1_000):
            found = service.batches.newest(ENDPOINT, 0, None, told.desk.clock.now()).batches
            if any(each.status == "FINALIZED" for each in found):
                break
            await anyio.sleep(0.1)
        service.dice.faults = Faults()
        await anyio.sleep(OVERTAKEN_US / SECOND_US)
        assert told.news == []
        await told.until("stalled")
        assert "is stuck at the service" in told.receiver.bodies[0]["data"]["why"]
        await told.until("stalled", "recovered", "done")


async def test_a_service_that_cannot_be_reached_is_a_standstill_too(tmp_path: Path) -> None:
    async with told_of(tmp_path) as told:
        await anyio.sleep(60)
        told.desk.service.is_gone = True
        await told.until("stalled")
        assert told.receiver.bodies[0]["data"]["why"] == "the service cannot be reached"
        told.desk.service.is_gone = False
        await told.until("stalled", "recovered")


async def test_a_run_that_will_miss_its_time_is_told_of_once_until_it_has_another(tmp_path: Path) -> None:
    settings = replace(TELLS, finish_by=EPOCH_AT + 60 * MINUTE_US)
    async with told_of(tmp_path, settings, jobs=60) as told:
        await told.until("will-miss")
        assert "finish-by" in told.receiver.bodies[0]["data"]["why"]
        await brakes_set(told.request.ledger, "in", {"finish-by": "off"}, around(told.desk, told.receiver))
        await told.until("will-miss", "recovered")


async def test_most_of_a_budget_is_told_once_and_of_the_next_budget_again(tmp_path: Path) -> None:
    settings = replace(TELLS, budget=300.0, price_per_second=1.0)
    async with told_of(tmp_path, settings, jobs=60, seconds=30.0) as told:
        await told.until("spend")
        assert "of its budget of 300.00 is spent" in told.receiver.bodies[0]["data"]["why"]
        ledger = told.request.ledger
        await brakes_set(ledger, "in", {"budget": "1500"}, around(told.desk, told.receiver))
        await told.until("spend", "recovered")
        await told.until("spend", "recovered", "spend")


async def test_an_interruption_is_told_once_and_the_next_one_once_it_has_gone_on_for_a_while(tmp_path: Path) -> None:
    async with told_of(tmp_path) as told, anyio.create_task_group() as tasks:
        await anyio.sleep(30)
        for _ in range(2):
            await told.interrupt()
            assert told.news == ["interrupted"], "who goes on at once and is ended again has not been back"
            tasks.start_soon(told.work)
            await anyio.sleep(30)
        await told.until("interrupted", "recovered")
        await told.interrupt()
        assert told.news == ["interrupted", "recovered", "interrupted"]


async def test_a_run_that_ends_with_what_was_in_flight_is_told_of_by_the_process_that_ends(tmp_path: Path) -> None:
    settings = replace(TELLS, via=Via.SYNC)
    async with told_of(tmp_path, settings, jobs=1, seconds=6.0) as told:
        await anyio.sleep(4)
        await told.interrupt()
        assert told.news == ["done"]
