"""Programs of several versions at one ledger on a server: the tables are whose program works on it, and the others wait."""

from collections.abc import Iterator

import anyio
import pytest

from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.processes.processes import Processes
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION
from orchestrator.ledger.sites.server_site import OWNED_SINCE, ServerSite
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.ledger.processes.conftest import FIRST
from tests.postgres.databases import Databases
from tests.postgres.ledgers import on_virtual_time, waited_for
from tests.postgres.old_ledgers import make_older
from tests.postgres.owners import takes

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

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


async def test_whoever_works_with_an_older_version_goes_on_and_the_newer_one_waits(older: str) -> None:
    driver = await waited_for(older)({"application_name": f"orchestrator{FIRST.mark}"}, LineBounds())
    owner = await takes(driver, FIRST)
    site = ServerSite(parse_ledger_url(older), connect=waited_for(older), here=on_virtual_time())
    told, taken = list[str](), anyio.Event()

    async def take() -> None:
        async with site.holding(now=0, stands_by=told.append):
            await site.migrate()
            taken.set()

    async with anyio.create_task_group() as group:
        group.start_soon(take)
        for _ in range(WORKS_S):
            await anyio.sleep(1)
            await Processes(driver).beat(owner)
        assert not taken.is_set()
        assert [each.partition(" since ")[0] for each in told] == [FIRST.name]
        assert await driver.fetchval("SELECT version_num FROM alembic_version") == OWNED_SINCE
        await Processes(driver).leave(owner)
        await taken.wait()
    assert await driver.fetchval("SELECT version_num FROM alembic_version") == SCHEMA_VERSION
    await site.aclose()
    await driver.close()
