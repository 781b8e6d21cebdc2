"""A ledger on a server as its processes hold it: one owns it, proves that with each transaction, and loses it for good."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio.lowlevel
import pytest
from sqlalchemy import text

from orchestrator.clock import SystemClock
from orchestrator.errors import DeposedError, LedgerBusyError
from orchestrator.ledger.ledger import Ledger
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.processes.leases import Leases
from orchestrator.ledger.processes.processes import ProcessName
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION
from orchestrator.ledger.sites.server_site import ServerSite
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.postgres.databases import Databases, plain_connections
from tests.postgres.old_ledgers import OLDEST, make_oldest
from tests.postgres.owners import joins, takes_over

pytestmark = pytest.mark.anyio

ADD = text("INSERT INTO counts (run_id, name, n) VALUES (1, :name, 1)")
NAMES = text("SELECT name FROM counts ORDER BY name")
ANOTHER = ProcessName("process 7 on another", " #00000000")
ME = f"process {os.getpid()} on "


@asynccontextmanager
async def site_at(url: str) -> AsyncIterator[ServerSite]:
    site = ServerSite(parse_ledger_url(url), connect=plain_connections(url))
    try:
        yield site
    finally:
        await site.aclose()


async def take_over(url: str) -> None:
    """Another process takes the place of whoever has the ledger, as if that had been silent."""
    driver = await plain_connections(url)({}, LineBounds())
    await takes_over(driver, ANOTHER)
    await driver.close()


async def written(site: ServerSite, name: str) -> list[str]:
    async with site.database.writing() as connection:
        await connection.execute(ADD, {"name": name})
        return list((await connection.execute(NAMES)).scalars())


async def test_its_owner_is_told_to_whoever_asks_or_comes_second(url: str) -> None:
    async with site_at(url) as site, site_at(url) as other:
        assert await other.holder() is None
        for _ in range(2):
            async with site.holding(now=0, doing="orchestrator serve"):
                assert site.is_locked_here()
                told = await other.holder()
                assert told is not None
                assert told.startswith(ME)
                assert " (serve) since 20" in told
                assert await other.taken_at() is not None
                with pytest.raises(LedgerBusyError) as refused:
                    async with other.holding(now=0):
                        pass
                assert f"{told} is working on this ledger; wait for it" in str(refused.value)
            assert not site.is_locked_here()
            assert await other.holder() is None


@pytest.fixture
def nowhere(databases: Databases) -> Iterator[str]:
    """The URL of a database without a ledger."""
    with databases.empty() as url:
        yield url


async def test_where_there_is_no_ledger_yet_whoever_takes_it_makes_it(nowhere: str) -> None:
    async with site_at(nowhere) as site:
        assert await site.version() is None
        async with site.holding(now=0):
            assert await site.version() is not None


OWNED_BEFORE = """
INSERT INTO processes (name, mark) VALUES ('process 3 of an older program', ' #00000003');
UPDATE leases SET owner = (SELECT id FROM processes), epoch = 1, taken_at = 0
"""


async def test_one_of_an_older_program_is_left_to_its_owner_as_long_as_that_is_connected(nowhere: str) -> None:
    await make_oldest(nowhere)
    owner = await plain_connections(nowhere)({"application_name": "orchestrator #00000003"}, LineBounds())
    await owner.execute(OWNED_BEFORE)
    async with site_at(nowhere) as site:
        with pytest.raises(
            LedgerBusyError, match=r"process 3 of an older program .* older version of the program; stop it"
        ):
            async with site.holding(now=0):
                pass
        assert await site.version() == OLDEST

        await owner.close()
        while await site.holder() is not None:
            await anyio.lowlevel.checkpoint()  # the server has yet to notice

        async with site.holding(now=0):
            assert await site.version() == SCHEMA_VERSION
            assert await site.holder() is not None


TWO_ENDPOINTS = "INSERT INTO endpoints (service_url, endpoint) VALUES ('u', 'a'), ('u', 'b'), ('u', 'c')"


async def test_of_several_each_is_told_by_the_endpoints_that_it_has_and_the_keeper_first(url: str) -> None:
    names = [ProcessName(f"process {each} on {each}", f" #0000000{each}") for each in (1, 2, 3)]
    drivers = [
        await plain_connections(url)({"application_name": f"orchestrator{each.mark}"}, LineBounds()) for each in names
    ]
    await drivers[0].execute(TWO_ENDPOINTS)
    leases = Leases(drivers[0])
    keeper, other, gone = [await joins(driver, name) for driver, name in zip(drivers, names, strict=True)]
    await leases.sighting()
    async with site_at(url) as site:
        assert (await site.holder(), (await site.owners("")).at) == (None, {})
        await leases.take(other, [2])
        assert str(await site.holder()).startswith("process 2 on 2 since 20"), "there is no keeper"
        await leases.take(keeper, [0, 1])
        await leases.take(gone, [3])
        await drivers[2].close()
        while await site.holder(3) is not None:
            await anyio.lowlevel.checkpoint()  # the server has yet to notice

        assert str(await site.holder()).startswith("process 1 on 1 since 20")
        of_each = [await site.holder(1), await site.holder(2), await site.holder(3)]
        assert [each and each.partition(" since ")[0] for each in of_each] == ["process 1 on 1", "process 2 on 2", None]
        owners = await site.owners("")
        assert [owners.of(1), owners.of(2), owners.of(3)] == of_each
        assert owners.of(99) is None
    for driver in drivers:
        await driver.close()


async def test_where_its_owner_has_died_whoever_stands_by_is_told(url: str) -> None:
    names = [ProcessName(f"process {each} on {each}", f" #0000000{each}") for each in (1, 2)]
    owner, follows = [
        await plain_connections(url)({"application_name": f"orchestrator{each.mark}"}, LineBounds()) for each in names
    ]
    number = await joins(owner, names[0])
    await Leases(owner).sighting()
    await Leases(owner).take(number, [0])
    await joins(follows, names[1])
    async with site_at(url) as site:
        ledger = Ledger(site, SystemClock())
        assert str(await ledger.holder_or_next()).startswith("process 1 on 1 since 20")
        await owner.close()
        while await ledger.holder() is not None:
            await anyio.lowlevel.checkpoint()  # the server has yet to notice
        assert str(await ledger.holder_or_next()).startswith("process 2 on 2 since 20")
        await follows.close()
        while await ledger.holder_or_next() is not None:
            await anyio.lowlevel.checkpoint()


@pytest.mark.slow
async def test_who_lost_it_writes_nothing_more_and_knows_why(url: str) -> None:
    async with site_at(url) as site, site.holding(now=0):
        site.own()
        ownership, place = site.ownership, site.place()
        assert ownership is not None
        assert not ownership.is_successor
        assert ownership.may_leave()
        assert await written(site, "a") == ["a"]

        await take_over(url)

        with pytest.raises(DeposedError):
            await written(site, "b")
        while place.lost() is None:
            await anyio.lowlevel.checkpoint()
        assert ANOTHER.name in str(place.lost())
        assert not ownership.may_leave()
        async with site_at(url) as other:  # as whoever only leaves a word
            assert await written(other, "c") == ["a", "c"]


async def test_who_does_not_own_it_proves_nothing(url: str) -> None:
    async with site_at(url) as site:
        site.own()
        assert site.ownership is None
        assert site.place().lost() is None
        assert await written(site, "a") == ["a"]
