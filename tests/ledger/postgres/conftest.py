"""Doors to a ledger on a server of the tests."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack

import pytest

from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.schema.job_tables import metadata
from tests.postgres.databases import Databases, plain_connections

OpenDatabase = Callable[..., ServerDatabase]


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    """The URL of a database with an empty ledger."""
    with databases.one() as url:
        yield url


@pytest.fixture
async def connected(url: str) -> AsyncIterator[OpenDatabase]:
    """Makes doors to it, each like one of another process."""
    async with AsyncExitStack() as opened:

        def connect(patience_s: float | None = None) -> ServerDatabase:
            database = ServerDatabase("ledger", plain_connections(url), metadata, patience_s=patience_s)
            opened.push_async_callback(database.aclose)
            return database

        yield connect
