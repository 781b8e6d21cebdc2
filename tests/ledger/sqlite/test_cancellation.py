"""Cancellation against the real aiosqlite, with its threads: the doors shield, so that no write is in doubt."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from sqlalchemy import text

from orchestrator.clock import SystemClock
from orchestrator.core.jobs.job import Job
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger, open_ledger, read_ledger
from orchestrator.ledger.sqlite.database import Database
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.settings.addresses.ledger_address import file_of
from tests.factories import STEPS, S
from tests.ledger.ledgers import a_run, dump, jobs_now
from tests.simulation.clock import EPOCH_AT

pytestmark = pytest.mark.anyio

AT = EPOCH_AT + 1_000 * S


@asynccontextmanager
async def really_opened(path: Path) -> AsyncIterator[Ledger]:
    async with open_ledger(path, clock=SystemClock()) as ledger, anyio.create_task_group() as group:
        await group.start(ledger.writer.serve)
        yield ledger
        group.cancel_scope.cancel()


async def turns(n: int) -> None:
    """Lets the loop turn `n` times."""
    for _ in range(n):
        await anyio.lowlevel.checkpoint()


async def test_callers_cancelled_at_random_points_are_told_exactly_what_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    chance = random.Random(1)
    told: dict[int, bool] = {}
    async with really_opened(path) as ledger:
        await a_run(ledger, 60)

        async def take(job: Job, scope: anyio.CancelScope) -> None:
            with scope:
                await turns(chance.randrange(30))
                told[job.id] = await ledger.writer.step(STEPS["claimed"][1](job, AT + job.id))

        async def cancel(scope: anyio.CancelScope) -> None:
            await turns(chance.randrange(60))
            scope.cancel()

        async with anyio.create_task_group() as group:
            for job in await jobs_now(ledger):
                scope = anyio.CancelScope()
                group.start_soon(take, job, scope)
                group.start_soon(cancel, scope)

    in_file = {row[0] for row in dump(path)["jobs"] if row[6] == "submitting"}
    assert {job for job, applied in told.items() if applied} == in_file
    assert in_file


async def test_doors_cancelled_at_random_points_commit_wholly_or_were_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with really_opened(path):
        pass
    database = Database(path)
    chance = random.Random(2)
    left: list[int] = []

    async def write(number: int, scope: anyio.CancelScope) -> None:
        with scope:
            await turns(chance.randrange(5))
            async with database.writing() as connection:
                await connection.execute(
                    text("INSERT INTO endpoints (id, service_url, endpoint) VALUES (:n, 'u', :n)"), {"n": number}
                )
                await connection.execute(text("INSERT INTO counts VALUES (:n, 'x', 1)"), {"n": number})
            left.append(number)

    async def read(scope: anyio.CancelScope) -> None:
        with scope:
            async with database.reading() as connection:
                await connection.execute(text("SELECT count(*) FROM endpoints"))

    async def cancel(scope: anyio.CancelScope) -> None:
        await turns(chance.randrange(20))
        scope.cancel()

    async with anyio.create_task_group() as group:
        for number in range(1, 40):
            scope, other = anyio.CancelScope(), anyio.CancelScope()
            group.start_soon(write, number, scope)
            group.start_soon(cancel, scope)
            group.start_soon(read, other)
            group.start_soon(cancel, other)
    await database.aclose()

    rows = dump(path)
    assert [row[0] for row in rows["endpoints"]] == [row[0] for row in rows["counts"]] == sorted(left)


async def test_a_ledger_is_read_beside_the_one_who_works_on_it(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with really_opened(path) as ledger:
        run = await a_run(ledger, 2)
        async with read_ledger(path, clock=SystemClock()) as beside:
            assert await beside.runs.named(run.name) is not None
            assert [each.name for each in await beside.runs.all()] == ["run"]


async def test_a_reader_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with really_opened(path) as ledger:
        database = Database(file_of(ledger.address))
        with pytest.raises(StorageError, match="read-only"):
            async with database.reading() as connection:
                await connection.execute(text("DELETE FROM runs"))
        await database.aclose()


async def test_a_cancelled_writer_still_writes_what_it_was_handed(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    results: list[str] = []

    async def block(transaction: Transaction) -> str:
        return str((await transaction.connection.execute(text("SELECT 'written'"))).scalar_one())

    async with open_ledger(path, clock=SystemClock()) as ledger, anyio.create_task_group() as group:
        await group.start(ledger.writer.serve)

        async def caller() -> None:
            results.append(await ledger.writer.run(block))

        group.start_soon(caller)
        await turns(2)
        group.cancel_scope.cancel()

    assert results == ["written"]
