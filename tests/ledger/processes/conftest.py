"""A database with an empty ledger, in the server of the tests, and processes that connect to it."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest

from orchestrator.ledger.processes.processes import ProcessName
from tests.ledger.processes.place import Place
from tests.postgres.databases import Databases

Connect = Callable[[str], Coroutine[Any, Any, Any]]

FIRST, SECOND, THIRD = (ProcessName(f"process {each}", f" #{each}") for each in "abc")


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    """Its URL."""
    with databases.one() as url:
        yield url


@pytest.fixture
async def connect(url: str) -> AsyncIterator[Connect]:
    """Connects to the ledger, with the mark of a process."""
    async with AsyncExitStack() as opened:

        async def connected(mark: str) -> Any:
            driver = await asyncpg.connect(
                url, server_settings={"application_name": f"orchestrator{mark}", "lock_timeout": "200"}, timeout=10
            )
            opened.callback(driver.terminate)
            return driver

        yield connected


@pytest.fixture
async def place(url: str) -> AsyncIterator[Place]:
    """It, and processes that reach it or do not."""
    async with AsyncExitStack() as opened:
        yield Place(url, opened)
