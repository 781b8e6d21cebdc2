"""What a line to a real server does on virtual time."""

import random
from collections.abc import AsyncIterator, Iterator
from contextvars import copy_context
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from orchestrator.ledger.postgres.connection import LineBounds
from tests.postgres.databases import Databases
from tests.simulation.engines.blocked import Onlooker, looking_at
from tests.simulation.engines.door import LOST_S, Door, Lines
from tests.simulation.loop import PART, running_loop
from tests.simulation.run import run_until_crash

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CALL_S = 0.1
LOCK = "BEGIN; SELECT pg_advisory_xact_lock(1)"
BACKENDS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'orchestrator #%'
"""


class Commits:
    def __init__(self) -> None:
        self.number = 0
        self.is_killed = False

    def committing(self) -> bool:
        self.number += 1
        return not self.is_killed

    def committed(self) -> None:
        pass


@pytest.fixture(scope="module")
def onlooker(databases: Databases) -> Iterator[tuple[str, Onlooker]]:
    with databases.one() as url, looking_at(url) as found:
        yield url, found


@pytest.fixture
async def doors(onlooker: tuple[str, Onlooker]) -> AsyncIterator[tuple[Door, Door]]:
    url, looks = onlooker
    lines = Lines(looks.blocked)
    made = tuple(
        Door(url, lines, mark=f" #{mark}", call_s=CALL_S, chance=random.Random(mark), commits=Commits())
        for mark in (1, 2)
    )
    yield made[0], made[1]
    for driver in _drivers:
        driver.terminate()
    _drivers.clear()
    for door in made:
        door.mend()
    await anyio.sleep(1)


_drivers: list[Any] = []
"""Those of a test, which are ended with it."""


async def connected(door: Door) -> Any:
    _drivers.append(await door.connect({}, LineBounds()))
    return _drivers[-1]


async def until_alone(onlooking: Any) -> None:
    """The server hears of an end in its own time."""
    with anyio.fail_after(1_000):
        while await onlooking.fetchval(BACKENDS) != 1:  # noqa: ASYNC110  nobody tells of it
            await anyio.sleep(1)


async def test_time_stands_still_while_the_server_answers_and_messages_take_theirs(doors: tuple[Door, Door]) -> None:
    driver = await connected(doors[0])
    before_s = anyio.current_time()
    assert await driver.fetchval("SELECT $1::int FROM pg_sleep(0.05)", 7) == 7
    assert 0 < anyio.current_time() - before_s <= 2 * CALL_S  # a statement is described first


async def test_whoever_waits_for_a_lock_of_somebody_else_waits_on_virtual_time(doors: tuple[Door, Door]) -> None:
    holder, waiter = [await connected(door) for door in doors]
    had_s: list[float] = []

    async def wait() -> None:
        await waiter.execute(LOCK)
        had_s.append(anyio.current_time())
        await waiter.execute("ROLLBACK")

    await holder.execute(LOCK)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.sleep(15)
        assert not had_s
        let_go_s = anyio.current_time()
        await holder.execute("COMMIT")
    assert let_go_s < had_s[0] <= let_go_s + 2 * CALL_S


async def test_what_is_cut_arrives_once_it_is_mended_and_is_lost_after_a_while(doors: tuple[Door, Door]) -> None:
    door, other = doors
    driver, onlooking = await connected(door), await connected(other)
    await onlooking.execute("CREATE TEMP TABLE t (n int)")
    door.cut()
    with pytest.raises(TimeoutError):
        await driver.fetchval("SELECT 1", timeout=3)
    with pytest.raises(TimeoutError):
        await door.connect({}, LineBounds(connected_s=2))
    assert await onlooking.fetchval(BACKENDS) == 2, "the server does not know that nobody is there any more"
    await anyio.sleep(LOST_S)
    assert driver.is_closed()
    await until_alone(onlooking)
    door.mend()
    assert await (await connected(door)).fetchval("SELECT 1") == 1


async def test_of_what_stands_still_half_a_message_may_have_left_and_the_rest_follows(doors: tuple[Door, Door]) -> None:
    door, _ = doors
    driver = await connected(door)
    door.chance = random.Random(2)  # half of it leaves
    answers: list[int] = []

    async def ask() -> None:
        answers.append(await driver.fetchval("SELECT 12345"))

    loop, part = running_loop(), "a process"
    context = copy_context()
    context.run(PART.set, part)
    async with anyio.create_task_group() as tasks:
        context.run(tasks.start_soon, ask)
        await anyio.lowlevel.checkpoint()
        loop.suspend(part)
        door.halve()
        await anyio.sleep(20)
        assert not answers
        door.go_on()
        loop.resume(part)
        await anyio.sleep(2 * CALL_S)
    assert answers == [12345]


def test_a_killed_process_is_gone_for_the_server_and_a_commit_may_be_lost(onlooker: tuple[str, Onlooker]) -> None:
    url, looks = onlooker

    async def world() -> None:
        lines, loop, part = Lines(looks.blocked), running_loop(), "a process"
        commits = Commits()
        doors = [
            Door(url, lines, mark=f" #{mark}", call_s=CALL_S, chance=random.Random(mark), commits=commits)
            for mark in (1, 2)
        ]
        onlooking = await doors[1].connect({}, LineBounds())

        async def live() -> None:
            driver = await doors[0].connect({}, LineBounds())
            await driver.execute(LOCK)
            commits.is_killed = True
            await driver.execute("COMMIT")
            raise AssertionError("nobody hears of it")

        context = copy_context()
        context.run(PART.set, part)
        async with anyio.create_task_group() as tasks:
            context.run(tasks.start_soon, live)
            await anyio.sleep(1)
            assert commits.number == 1
            loop.kill(part)
            await onlooking.execute(LOCK)  # which the server has let go of
            await onlooking.execute("ROLLBACK")
            await until_alone(onlooking)
            loop.crash()
            await anyio.sleep_forever()

    assert run_until_crash(world) is not None
