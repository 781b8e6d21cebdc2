"""What the progress display is told while a run stands still."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import anyio
import httpx
import msgspec
import pytest

from orchestrator.core.gates.gates import CANCELLED, PAUSED
from orchestrator.engine.process.heartbeat import BEAT_S
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.units import SECOND_US
from orchestrator.views.status import CollectedBy, Collecting, Snapshot
from tests.api.runs.test_program import Silence, program
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Watcher(Silence):
    """Keeps a picture now and then of the run."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures: list[Snapshot] = []

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        while True:
            self.pictures.append(look())
            await anyio.sleep(0.7)


class Pluggable(SimulatedService):
    """A service whose network can be unplugged."""

    is_plugged_in = True

    def transport(
        self, *, travel_s: Callable[[], float] = lambda: 0.0, down: Callable[[], bool] = lambda: False
    ) -> httpx.AsyncBaseTransport:
        return super().transport(travel_s=travel_s, down=lambda: down() or not self.is_plugged_in)


async def test_a_service_that_cannot_be_reached_is_shown_for_as_long_as_it_lasts(tmp_path: Path) -> None:
    clock, console = VirtualClock(), Watcher()
    service = Pluggable(clock, workers=5, seconds=lambda _: 10.0)

    async def unplug() -> None:
        await anyio.sleep(11)
        service.is_plugged_in = False
        await anyio.sleep(120)
        service.is_plugged_in = True

    async with service.serving(), anyio.create_task_group() as group:
        group.start_soon(unplug)
        summary = await program(tmp_path, service, clock, console, jobs=10)
    shown = [picture.unreachable_s for picture in console.pictures]
    told = [seconds for seconds in shown if seconds is not None]
    assert told == sorted(told)
    assert told[-1] == pytest.approx(120, abs=30)
    assert None not in shown[shown.index(told[0]) :][: len(told)], "from the beginning to the end"
    assert shown[0] is shown[-1] is None
    assert summary.jobs["succeeded"] == 10


@pytest.mark.slow
async def test_a_paused_run_is_shown_as_paused_and_promises_no_end(tmp_path: Path) -> None:
    clock, console = VirtualClock(), Watcher()
    service = SimulatedService(clock, workers=50)

    def wish(pause: int, cancel: int) -> None:
        with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
            connection.execute("UPDATE runs SET pause_requested = ?, cancel_requested = ?", (pause, cancel))
            connection.commit()

    async def interfere() -> None:
        for pause, cancel in ((1, 0), (0, 0), (1, 1)):
            await anyio.sleep(1)
            wish(pause, cancel)

    async with service.serving(), anyio.create_task_group() as group:
        group.start_soon(interfere)
        await program(tmp_path, service, clock, console, jobs=250)
    assert [picture.why_blocked for picture in console.pictures[:5:2]] == [None, PAUSED, None]
    paused = console.pictures[2]
    assert paused.jobs_per_s is not None
    assert paused.eta_s is None
    assert console.pictures[4].eta_s is not None
    assert console.pictures[-1].why_blocked == CANCELLED


async def test_a_run_says_every_few_seconds_how_it_collects_and_until_when_results_are_safe(tmp_path: Path) -> None:
    clock, said, beaten_at = VirtualClock(), list[Collecting](), list[int]()
    service = SimulatedService(clock, workers=50, seconds=lambda _: 20.0)

    async def look() -> None:
        for _ in range(3):
            await anyio.sleep(BEAT_S)
            with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
                at, found = connection.execute("SELECT beaten_at, said FROM heartbeats").fetchone()
                collecting = msgspec.json.decode(found, type=ProcessReport).runs[1].collecting
                assert collecting is not None
                said.append(collecting)
                beaten_at.append(at)

    async with service.serving(), anyio.create_task_group() as group:
        group.start_soon(look)
        await program(tmp_path, service, clock, Silence(), jobs=10)

    assert [each.by for each in said] == [CollectedBy.POLLING] * 3
    assert all(b > a for a, b in pairwise(beaten_at))
    assert 0 < 1_800 - ((said[-1].safe_until or 0) - beaten_at[-1]) / SECOND_US < 3 * BEAT_S
