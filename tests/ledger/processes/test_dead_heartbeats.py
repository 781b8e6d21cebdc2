"""What a process has said of itself counts as long as the ledger has that process, also where nobody else says more."""

from collections.abc import Iterator

import pytest

from orchestrator.clock import SystemClock
from orchestrator.ledger import command_ledger
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.processes.leases import Leases
from orchestrator.ledger.processes.processes import Processes, ProcessName, ProcessNumber
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.postgres.databases import Databases, plain_connections
from tests.postgres.owners import joins, owner_of

pytestmark = pytest.mark.anyio

KEEPER = ProcessName("process 1 on one (serve)", " #00000001")
OTHER = ProcessName("process 2 on two (serve)", " #00000002")
NEXT = ProcessName("process 3 on three (serve)", " #00000003")


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    with databases.one() as url:
        yield url


async def test_what_the_dead_have_said_is_not_shown_as_of_now_and_who_spoke_before_a_take_over_still_works(
    url: str,
) -> None:
    connect = plain_connections(url)
    driver = await connect({"application_name": f"orchestrator{NEXT.mark}"}, LineBounds())
    async with command_ledger(parse_ledger_url(url), clock=SystemClock(), connect=connect) as ledger:

        async def said(of: ProcessNumber) -> None:
            ledger.runs.heartbeats.slot, ledger.runs.heartbeats.epoch = of.slot, of.id
            await ledger.runs.heartbeats.beat(ProcessReport())

        async def at_work() -> list[int]:
            return sorted(beat.slot for beat in await ledger.beats_at_work(await ledger.holder()))

        keeper, other = await joins(driver, KEEPER), await joins(driver, OTHER)
        await Leases(driver).sighting()
        await Leases(driver).take(keeper, [0])
        await said(keeper)
        await said(other)
        assert (await ledger.holder(), await at_work()) == (None, []), "the keeper has no connection"

        later = await joins(driver, NEXT)
        assert await Processes(driver).declare_dead(await owner_of(driver))
        await Leases(driver).take(later, [0])
        assert await at_work() == [other.slot]
        assert [beat.slot for beat in await ledger.runs.heartbeats.all() if beat.is_gone] == [keeper.slot]

        await said(later)
        assert await at_work() == [other.slot, later.slot]
        again = await joins(driver, KEEPER)
        assert again.slot == keeper.slot
        assert await at_work() == [other.slot, later.slot], "what was said there is another one's"
    await driver.close()
