"""Commits of other processes are noticed, and nothing else is."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import pytest

from orchestrator.engine.process.ledger_watch import LedgerWatch
from orchestrator.engine.runtime.poll_intervals import ASK_EVERY_S
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.ledger.database import CommitsOfOthers
from orchestrator.ledger.transactions.transaction import Transaction
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SOON_S = 3 * ASK_EVERY_S


@asynccontextmanager
async def watched(path: Path) -> AsyncIterator[tuple[Ledger, list[int]]]:
    """A ledger that is watched, and the times of the rings, in virtual microseconds."""
    clock, rings = VirtualClock(), list[int]()
    async with (
        open_ledger(path, clock=clock, connect=async_creator(path)) as ledger,
        anyio.create_task_group() as group,
    ):
        await group.start(ledger.writer.serve)
        watch = LedgerWatch(ledger.signals_of_others)
        watch.subscribers.add(lambda: rings.append(clock.now()))
        await group.start(watch.serve)
        await anyio.sleep(SOON_S)
        yield ledger, rings
        group.cancel_scope.cancel()


def commit_elsewhere(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = version_num")
        connection.commit()


async def write_here(ledger: Ledger) -> None:
    async def block(transaction: Transaction) -> None:
        await transaction.connection.exec_driver_sql("UPDATE alembic_version SET version_num = version_num")

    await ledger.writer.run(block)


async def test_a_commit_of_another_process_rings_within_a_second_and_once(tmp_path: Path) -> None:
    path = empty_ledger(tmp_path / "l.db")
    async with watched(path) as (_, rings):
        assert len(rings) == 1, "at the start, for what was committed before"
        before = VirtualClock().now()
        commit_elsewhere(path)
        await anyio.sleep(1)
        assert len(rings) == 2
        assert rings[1] - before < 1_000_000
        await anyio.sleep(10)
        assert len(rings) == 2


async def test_our_own_commits_ring_nobody(tmp_path: Path) -> None:
    path = empty_ledger(tmp_path / "l.db")
    async with watched(path) as (ledger, rings):
        for _ in range(5):
            await write_here(ledger)
            await anyio.sleep(SOON_S)
        assert len(rings) == 1
        commit_elsewhere(path)
        await write_here(ledger)
        await anyio.sleep(SOON_S)
        assert len(rings) == 2, "not hidden by a commit of ours that follows"


async def test_asking_takes_no_lock_and_waits_for_none(tmp_path: Path) -> None:
    path = empty_ledger(tmp_path / "l.db")
    async with watched(path) as (ledger, rings):
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
            await ledger.commits_of_others()
            other.execute("UPDATE alembic_version SET version_num = version_num")
            await anyio.sleep(SOON_S)
            assert len(rings) == 1, "nothing is committed yet"
            other.execute("COMMIT")
        await anyio.sleep(SOON_S)
        assert len(rings) == 2


async def test_a_ledger_that_cannot_be_read_is_asked_again_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[int | StorageError] = [1, StorageError("the disk is away"), StorageError("still"), 1, 2]
    rings = []

    async def commits() -> CommitsOfOthers:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, StorageError):
            raise answer
        return CommitsOfOthers(answer, answer, 0)

    watch = LedgerWatch(commits)
    watch.subscribers.add(lambda: rings.append(len(answers)))
    with anyio.move_on_after(10 * ASK_EVERY_S):
        await watch.serve()
    assert rings == [4, 1]
    assert [record.getMessage() for record in caplog.records] == [
        "whether another process has changed the ledger is unknown: the disk is away"
    ]


async def test_inboxes_look_where_notices_came_and_nobody_else_does() -> None:
    answers = [CommitsOfOthers(0, 0, 0), CommitsOfOthers(1, 0, 1), CommitsOfOthers(2, 1, 1), CommitsOfOthers(3, 1, 1)]
    woken = list[str]()

    async def commits() -> CommitsOfOthers:
        return answers.pop(0)

    watch = LedgerWatch(commits)
    watch.subscribers.add(lambda: woken.append("anybody"))
    watch.inboxes.add(lambda: woken.append("an inbox"))
    with anyio.move_on_after(3.5 * ASK_EVERY_S):
        await watch.serve()
    assert woken == ["an inbox", "anybody", "an inbox", "anybody"]


async def test_a_transaction_that_takes_very_long_is_told_as_trouble_of_the_ledger(tmp_path: Path) -> None:
    path = empty_ledger(tmp_path / "l.db")

    async def block(_: Transaction) -> None:
        await anyio.sleep(100)

    async def write(ledger: Ledger) -> None:
        with pytest.raises(StorageError):
            await ledger.writer.run(block)

    async with watched(path) as (ledger, rings), anyio.create_task_group() as group:
        group.start_soon(write, ledger)
        await anyio.sleep(1)
        with pytest.raises(StorageError, match="a transaction takes very long"):
            await ledger.commits_of_others()
        await anyio.sleep(110)
        commit_elsewhere(path)
        await anyio.sleep(SOON_S)
        assert len(rings) == 2
