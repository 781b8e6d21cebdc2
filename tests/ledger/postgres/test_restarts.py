"""A server that is killed and begun anew in the middle of writing: what was confirmed is there, and there once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import anyio
import pytest
from anyio import to_thread
from sqlalchemy import text

from orchestrator.clock import SystemClock
from orchestrator.ledger.migrations import migrate_server
from orchestrator.ledger.postgres.connection import connecting
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter
from orchestrator.ledger.transactions.patience import Patience
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.postgres.interrupted_commits import PATIENCE_S, adding
from tests.postgres.server import restart, server_url

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LANES: Final = 4
RESTARTS: Final = 3
BETWEEN: Final = 300
"""So many transactions before each of them."""

_FOUND: Final = text("SELECT count(*)::bigint, coalesce(sum(n), 0)::bigint FROM counts")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The URL of a server for this test alone."""
    with server_url(tmp_path, is_durable=True) as url:
        yield url


async def test_what_was_confirmed_is_there_once_however_often_the_server_is_killed(server: str) -> None:
    database = ServerDatabase("ledger", connecting(parse_ledger_url(server)), metadata)
    await migrate_server(database)
    writer = GroupCommitWriter(database, SystemClock(), Patience(SystemClock(), PATIENCE_S), gather_s=0.0)
    confirmed = [0] * LANES
    is_over = False

    async def write(lane: int) -> None:
        while not is_over:
            await writer.run(adding(LANES * confirmed[lane] + lane))
            confirmed[lane] += 1

    async with anyio.create_task_group() as serving:
        await serving.start(writer.serve)
        async with anyio.create_task_group() as lanes:
            for lane in range(LANES):
                lanes.start_soon(write, lane)
            for n in range(RESTARTS):
                while sum(confirmed) < (n + 1) * BETWEEN:
                    await anyio.lowlevel.checkpoint()
                await to_thread.run_sync(restart, server)
            is_over = True
        serving.cancel_scope.cancel()
    found = await database.asked(_FOUND, None, lambda found: tuple(found.one()))
    await database.aclose()
    assert found == (sum(confirmed), sum(confirmed))
