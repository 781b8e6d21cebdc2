"""A process that stands still in a world that does not."""

from contextvars import ContextVar

import anyio
import httpx
import pytest

from tests.simulation.loop import running_loop
from tests.simulation.network import Side

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SLEEPER: ContextVar[bool] = ContextVar("SLEEPER")


async def test_what_belongs_to_a_sleeper_stands_still_and_the_rest_of_the_world_goes_on() -> None:
    seen: list[tuple[str, float]] = []

    async def tick(who: str) -> None:
        if who == "sleeper":
            SLEEPER.set(True)
        for _ in range(3):
            await anyio.sleep(1)
            seen.append((who, anyio.current_time()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick, "sleeper")
        tasks.start_soon(tick, "world")
        await anyio.sleep(1.5)
        running_loop().suspend(SLEEPER)
        await anyio.sleep(10)
        running_loop().resume()
    assert [at for who, at in seen if who == "world"] == [1, 2, 3]
    assert [at for who, at in seen if who == "sleeper"] == [1, 11.5, 12.5]


async def test_a_sleeper_that_wakes_finds_its_time_run_out_before_the_answer_that_came_meanwhile() -> None:
    """The order of uvloop: timers, then sockets."""
    outcomes: list[str] = []

    async def answer(seconds: float) -> httpx.Response:
        await anyio.sleep(seconds)
        return httpx.Response(200)

    async def ask(side: Side) -> None:
        SLEEPER.set(True)
        with anyio.move_on_after(5):
            await side.ask(answer, 2.0)
            outcomes.append("answered")
            return
        outcomes.append("gave up")

    for asleep_s in (2.5, 40.0):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, Side(tasks))
            await anyio.sleep(1)
            running_loop().suspend(SLEEPER)
            await anyio.sleep(asleep_s)
            running_loop().resume()
    assert outcomes == ["answered", "gave up"]
