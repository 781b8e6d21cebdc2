"""Who works on a ledger on a server, or stands by, as anybody sees it who may read there."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from orchestrator import __version__
from orchestrator.api.inspect.doctor import doctor
from orchestrator.api.inspect.processes import processes
from orchestrator.api.pages.engine import engine_page
from orchestrator.core.diagnosis.causes import Cause
from orchestrator.ledger import read_ledger
from orchestrator.ledger.administration.present_processes import PresentProcesses
from orchestrator.ledger.processes.leases import Leases
from orchestrator.ledger.processes.processes import Processes, ProcessName
from orchestrator.ledger.sites.server_site import ServerSite
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.command_requests import DoctorRequest
from orchestrator.telemetry.metrics.process_readings import read_process
from orchestrator.telemetry.metrics.readings import Readings
from orchestrator.views.processes import ShardShown
from tests.postgres.databases import Databases, plain_connections

pytestmark = pytest.mark.anyio

RUN = (
    "INSERT INTO endpoints (service_url, endpoint, shard_id) VALUES ('u', 'a', NULL), ('u', 'b', NULL), ('u', 'c', 1);"
    " INSERT INTO runs (name, endpoint_id, source, settings, created_at) SELECT 'night', 2, '-', '{}', 0;"
    " INSERT INTO counts (run_id, name, n) VALUES (1, 'queued', 3)"
)
FIRST = ProcessName("process 7 on one (serve)", " #00000001")
SECOND = ProcessName("process 8 on two (serve)", " #00000002")


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    with databases.one() as url:
        yield url


@asynccontextmanager
async def site_at(url: str) -> AsyncIterator[ServerSite]:
    site = ServerSite(parse_ledger_url(url), connect=plain_connections(url))
    yield site
    await site.aclose()


async def seen(site: ServerSite, before: PresentProcesses) -> list[tuple[str, bool | None]]:
    found = (await site.inspection.processes()).looked_at_again(before)
    return [(each.process, each.is_beating) for each in found.processes]


async def test_each_process_is_there_with_what_it_has_and_what_nobody_has(url: str) -> None:
    driver = await asyncpg.connect(url, server_settings={"application_name": f"orchestrator {FIRST.name}{FIRST.mark}"})
    among, leases = Processes(driver), Leases(driver)
    async with site_at(url) as site:
        nobody = await site.inspection.processes()
        assert (nobody.processes, nobody.free) == ((), ())
        await driver.execute(RUN)
        assert [each.endpoints for each in (await site.inspection.processes()).free] == [("b",)]

        first, second = await among.join(FIRST), await among.join(SECOND)
        assert first is not None
        assert second is not None
        await leases.sighting()
        await leases.take(first, [0, 1])
        found = await site.inspection.processes()
        one, two = found.processes
        assert (one.process, one.version, one.is_connected, one.stands_by) == (FIRST.name, __version__, True, False)
        assert [(each.shard, each.endpoints) for each in one.shards] == [(0, ()), (1, ("a", "c"))]
        assert all(each.taken_at is not None for each in one.shards)
        assert (two.process, two.is_connected, two.stands_by, two.shards) == (SECOND.name, False, True, ())
        assert found.free == (ShardShown(shard=2, endpoints=("b",)),)

        told = Readings()
        async with read_ledger(parse_ledger_url(url), connect=plain_connections(url)) as ledger:
            await read_process(ledger, (), (), told)
            page = await engine_page(ledger, await ledger.holder(), "1h", with_rows=False)
        assert [(each.process, each.has, each.is_silent) for each in page.at_work] == [
            (FIRST.name, "schedules and flows; a, c", True),
            (SECOND.name, "stands by", False),
        ]
        assert page.remarks == ("nobody has b, where runs are not finished",)
        values = told.snapshot().values
        assert values["ledger_processes"] == {("works",): 1, ("stands_by",): 1}
        assert values["ledger_shards_unowned"] == {(): 1}

        await leases.take(first, [2])
        await leases.want(second, 2)
        assert [each.wanted_by for each in (await site.inspection.processes()).processes[0].shards] == [
            None,
            None,
            SECOND.name,
        ]
    await driver.close()


async def test_whose_beat_stands_still_is_seen_by_looking_twice(url: str) -> None:
    driver = await asyncpg.connect(url)
    among = Processes(driver)
    async with site_at(url) as site:
        first = await among.join(FIRST)
        assert first is not None
        before = await site.inspection.processes()
        await among.join(SECOND)
        assert [each.is_beating for each in before.processes] == [None]
        assert await seen(site, before) == [(FIRST.name, False), (SECOND.name, None)]
        await among.beat(first)
        assert await seen(site, before) == [(FIRST.name, True), (SECOND.name, None)]
    await driver.close()


@pytest.mark.slow
async def test_a_doctor_looks_for_some_seconds_and_tells_whoever_does_not_beat(trusted_url: str) -> None:
    driver, request = await asyncpg.connect(trusted_url), DoctorRequest(ledger=parse_ledger_url(trusted_url))
    assert await Processes(driver).join(FIRST) is not None
    [found] = (await doctor(request)).findings
    assert (found.cause, found.needs_person) == (Cause.PROCESS_SILENT, True)
    assert found.evidence == (f"{FIRST.name} has not beaten for some seconds",)
    await driver.close()


@pytest.fixture
def trusted_url(durable_databases: Databases) -> Iterator[str]:
    with durable_databases.one() as url:
        yield url


async def test_where_nobody_works_on_a_server_nobody_is_waited_for(trusted_url: str) -> None:
    found = await processes(parse_ledger_url(trusted_url))
    assert (found.processes, found.free, found.lacks) == ((), (), ())
