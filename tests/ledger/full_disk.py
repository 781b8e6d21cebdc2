"""A disk that takes no more of a ledger's file for a while: SQLite itself says so, of any file system, and to anybody."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from orchestrator.ledger import Ledger
from orchestrator.ledger.sqlite.database import Database

PAGES_MAX: Final = 4_294_967_294
"""SQLite's own bound."""


@asynccontextmanager
async def full_disk(ledger: Ledger) -> AsyncIterator[None]:
    """Inside, the file of `ledger` cannot grow."""
    await fill_disk(ledger)
    try:
        yield
    finally:
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
