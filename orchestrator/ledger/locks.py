"""Who may work on a ledger, and who takes in for which of its runs, by whatever the ledger lies on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from orchestrator.ledger.sqlite.file_locks import dispatcher_lock, intake_lock
from orchestrator.settings.addresses.ledger_address import LedgerAddress, file_of


@asynccontextmanager
async def holding_ledger(ledger: LedgerAddress, *, now: int, doing: str = "") -> AsyncIterator[None]:
    """Makes sure that nobody else works on the ledger while the block runs; `doing` is for those who ask what its
    holder does.

    Raises `LedgerBusyError`, which says who works on it, and `UsageError` where nobody can.
    """
    with dispatcher_lock(file_of(ledger), now=now, doing=doing):
        yield


@asynccontextmanager
async def holding_intake(ledger: LedgerAddress, run: str, *, now: int) -> AsyncIterator[None]:
    """Makes sure that nobody else takes rows in for the run called `run` while the block runs.

    Raises `IntakeBusyError`, which says who takes in.
    """
    with intake_lock(file_of(ledger), run, now=now):
        yield
