"""A disk that takes no more of a ledger's file for a while: SQLite itself says so, of any file system, and to anybody."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from orchestrator.ledger import Ledger
from orchestrator.ledger.sqlite.database import Database
from tests.simulation.loop import running_loop

PAGES_MAX: Final = 4_294_967_294
"""SQLite's own bound."""


@asynccontextmanager
async def full_disk(ledger: Ledger, *, most_s: float = 900.0) -> AsyncIterator[None]:
    """Inside the file of `ledger` cannot grow, for so long at most: whoever waits for room by mistake comes to an end."""
    await fill_disk(ledger)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_free_after, ledger, most_s)
            yield
            tasks.cancel_scope.cancel()
    finally:
        await _bound(ledger, PAGES_MAX)


async def _free_after(ledger: Ledger, seconds: float) -> None:
    await anyio.sleep_until(running_loop().time() + seconds)
    await _bound(ledger, PAGES_MAX)


async def fill_disk(ledger: Ledger) -> None:
    """The same until that ledger is closed."""
    [(pages,)] = await _database(ledger)._asked("PRAGMA page_count")
    await _bound(ledger, pages)


async def _bound(ledger: Ledger, pages: int) -> None:
    await _database(ledger)._asked(f"PRAGMA max_page_count = {pages}")


def _database(ledger: Ledger) -> Database:
    database = ledger._site.database
    assert isinstance(database, Database)
    return database
