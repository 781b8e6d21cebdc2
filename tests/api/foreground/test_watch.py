"""Watching a run from beside: it ends with the run, and changes nothing."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from orchestrator.api.foreground.watch import watch
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.ledger import Ledger
from orchestrator.views.status import Snapshot
from tests.factories import S
from tests.ledger.ledgers import a_run, dump, gone, job_now, opened
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Watching(SilentConsole):
    """Somebody who looks every second and remembers what was said and seen."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.seen: list[int] = []

    def info(self, line: str) -> None:
        self.said.append(line)

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        while True:
            self.seen.append(look().counts["succeeded"])
            await anyio.sleep(1)


async def worked_on(ledger: Ledger) -> None:
    for job in (1, 2):
        await anyio.sleep(5)
        steps = ("claimed", "accepted", "completed")
        await gone(ledger, await job_now(ledger, job), *steps, at=EPOCH_AT + job * 10 * S)


@pytest.mark.parametrize("name", [None, "ru"])
async def test_a_run_is_watched_until_each_job_has_its_outcome(tmp_path: Path, name: str | None) -> None:
    path, console = tmp_path / "l.db", Watching()
    given = Dependencies(clock=VirtualClock(), connect=async_creator)
    async with opened(path) as ledger, anyio.create_task_group() as group:
        await a_run(ledger, 2)
        group.start_soon(worked_on, ledger)
        last = await watch(path, name, console, given, stop=anyio.Event())
        assert (last.run, last.counts["succeeded"], round(last.wall_s)) == ("run", 2, 10)
    assert console.seen[0] == 0
    assert {0, 1} <= set(console.seen)
    assert console.said == [f"nobody works on {path}; run is shown as it was left"]


async def test_who_leaves_changes_nothing(tmp_path: Path) -> None:
    path, console, stop = tmp_path / "l.db", Watching(), anyio.Event()
    given = Dependencies(clock=VirtualClock(), connect=async_creator)
    async with opened(path) as ledger, anyio.create_task_group() as group:
        await a_run(ledger, 2)
        before = dump(path)

        async def leave() -> None:
            await anyio.sleep(3)
            stop.set()

        group.start_soon(leave)
        last = await watch(path, "run", console, given, stop=stop)
        assert last.counts["queued"] == 2
        assert dump(path) == before
