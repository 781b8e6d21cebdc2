"""Two processes listen behind one address: each webhook is answered, and counts once, whoever owns the ledger by then."""

from collections.abc import Callable, Iterator

import anyio
import pytest

from tests.failover.campaign import BESIDE_OTHERS, Campaign, Ended
from tests.failover.database import Database
from tests.failover.world import world
from tests.postgres.databases import Databases
from tests.system.processes import Desk, Service

pytestmark = [pytest.mark.system, pytest.mark.slow]

HOOKS = {"hook_tries": 30, "hook_gap_s": 1.0}
"""A webhook is tried for longer than it takes until somebody listens again."""


@pytest.fixture
def url(durable_databases: Databases) -> Iterator[str]:
    """The URL of a database with an empty ledger."""
    with durable_databases.one() as url:
        yield url


def test_each_is_answered_and_counts_once_also_while_the_owner_stands_still(
    desk: Desk, services: Callable[..., Service], url: str
) -> None:
    service = services(**HOOKS)

    async def gone_through() -> Ended:
        database = Database.at(url)
        async with world(desk, service, database, launch=desk.launch, are_listening=True) as there:
            campaign = Campaign(there, BESIDE_OTHERS)
            await there.begin()
            await campaign.meet("stopped:8", is_last=True)
            return await campaign.end(is_whole=False)

    ended = anyio.run(gone_through)
    assert ended.wrong() == []
    finished = service.counted("finished")
    service.wait("hooks_taken", finished)
    assert service.counted("hooks_taken") == finished
