"""The one ledger that all pages of the process read, open once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from orchestrator.clock import Clock
from orchestrator.ledger import Connect, Ledger, holder, read_ledger


class LedgerReader:
    """Hands out the ledger at `path`. Made by `open_reader`."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self.path = path
        self._ledger = ledger

    async def ledger(self) -> Ledger:
        """The ledger, open for reading."""
        return self._ledger

    def holder(self) -> str | None:
        """Who works on it, as text."""
        return holder(self.path)


@asynccontextmanager
async def open_reader(path: Path, *, clock: Clock, connect: Connect | None = None) -> AsyncIterator[LedgerReader]:
    """What reads the ledger at `path`."""
    async with read_ledger(path, clock=clock, connect=connect) as ledger:
        yield LedgerReader(path, ledger)
