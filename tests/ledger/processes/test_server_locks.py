"""Who takes rows in for a run of a ledger on a server: one at a time, by a connection that says who it is."""

import os
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from orchestrator.errors import IntakeBusyError, UsageError
from orchestrator.ledger.holder_text import process_name
from orchestrator.ledger.postgres.connection import Connect, LineBounds, Settings
from orchestrator.ledger.postgres.process_mark import (
    NAME_BYTES_MAX,
    connection_name,
    people_name,
    process_mark,
)
from orchestrator.ledger.processes.server_locks import holder_text, server_intake_lock
from tests.postgres.databases import plain_connections

pytestmark = pytest.mark.anyio

ME = f"process {os.getpid()} on "


def within(connect: Connect, schema: str) -> Connect:
    """The same for another schema."""

    async def connected(settings: Settings, bounds: LineBounds) -> Any:
        return await connect({"search_path": schema, **settings}, bounds)

    return connected


async def test_a_run_of_a_ledger_in_another_schema_is_another_one(url: str) -> None:
    driver = await plain_connections(url)({}, LineBounds())
    await driver.execute("CREATE SCHEMA night")
    try:
        here = plain_connections(url)
        async with server_intake_lock("ledger", here, "a"), server_intake_lock("ledger", within(here, "night"), "a"):
            pass
    finally:
        await driver.execute("DROP SCHEMA night")
        await driver.close()


async def test_one_takes_in_for_a_run_and_another_for_another_run(url: str) -> None:
    connect = plain_connections(url)
    for _ in range(2):  # it is free at once
        async with server_intake_lock("ledger", connect, "a'b"), server_intake_lock("ledger", connect, "c"):
            with pytest.raises(
                IntakeBusyError, match=rf"^{ME}.* \(reading rows\) since .* is reading rows for the run"
            ):
                async with server_intake_lock("ledger", connect, "a'b"):
                    pass


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not is_so():
            await checkpoint()


END_ALL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%(reading rows)%'"


async def test_who_loses_its_connection_has_the_right_again_before_anybody_else(url: str) -> None:
    connect = plain_connections(url)
    server = await connect({}, LineBounds())
    async with anyio.create_task_group() as beside, server_intake_lock("ledger", connect, "a") as right:
        beside.start_soon(right.keep)
        for _ in range(2):
            await server.execute(f"{END_ALL} AND datname = current_database()")
            await until(lambda: right.is_lost)
            await until(lambda: not right.is_lost)
            with pytest.raises(IntakeBusyError):
                async with server_intake_lock("ledger", connect, "a"):
                    pass
    await server.close()


async def test_who_comes_back_to_find_another_one_has_it_no_more(url: str) -> None:
    connect = plain_connections(url)
    is_away = False

    async def now_and_then(settings: Settings, bounds: LineBounds) -> Any:
        if is_away:
            raise ConnectionRefusedError
        return await connect(settings, bounds)

    server = await connect({}, LineBounds())
    async with server_intake_lock("ledger", now_and_then, "a") as right:
        is_away = True
        await server.execute(f"{END_ALL} AND datname = current_database()")
        with anyio.move_on_after(0.5) as waited:
            await right.keep()
        assert waited.cancelled_caught
        async with server_intake_lock("ledger", connect, "a"):
            is_away = False
            with anyio.fail_after(10):
                await right.keep()
            assert right.is_lost
    await server.close()


async def test_who_lets_go_of_it_while_it_is_being_taken_anew_keeps_nothing_of_it(url: str) -> None:
    connect = plain_connections(url)
    is_slow, asked, found = False, anyio.Event(), anyio.Event()

    async def now_and_then(settings: Settings, bounds: LineBounds) -> Any:
        if is_slow:
            asked.set()
            await found.wait()
        return await connect(settings, bounds)

    server = await connect({}, LineBounds())
    with anyio.move_on_after(5) as waited:
        async with anyio.create_task_group() as beside:
            async with server_intake_lock("ledger", now_and_then, "a") as right:
                beside.start_soon(right.keep)
                is_slow = True
                await server.execute(f"{END_ALL} AND datname = current_database()")
                await asked.wait()
            found.set()
    async with server_intake_lock("ledger", connect, "a"):
        assert not waited.cancelled_caught
    await server.close()


class ShortLine:
    """A connection that is lost once it has executed so many statements."""

    def __init__(self, driver: Any, statements: int) -> None:
        self._driver = driver
        self._left = statements
        self._end_if_over()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    async def execute(self, *asked: Any, **named: Any) -> Any:
        found = await self._driver.execute(*asked, **named)
        self._left -= 1
        self._end_if_over()
        return found

    def _end_if_over(self) -> None:
        if not self._left:
            self._driver.terminate()


@pytest.mark.parametrize("found", ["is cut before its first statement", "is cut after it", "leads to a standby"])
async def test_whatever_goes_wrong_as_it_is_taken_anew_it_is_tried_again(url: str, found: str) -> None:
    connect = plain_connections(url)
    lines = 0

    async def now_and_then(settings: Settings, bounds: LineBounds) -> Any:
        nonlocal lines
        lines += 1
        if lines != 2:
            return await connect(settings, bounds)
        if found == "leads to a standby":
            raise UsageError("it can only be read")
        return ShortLine(await connect(settings, bounds), 0 if "before" in found else 1)

    server = await connect({}, LineBounds())
    async with anyio.create_task_group() as beside, server_intake_lock("ledger", now_and_then, "a") as right:
        beside.start_soon(right.keep)
        await server.execute(f"{END_ALL} AND datname = current_database()")
        await until(lambda: lines == 3 and not right.is_lost)
    await server.close()


@pytest.mark.parametrize("doing", ["", "run captions", "run " + "x" * 200, "run café €"])
def test_what_a_connection_is_called_fits_is_ascii_and_ends_with_the_mark_of_its_process(doing: str) -> None:
    name = connection_name(process_name(doing))
    assert name.startswith(f"orchestrator {ME}")
    assert name.endswith(process_mark())
    assert len(name.encode()) <= NAME_BYTES_MAX
    assert name.isascii()
    assert ("(" in name) == bool(doing)
    assert people_name(name).startswith(ME)


def test_since_when_is_told_where_the_server_tells_it() -> None:
    assert holder_text("orchestrator process 7 on a #12345678", None) == "process 7 on a"
    assert holder_text("", 0) == "another process since 1970-01-01 00:00:00 UTC"
