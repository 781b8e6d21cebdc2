"""A run of which nothing moves says why within half a minute: on its own display, to who watches, and in the status."""

from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import pytest

from orchestrator.api.foreground.run import run
from orchestrator.api.foreground.watch import watch
from orchestrator.api.inspect.status import runs_now
from orchestrator.clock import Clock
from orchestrator.core.diagnosis.service_rules import NO_WORKERS
from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.errors import StoppedError
from orchestrator.ledger import read_ledger
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MINUTE_US
from orchestrator.views.status import RunStatus, Snapshot
from tests.api.runs.test_program import Silence, request_in, surroundings
from tests.engine.hosting.test_continued import desk_in
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Looker(Silence):
    """Looks at the display each second, until something stands there of why nothing moves."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.seen: Snapshot | None = None
        self.found = anyio.Event()

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        while (snapshot := look()).finding is None:  # noqa: ASYNC110  a display looks, and is told nothing
            await anyio.sleep(1)
        self.seen = snapshot
        self.found.set()


async def status_of(ledger: Path, clock: VirtualClock) -> RunStatus:
    async with read_ledger(ledger, clock=clock, connect=async_creator(ledger)) as opened:
        [found] = await runs_now(opened, "process 1")
        return found


async def test_an_endpoint_without_workers_is_told_of_wherever_somebody_looks(tmp_path: Path) -> None:
    async with desk_in(tmp_path, workers=0) as desk, anyio.create_task_group() as group:
        around, ledger, console = (
            surroundings(desk.service, desk.clock),
            tmp_path / "ledger.db",
            Looker(desk.clock),
        )
        group.start_soon(run, request_in(tmp_path, 3), console, around)
        await console.found.wait()
        assert console.seen is not None
        assert (console.seen.finding, console.seen.why_blocked) == (NO_WORKERS, None)
        assert 20 <= console.seen.wall_s < 40
        watcher = Looker(desk.clock)
        group.start_soon(lambda: watch(ledger, "in", watcher, around, stop=anyio.Event()))
        await watcher.found.wait()
        assert (await status_of(ledger, desk.clock)).finding == NO_WORKERS
        group.cancel_scope.cancel()


@pytest.mark.slow
async def test_who_waits_for_the_first_jobs_to_succeed_is_told_why_none_does(tmp_path: Path) -> None:
    async with desk_in(tmp_path, workers=0) as desk, anyio.create_task_group() as group:
        console = Looker(desk.clock)
        request = msgspec.structs.replace(request_in(tmp_path, 300), settings=RunSettings())
        group.start_soon(run, request, console, surroundings(desk.service, desk.clock))
        await console.found.wait()
        assert console.seen is not None
        assert console.seen.finding == NO_WORKERS
        assert "the first jobs are out" in (console.seen.why_blocked or "")
        group.cancel_scope.cancel()


@pytest.mark.slow
async def test_a_run_whose_jobs_only_take_long_is_held_up_by_nothing(tmp_path: Path) -> None:
    async with desk_in(tmp_path, seconds=lambda _: 600.0) as desk, anyio.create_task_group() as group:
        console = Looker(desk.clock)
        group.start_soon(run, request_in(tmp_path, 3), console, surroundings(desk.service, desk.clock))
        await anyio.sleep(300)
        assert not console.found.is_set()
        group.cancel_scope.cancel()


async def test_who_gives_up_says_why_nothing_moved(tmp_path: Path) -> None:
    async with desk_in(tmp_path, workers=0) as desk:
        with pytest.raises(StoppedError, match=f"it got nowhere for 1 min .*; {NO_WORKERS}"):
            await desk.run(3, settings=RunSettings(give_up_after_us=MINUTE_US, breaker=OFF))
