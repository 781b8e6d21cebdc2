"""Readers of the feed beside six who write at once, without any lock: each event comes once, in order."""

import random
from typing import Any

import anyio
import asyncpg
import pytest

from orchestrator.clock import SystemClock
from orchestrator.ledger import Ledger
from orchestrator.ledger.opening import open_ledger
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.ledger.ledgers import a_run
from tests.postgres.databases import plain_connections

pytestmark = pytest.mark.anyio

WRITERS = 6
JOBS = 20
ADD = (
    "INSERT INTO events (job_id, at, event, attempt, reason)"
    f" SELECT 1 + n % {JOBS}, 1, $2, 1, '' FROM generate_series(1, $1) n RETURNING id"
)
LAST = "cancelled"


async def write(url: str, transactions: int, chance: random.Random) -> set[int]:
    """Transactions of a few statements each, of which some are undone; returns the events that were committed."""
    committed: set[int] = set()
    connection: Any = await asyncpg.connect(url)
    me = await connection.fetchval("INSERT INTO writers DEFAULT VALUES RETURNING id")
    for _ in range(transactions):
        await connection.execute(f"BEGIN; UPDATE writers SET seq = seq + 1 WHERE id = {me}")
        added: list[int] = []
        for _ in range(chance.randrange(1, 5)):
            added += [row[0] for row in await connection.fetch(ADD, chance.randrange(1, 8), "claimed")]
        is_undone = chance.random() < 0.1
        await connection.execute("ROLLBACK" if is_undone else "COMMIT")
        if not is_undone:
            committed.update(added)
    await connection.close()
    return committed


async def read_all(ledger: Ledger, into: list[int]) -> None:
    """Until the last event of all."""
    async for page in ledger.reports.feed.after(0):
        into += [event.place for event in page]
        if page[-1].event.value == LAST:
            return


@pytest.mark.parametrize("transactions", [60, pytest.param(700, marks=pytest.mark.slow)])
async def test_readers_beside_six_writers_skip_nothing(url: str, transactions: int) -> None:
    read: list[list[int]] = [[], []]
    committed: set[int] = set()

    async def work(seed: int) -> None:
        committed.update(await write(url, transactions, random.Random(seed)))

    async with (
        open_ledger(parse_ledger_url(url), clock=SystemClock(), connect=plain_connections(url)) as ledger,
        open_ledger(parse_ledger_url(url), clock=SystemClock(), connect=plain_connections(url)) as other,
        anyio.create_task_group() as group,
    ):
        await group.start(ledger.writer.serve)
        await a_run(ledger, JOBS)
        async with anyio.create_task_group() as reading:
            reading.start_soon(read_all, ledger, read[0])
            reading.start_soon(read_all, other, read[1])
            async with anyio.create_task_group() as writing:
                for seed in range(WRITERS):
                    writing.start_soon(work, seed)
            connection: Any = await asyncpg.connect(url)
            await connection.execute("BEGIN; UPDATE writers SET seq = seq + 1")
            committed.update(row[0] for row in await connection.fetch(ADD, 1, LAST))
            await connection.execute("COMMIT")
            await connection.close()
        group.cancel_scope.cancel()
    assert read == [sorted(committed)] * 2
