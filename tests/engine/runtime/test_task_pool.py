"""Requests in flight: one task after the other is used again, and none is left behind."""

from functools import partial
from pathlib import Path

import anyio
import pytest

from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.errors import StorageError
from tests.engine.process import process
from tests.engine.scripted import Scripted

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def _fly(seconds: float, tasks: list[int]) -> None:
    await anyio.sleep(seconds)
    tasks.append(anyio.get_current_task().id)


async def test_a_task_that_has_ended_a_request_takes_the_next() -> None:
    tasks: list[int] = []
    async with anyio.create_task_group() as group:
        task_pool = TaskPool(group)
        for _ in range(3):
            task_pool.launch(partial(_fly, 1.0, tasks))
            task_pool.launch(partial(_fly, 1.0, tasks))
            await anyio.sleep(2)
        task_pool.close()

    assert len(tasks) == 6
    assert len(set(tasks)) == 2


async def test_requests_beside_one_another_have_tasks_of_their_own() -> None:
    tasks: list[int] = []
    async with anyio.create_task_group() as group:
        task_pool = TaskPool(group)
        for seconds in (3.0, 1.0, 2.0):
            task_pool.launch(partial(_fly, seconds, tasks))
        task_pool.close()

    assert len(set(tasks)) == 3


async def test_a_request_that_raises_ends_the_group() -> None:
    async def fail() -> None:
        raise LookupError("a defect of ours")

    async def work() -> None:
        async with anyio.create_task_group() as group:
            task_pool = TaskPool(group)
            task_pool.launch(partial(anyio.sleep, 0))
            await anyio.sleep(1)
            task_pool.launch(fail)
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await work()

    assert caught.group_contains(LookupError)


async def test_what_was_left_behind_and_goes_wrong_ends_the_group_too() -> None:
    async def work() -> None:
        async with anyio.create_task_group() as group:
            task_pool = TaskPool(group)
            task_pool.fail(StorageError("the disk is full"))
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await work()

    assert caught.group_contains(StorageError)


async def test_what_goes_wrong_after_the_end_is_found_by_whoever_checks() -> None:
    async with anyio.create_task_group() as group:
        task_pool = TaskPool(group)
        task_pool.close()
    task_pool.check()
    task_pool.fail(StorageError("the disk is full"))
    task_pool.fail(StorageError("and again"))

    with pytest.raises(StorageError, match="the disk is full"):
        task_pool.check()


async def test_what_could_not_be_written_may_be_told_once_an_error_has_ended_the_work(tmp_path: Path) -> None:
    pools: list[TaskPool] = []

    async def work() -> None:
        async with process(tmp_path / "db", Scripted()) as p:
            pools.append(p.task_pool)
            raise LookupError("the first of several troubles")

    with pytest.raises(ExceptionGroup):
        await work()
    pools[0].fail(StorageError("the disk is full"))
