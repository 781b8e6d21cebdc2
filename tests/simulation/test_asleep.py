"""A process that stands still, or is killed, in a world that goes on."""

import sqlite3
from contextlib import closing
from contextvars import copy_context
from pathlib import Path

import anyio
import httpx
import pytest

from tests.simulation.database import async_creator
from tests.simulation.facts import Facts
from tests.simulation.loop import PART, running_loop
from tests.simulation.network import Side
from tests.simulation.plan import Plan
from tests.simulation.process import begin
from tests.simulation.run import run_until_crash

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SLEEPER = "sleeper"


async def test_what_belongs_to_a_sleeper_stands_still_and_the_rest_of_the_world_goes_on() -> None:
    seen: list[tuple[str, float]] = []

    async def tick(who: str) -> None:
        if who == "sleeper":
            PART.set(SLEEPER)
        for _ in range(3):
            await anyio.sleep(1)
            seen.append((who, anyio.current_time()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick, "sleeper")
        tasks.start_soon(tick, "world")
        await anyio.sleep(1.5)
        running_loop().suspend(SLEEPER)
        await anyio.sleep(10)
        running_loop().resume(SLEEPER)
    assert [at for who, at in seen if who == "world"] == [1, 2, 3]
    assert [at for who, at in seen if who == "sleeper"] == [1, 11.5, 12.5]


async def test_a_sleeper_that_wakes_finds_its_time_run_out_before_the_answer_that_came_meanwhile() -> None:
    """The order of uvloop: timers, then sockets."""
    outcomes: list[str] = []

    async def answer(seconds: float) -> httpx.Response:
        await anyio.sleep(seconds)
        return httpx.Response(200)

    async def ask(side: Side) -> None:
        PART.set(SLEEPER)
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
            running_loop().resume(SLEEPER)
    assert outcomes == ["answered", "gave up"]


def test_what_is_killed_does_nothing_more_and_loses_what_it_held_and_the_rest_of_the_world_goes_on(
    tmp_path: Path,
) -> None:
    seen: list[str] = []

    async def write(name: str) -> None:
        connection = await async_creator(tmp_path / "db")()
        try:
            await connection.execute("CREATE TABLE IF NOT EXISTS words (word)")
            await connection.execute("BEGIN IMMEDIATE")
            await connection.execute("INSERT INTO words VALUES (?)", (name,))
            await anyio.sleep(2)
            await connection.commit()
            seen.append(name)
        finally:
            seen.append(f"the end of {name}")
            await connection.close()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            killed = copy_context()
            killed.run(PART.set, SLEEPER)
            killed.run(tasks.start_soon, write, "killed")
            await anyio.sleep(1)
            running_loop().kill(SLEEPER)
            await write("well")
            running_loop().resume(SLEEPER)  # it is too late for that
            await anyio.sleep(10)
            running_loop().crash()

    assert run_until_crash(main) == 13
    assert seen == ["well", "the end of well"]
    with closing(sqlite3.connect(tmp_path / "db")) as db:
        assert db.execute("SELECT word FROM words").fetchall() == [("well",)]


async def test_who_sleeps_can_be_killed_and_two_sleep_apart() -> None:
    seen: list[tuple[str, float]] = []

    async def tick(who: str) -> None:
        PART.set(who)
        for _ in range(2):
            await anyio.sleep(1)
            seen.append((who, anyio.current_time()))

    async with anyio.create_task_group() as tasks:
        for who in ("a", "b"):
            tasks.start_soon(tick, who)
        await anyio.sleep(0.5)
        assert running_loop().suspend("a")
        assert not running_loop().suspend("a"), "it stands still already"
        await anyio.sleep(2)
        assert running_loop().suspend("b")
        running_loop().resume("a")
        await anyio.sleep(5)
        running_loop().resume("b")
    assert seen == [("b", 1), ("b", 2), ("a", 2.5), ("a", 3.5)]


def test_an_error_in_the_world_ends_it_though_who_was_killed_takes_no_cancellation(tmp_path: Path) -> None:
    facts = Facts(Plan(scenario="none", seed=1), tmp_path, traced=False)

    async def break_down() -> None:
        await anyio.sleep(1)
        raise ValueError("it broke")

    async def main() -> None:
        async with anyio.create_task_group() as world:
            killed = copy_context()
            killed.run(PART.set, SLEEPER)
            killed.run(world.start_soon, anyio.sleep, 10)
            await anyio.sleep(0.5)
            running_loop().kill(SLEEPER)
            begin(world, facts, break_down)

    assert run_until_crash(main) == 1.5
    assert str(facts.failure).startswith("ValueError: it broke")
