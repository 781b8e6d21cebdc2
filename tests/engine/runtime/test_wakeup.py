"""Waits for news: how long they last, and that no news is lost."""

import anyio
import pytest

from orchestrator.engine.runtime.poll_loop import Wakeup
from orchestrator.ticks import TICK_US
from orchestrator.units import SECOND_US
from tests.simulation.loop import running_loop

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_all_waits_end_at_the_ticks_of_one_clock_and_none_too_soon() -> None:
    ended_s: list[float] = []

    async def wait(after_s: float, seconds: float) -> None:
        await anyio.sleep(after_s)
        await Wakeup().wait(seconds)
        ended_s.append(running_loop().time())

    begun_s = running_loop().time()
    assert begun_s == 0
    async with anyio.create_task_group() as group:
        for after_s, seconds in ((0.0, 0.0204), (0.007, 0.02), (0.03, 0.0001), (0.03, 0.01)):
            group.start_soon(wait, after_s, seconds)
    assert ended_s == pytest.approx([2 * TICK_US / SECOND_US] * 4, abs=1e-9)


async def test_news_ends_a_wait_and_what_comes_before_it_is_not_lost() -> None:
    wakeup = Wakeup()
    begun_s = running_loop().time()
    async with anyio.create_task_group() as group:
        group.start_soon(wakeup.wait, 60.0)
        await anyio.sleep(1)
        wakeup.wake()
    wakeup.wake()
    await wakeup.wait(60.0)
    assert running_loop().time() == pytest.approx(begun_s + 1)
    await wakeup.wait(5.0)
    assert running_loop().time() == pytest.approx(begun_s + 6)


async def test_a_wait_that_is_cancelled_leaves_the_next_one_whole() -> None:
    wakeup = Wakeup()
    with anyio.move_on_after(1):
        await wakeup.wait(2.0)
    begun_s = running_loop().time()
    await wakeup.wait(5.0)
    assert running_loop().time() == pytest.approx(begun_s + 5)
