"""Waits for news: how long they last, and that no news is lost."""

import anyio
import pytest

from orchestrator.engine.wakeup import Wakeup
from tests.simulation.loop import running_loop

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_a_wait_lasts_whole_milliseconds_since_no_timer_is_finer() -> None:
    begun_s = running_loop().time()
    await Wakeup().wait(0.0204)
    assert running_loop().time() == pytest.approx(begun_s + 0.021, abs=1e-9)


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
