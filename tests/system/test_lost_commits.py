"""A standby takes the place of the server of a ledger, and lacks the last commits: a fault of `python -m tests.failover`."""

from pathlib import Path

import anyio
import pytest

from tests.failover.campaign import BESIDE_OTHERS, Campaign, Ended
from tests.failover.database import Database
from tests.failover.world import world
from tests.postgres.server import server_url
from tests.system.processes import Desk, Service

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_nothing_is_sent_again_until_somebody_accepts_that(
    desk: Desk, service: Service, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def gone_through(server: str) -> Ended:
        database = Database(server)
        await database.make()
        async with world(desk, service, database, launch=desk.launch) as there:
            campaign = Campaign(there, BESIDE_OTHERS)
            await there.begin()
            await campaign.meet("promoted", is_last=True)
            return await campaign.end(is_whole=False)

    # A server for it alone.
    with server_url(Path(tmp_path_factory.mktemp("server")), is_durable=True) as server:
        ended = anyio.run(gone_through, server)
    assert ended.wrong() == []
    assert ended.repeated_max > 0
