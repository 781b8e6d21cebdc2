"""A run is given up for what was seen of it: not for the time in which this process was asleep, or cut off."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from orchestrator.api.foreground.stall_timeout import until_stalled
from orchestrator.api.hosting.follower import FollowedRun, followed_run
from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger, command_ledger
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MINUTE_US, SECOND_US
from tests.engine.hosting.test_continued import desk_in
from tests.engine.process import Heard
from tests.ledger.ledgers import a_run, brought_to, opened
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

STEP_S = 40.0
"""A job of the run ends so often: more often than it would have to, to be given up by nobody."""


class CutOff:
    """A ledger that answers nobody who asks what has changed, from the time when it is `cut` until it is `mended`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._is_there = anyio.Event()
        self.mend()

    def cut(self) -> None:
        self._is_there = anyio.Event()

    def mend(self) -> None:
        self._is_there.set()

    async def commits_of_others(self) -> Any:
        await self._is_there.wait()
        return await self._ledger.commits_of_others()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


class Scene:
    """A run of another process, in the ledger `theirs`, that this one follows in its own, and gives up after 1 min."""

    def __init__(self, theirs: Ledger, own: CutOff, followed: FollowedRun) -> None:
        self.theirs = theirs
        self.own = own
        self.followed = followed
        self.given_up_s = list[float]()
        self._job = 0

    async def give_up(self) -> None:
        await until_stalled(lambda: self.followed, MINUTE_US)
        self.given_up_s.append(anyio.current_time())

    async def goes_on(self, jobs: int) -> None:
        """So many jobs of it end, one after the other."""
        for _ in range(jobs):
            await anyio.sleep(STEP_S)
            self._job += 1
            await brought_to(self.theirs, State.SUCCEEDED, self.theirs.now(), job=self._job)


@asynccontextmanager
async def scene_in(folder: Path) -> AsyncIterator[Scene]:
    path, clock = folder / "l.db", VirtualClock()
    async with opened(path, clock=clock) as theirs:
        run = await a_run(theirs, 50)
        async with command_ledger(path, clock=clock, connect=async_creator(path)) as ledger:
            own = CutOff(ledger)
            followed = await followed_run(cast(Ledger, own), run, Heard())
            scene = Scene(theirs, own, followed)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(followed.serve)
                tasks.start_soon(scene.give_up)
                yield scene
                tasks.cancel_scope.cancel()


async def test_a_run_that_goes_well_elsewhere_is_not_given_up_by_who_was_cut_off_meanwhile(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        await scene.goes_on(2)
        scene.own.cut()
        await scene.goes_on(8)
        assert scene.given_up_s == [], "nobody knows how it stands"
        scene.own.mend()
        await scene.goes_on(2)
        assert scene.given_up_s == []
        stood_s = anyio.current_time()
        await anyio.sleep(2 * MINUTE_US / SECOND_US)
        assert [55 <= at_s - stood_s < 70 for at_s in scene.given_up_s] == [True], "it gets nowhere, and that is seen"


async def test_a_run_that_gets_nowhere_elsewhere_is_given_up_although_nobody_writes_anything(tmp_path: Path) -> None:
    async with scene_in(tmp_path) as scene:
        await anyio.sleep(2 * MINUTE_US / SECOND_US)
        assert [55 <= at_s < 70 for at_s in scene.given_up_s] == [True]


async def test_what_a_machine_slept_through_does_not_count_for_a_run_that_it_serves(tmp_path: Path) -> None:
    async with desk_in(tmp_path, seconds=lambda _: 380.0) as desk, anyio.create_task_group() as tasks:

        async def sleep() -> None:
            await anyio.sleep(20)
            desk.clock.jump(5 * MINUTE_US)

        tasks.start_soon(sleep)
        summary = await desk.run(3, settings=RunSettings(give_up_after_us=2 * MINUTE_US, breaker=OFF))
    assert summary.jobs["succeeded"] == 3
