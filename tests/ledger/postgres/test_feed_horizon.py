"""The feed of a ledger on a server skips nothing, in whichever order those commit who write at once.

They take no lock here. That one process writes at a time is no reason why the feed is right.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest

from orchestrator.api.outcomes.outcome_pages import WantedRows, ended_jobs
from orchestrator.ledger import Ledger
from orchestrator.ledger.postgres.connection import Connect, Driver, LineBounds, Settings
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.schema.job_tables import metadata
from tests.ledger.ledgers import a_run
from tests.postgres.ledgers import opened_on_server, waited_for
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ADD = "INSERT INTO events (job_id, at, event, attempt, reason) VALUES ($1, $2, $3, 1, '') RETURNING id"
READER = "feed_reader"


class Writer:
    """Who writes beside others, on a connection of its own."""

    def __init__(self, connection: Any, number: int) -> None:
        self.connection, self._number = connection, number

    async def begin(self) -> None:
        await self.connection.execute(f"BEGIN; UPDATE writers SET seq = seq + 1 WHERE id = {self._number}")

    async def add(self, job: int, event: str = "claimed") -> int:
        return int(await self.connection.fetchval(ADD, job, EPOCH_AT, event))

    async def end(self, how: str = "COMMIT") -> None:
        await self.connection.execute(how)


async def as_reader(connect: Connect, settings: Settings, bounds: LineBounds) -> Driver:
    return await connect({**settings, "role": READER}, bounds)


@asynccontextmanager
async def writers(url: str, number: int) -> AsyncIterator[list[Writer]]:
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(number):
            connection = await waited_for(url)({}, LineBounds())
            stack.push_async_callback(connection.close)
            me = await connection.fetchval("INSERT INTO writers DEFAULT VALUES RETURNING id")
            found.append(Writer(connection, me))
        yield found


async def follow(ledger: Ledger, into: list[int], *, place: int = 0) -> None:
    async for page in ledger.reports.feed.after(place):
        into += [event.place for event in page]


async def test_an_event_waits_for_those_that_a_slower_transaction_may_still_bring(url: str) -> None:
    async with (
        opened_on_server(url) as ledger,
        writers(url, 3) as (slow, undone, fast),
        anyio.create_task_group() as group,
    ):
        await a_run(ledger, 3)
        found: list[int] = []
        group.start_soon(follow, ledger, found)
        await anyio.sleep(1)  # it has looked when nobody wrote
        for each in (slow, undone, fast):
            await each.begin()
        places = [await each.add(job) for job, each in enumerate((slow, undone, fast), start=1)]
        await fast.end()
        await anyio.sleep(1)
        assert found == []
        await undone.end("ROLLBACK")
        await anyio.sleep(1)
        assert found == []
        await slow.end()
        await anyio.sleep(1)
        assert found == [places[0], places[2]]
        group.cancel_scope.cancel()


async def test_who_begins_once_others_are_at_work_skips_nothing_of_theirs(url: str) -> None:
    async with opened_on_server(url) as ledger, writers(url, 2) as (slow, fast), anyio.create_task_group() as group:
        run = await a_run(ledger, 2)
        await slow.begin()
        first = await slow.add(1)
        await fast.begin()
        await fast.add(2)
        await fast.end()
        ends: list[int] = []
        found: list[int] = []

        async def look_for_the_end() -> None:
            ends.append(await ledger.reports.feed.end())

        group.start_soon(look_for_the_end)
        place = await ledger.jobs.results.first_place(run.id)
        group.start_soon(lambda: follow(ledger, found, place=place))
        await anyio.sleep(1)
        assert (found, ends) == ([], [])
        await slow.end()
        await anyio.sleep(1)
        assert (found, ends) == ([first, first + 1], [first + 1])
        group.cancel_scope.cancel()


async def test_results_in_the_order_of_their_ends_wait_for_a_slower_one_too(url: str) -> None:
    async with opened_on_server(url) as ledger, writers(url, 2) as (slow, fast), anyio.create_task_group() as group:
        run = await a_run(ledger, 2)
        for job, each in ((1, slow), (2, fast)):
            await each.begin()
            await each.add(job, "cancelled")
            await each.connection.execute(
                "UPDATE jobs SET state = 'cancelled', trouble = 'cancelled', ended_at = 1 WHERE id = $1", job
            )
        found: list[int] = []

        async def read() -> None:
            async for _, job in ended_jobs(ledger, run.id, WantedRows.ALL):
                found.append(job.job)

        await fast.end()
        group.start_soon(read)
        await anyio.sleep(1)
        assert found == []
        await slow.end()
        await anyio.sleep(1)
        assert found == [1, 2]


async def test_nobody_waits_for_a_strangers_transaction(url: str) -> None:
    async with opened_on_server(url) as ledger, writers(url, 2) as (ours, stranger):
        await a_run(ledger)
        await stranger.connection.execute("BEGIN; CREATE TABLE others (n int); SELECT 1 FROM writers")
        await ours.begin()
        place = await ours.add(1)
        await ours.end()
        assert [event.place for event in await ledger.reports.feed.page(0)] == [place]
        await stranger.end("ROLLBACK")


async def test_who_may_only_read_sees_who_writes(url: str) -> None:
    async with opened_on_server(url) as ledger, writers(url, 2) as (slow, admin):
        await a_run(ledger)
        await admin.connection.execute(
            f"CREATE ROLE {READER}; GRANT SELECT ON writers TO {READER}; GRANT SELECT ON SEQUENCE events_id_seq TO {READER}"
        )
        reader = ServerDatabase("ledger", partial(as_reader, waited_for(url)), metadata)
        before = await reader.horizon()
        await slow.begin()
        place = await slow.add(1)
        assert (before, await reader.horizon()) == (place - 1, place - 1)
        await slow.end()
        assert await reader.horizon() == place
        await reader.aclose()
        await admin.connection.execute(f"DROP OWNED BY {READER}; DROP ROLE {READER}")
