"""Programs of several versions at one ledger on a server: the tables are whose program works on it, and the others wait."""

from collections.abc import Iterator

import anyio
import pytest

from orchestrator.errors import LedgerVersionError
from orchestrator.ledger import sharing_ledger
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.processes.leases import Leases
from orchestrator.ledger.processes.processes import Processes
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION
from orchestrator.ledger.sites.server_site import OWNED_SINCE, ServerSite
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.ledger.processes.conftest import FIRST, SECOND
from tests.postgres.databases import Databases
from tests.postgres.ledgers import on_virtual_time, waited_for
from tests.postgres.old_ledgers import make_older
from tests.postgres.owners import joins, takes

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NEWER = "UPDATE alembic_version SET version_num = '9999'"
WORKS_S = 20
"""Longer than anybody is waited for who is dead."""


@pytest.fixture
def older(databases: Databases) -> Iterator[str]:
    """The URL of a ledger that nobody has, of the oldest version whose tables say who works on it."""
    with databases.empty() as url:
        anyio.run(make_older, url, OWNED_SINCE)
        yield url


async def test_a_ledger_of_an_older_version_that_nobody_has_is_taken_and_brought_up(older: str) -> None:
    site = ServerSite(parse_ledger_url(older), connect=waited_for(older), here=on_virtual_time())
    async with site.holding(now=0):
        await site.migrate()
        assert await site.version() == SCHEMA_VERSION
        assert await site.holder() is not None
    await site.aclose()


@pytest.mark.slow
async def test_whoever_works_with_an_older_version_goes_on_and_a_newer_one_waits_and_says_for_whom(older: str) -> None:
    driver = await waited_for(older)({"application_name": f"orchestrator{FIRST.mark}"}, LineBounds())
    owner = await takes(driver, FIRST)
    told, shares = list[str](), anyio.Event()

    async def share() -> None:
        ledger, connect, here = parse_ledger_url(older), waited_for(older), on_virtual_time()
        async with sharing_ledger(ledger, doing="serve", stands_by=told.append, connect=connect, here=here):
            shares.set()

    async with anyio.create_task_group() as group:
        group.start_soon(share)
        for _ in range(WORKS_S):
            await anyio.sleep(1)
            await Processes(driver).beat(owner)
        assert not shares.is_set()
        assert [each.partition(" since ")[0] for each in told] == [FIRST.name]
        assert await driver.fetchval("SELECT version_num FROM alembic_version") == OWNED_SINCE
        await Processes(driver).leave(owner)
        await shares.wait()
    assert await driver.fetchval("SELECT version_num FROM alembic_version") == SCHEMA_VERSION
    await driver.close()


async def test_one_that_is_older_than_the_tables_takes_nothing_and_asks_for_nothing(older: str) -> None:
    driver = await waited_for(older)({}, LineBounds())
    has, comes = await takes(driver, FIRST), await joins(driver, SECOND)
    leases = Leases(driver)
    [keepers] = [each.as_taken for each in (await leases.sighting()).leases]

    await driver.execute(NEWER)
    assert not await leases.want(comes, keepers.shard)
    assert await leases.give(has, keepers, is_settled=True)
    assert await leases.take(comes, [keepers.shard]) == []
    site = ServerSite(parse_ledger_url(older), connect=waited_for(older), here=on_virtual_time())
    with pytest.raises(LedgerVersionError, match="upgrade the program"):
        async with site.holding(now=0):
            raise AssertionError("nobody may own it")
    await site.aclose()
    await driver.close()
