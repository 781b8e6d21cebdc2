"""The doors to a ledger on a server: who writes is alone, who reads has one view, and who was cut off comes back."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from sqlalchemy import Result, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.errors import StorageError, TookTooLongError, UsageError
from orchestrator.ledger.postgres.connection import server_driver
from orchestrator.ledger.postgres.database import ServerDatabase
from tests.ledger.postgres.conftest import OpenDatabase

pytestmark = pytest.mark.anyio

OpenDoor = Callable[[], AbstractAsyncContextManager[AsyncConnection]]

ADD = text("INSERT INTO counts (run_id, name, n) VALUES (1, :name, 1)")
NAMES = text("SELECT name FROM counts ORDER BY name")
ENDED = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :pid")
WAITERS = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")


async def add(database: ServerDatabase, *names: str) -> None:
    async with database.writing() as connection:
        for name in names:
            await connection.execute(ADD, {"name": name})


async def signal(database: ServerDatabase, *, notices: bool = False) -> None:
    async with database.writing() as connection:
        await database.signal(connection, notices=notices)


async def names(database: ServerDatabase) -> list[str]:
    return await database.asked(NAMES, None, lambda found: list(found.scalars()))


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    """Looks until it is so, however long the server takes."""
    while not await look():
        await anyio.lowlevel.checkpoint()


async def test_what_raises_is_rolled_back_and_a_constraint_is_a_defect_of_ours(connected: OpenDatabase) -> None:
    database = connected()
    await add(database, "a")
    with pytest.raises(IntegrityError):
        await add(database, "b", "a")
    assert await names(database) == ["a"]


async def test_who_is_cancelled_in_the_midst_has_written_all_or_was_not_let_begin(connected: OpenDatabase) -> None:
    database = connected()
    with anyio.CancelScope() as scope:
        async with database.writing() as connection:
            await connection.execute(ADD, {"name": "a"})
            scope.cancel()
            await connection.execute(ADD, {"name": "b"})
    assert await names(database) == ["a", "b"]


async def test_one_writes_at_a_time_whoevers_process_it_is(connected: OpenDatabase) -> None:
    first, second = connected(), connected()
    order: list[str] = []

    async def write() -> None:
        async with second.writing() as connection:
            order.append("second begins")
            assert (await connection.execute(NAMES)).scalars().all() == ["a"]

    async with anyio.create_task_group() as tasks, first.writing() as connection:
        await connection.execute(ADD, {"name": "a"})
        tasks.start_soon(write)
        await until(lambda: first.asked(WAITERS, None, lambda found: found.scalar_one() > 0))
        order.append("first ends")
    assert order == ["first ends", "second begins"]


async def test_a_view_stays_as_it_was_while_others_write(connected: OpenDatabase) -> None:
    reader, writer = connected(), connected()
    async with reader.reading() as view:
        assert (await view.execute(NAMES)).all() == []
        await add(writer, "a")
        assert (await view.execute(NAMES)).all() == []
    assert await names(reader) == ["a"]


async def test_who_reads_cannot_write(connected: OpenDatabase) -> None:
    with pytest.raises(StorageError, match=r"^ledger: cannot use the ledger \(.*\); it can only be read"):
        async with connected().reading() as view:
            await view.execute(ADD, {"name": "a"})


async def test_commits_of_others_are_noticed_and_our_own_are_not(connected: OpenDatabase) -> None:
    ours, theirs = connected(), connected()
    await add(ours, "a")
    before = await ours.commits_of_others()
    await add(ours, "b")
    assert await ours.commits_of_others() == before
    await add(theirs, "c")
    assert await ours.commits_of_others() > before
    await theirs.aclose()
    assert await ours.commits_of_others() > before


async def test_what_is_signalled_by_anybody_and_notices_of_others_are_noticed_and_no_other_commit(
    connected: OpenDatabase,
) -> None:
    """Engines of one process signal to each other, too."""
    ours, theirs = connected(), connected()
    await signal(ours)
    await signal(theirs)
    _, signals, notices = await ours.commits_of_others()
    await add(theirs, "a")
    await signal(ours, notices=True)
    assert (await ours.commits_of_others())[1:] == (signals, notices)
    await signal(ours)
    assert (await ours.commits_of_others())[1:] == (signals + 1, notices)
    await signal(theirs)
    assert (await ours.commits_of_others())[1:] == (signals + 2, notices)
    await signal(theirs, notices=True)
    assert (await ours.commits_of_others())[1:] == (signals + 2, notices + 1)
    await theirs.aclose()
    assert (await ours.commits_of_others())[1:] == (signals + 2, notices + 1)


async def test_nothing_is_signalled_that_was_not_committed(connected: OpenDatabase) -> None:
    ours, theirs = connected(), connected()
    before = await ours.commits_of_others()

    async def signal_and_fail() -> None:
        async with theirs.writing() as connection:
            await theirs.signal(connection)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await signal_and_fail()
    assert await ours.commits_of_others() == before


async def test_a_question_that_takes_too_long_is_ended_and_the_next_one_is_answered(connected: OpenDatabase) -> None:
    hasty = connected(patience_s=0.05)
    with pytest.raises(TookTooLongError):
        await hasty.asked(text("SELECT pg_sleep(600)"), None, Result.all)
    assert await names(hasty) == []


async def test_who_was_cut_off_is_told_and_connects_anew(connected: OpenDatabase) -> None:
    database, other = connected(), connected()
    await add(database, "a")

    async def used(door: OpenDoor, *statements: Any) -> None:
        """Statements on a connection that is cut after the first of them."""
        async with door() as connection:
            for statement in statements:
                await connection.execute(statement)
                await other.asked(ENDED, {"pid": server_driver(connection).get_server_pid()}, Result.all)

    b = ADD.bindparams(name="b")
    for door, statements in (
        (database.writing, (b, NAMES)),
        (database.reading, (NAMES, NAMES)),
        (database.writing, (b,)),
    ):
        with pytest.raises(StorageError, match=r"^ledger: cannot use the ledger"):
            await used(door, *statements)
    assert await names(database) == ["a"]
    await add(database, "c")
    assert await names(database) == ["a", "c"]


@pytest.mark.parametrize("door", [ServerDatabase.changing, ServerDatabase.reading])
async def test_a_connection_that_was_cut_while_nobody_used_it_is_replaced(
    connected: OpenDatabase, door: Callable[[ServerDatabase], AbstractAsyncContextManager[AsyncConnection]]
) -> None:
    database, other = connected(), connected()
    async with door(database) as connection:
        driver = server_driver(connection)
    await other.asked(ENDED, {"pid": driver.get_server_pid()}, Result.all)
    while not driver.is_closed():
        await anyio.lowlevel.checkpoint()
    await add(database, "a")
    assert await names(database) == ["a"]


async def test_a_row_without_the_row_it_belongs_to_is_damage(connected: OpenDatabase) -> None:
    database = connected()
    assert await database.damage() == []
    async with database.writing() as connection:
        await connection.execute(text("INSERT INTO payloads (job_id, input, packed, digest) VALUES (7, 'x', 0, 'y')"))
    assert await database.damage() == ["a row of payloads belongs to row 7 of jobs, which is not there"]


async def test_it_has_a_size_and_is_written_anew(connected: OpenDatabase) -> None:
    database = connected()
    await add(database, "a")
    size = await database.size()
    assert size.pages * size.page_bytes == await database.file_bytes() > 0
    await database.compact()
    assert await names(database) == ["a"]


async def test_it_is_not_copied_into_a_file(connected: OpenDatabase, tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="pg_dump"):
        await connected().copy_to(tmp_path / "copy.db")
