"""A batch of what was handed over, in one transaction. It can be written again where nothing of it was committed."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.transition_type import Transition
from orchestrator.errors import LedgerUnavailableError
from orchestrator.ledger.database import ClashError, CommitInDoubtError, Company, LedgerDatabase
from orchestrator.ledger.transactions.notice_writes import notices_add, notices_delete, unfinished_write
from orchestrator.ledger.transactions.patience import Patience
from orchestrator.ledger.transactions.transaction import QueuedWrite, Transaction

CLASHES_MAX: Final = 5
"""So often a transaction is tried again at once that met those of others."""

Batch = Sequence[QueuedWrite[object]]


class WrittenBatch(NamedTuple):
    """What a transaction has written."""

    steps: Sequence[Transition]
    """All that were not stale, those of blocks included."""

    taken: frozenset[int]
    """The jobs of those that were handed over as steps."""

    results: Sequence[object]
    """What the block of each entry returned."""


async def batch_write(database: LedgerDatabase, batch: Batch, patience: Patience) -> WrittenBatch:
    """Writes it once, also where the answer of the database was cut. Raises `StorageError` where it was not written,
    and whatever a block raises.
    """
    for _ in range(CLASHES_MAX):
        try:
            return await _written_once(database, batch, patience)
        except ClashError:
            pass
    return await _written_once(database, batch, patience)


async def _written_once(database: LedgerDatabase, batch: Batch, patience: Patience) -> WrittenBatch:
    written: WrittenBatch | None = None
    try:
        async with database.writing(_company_of(batch)) as connection:
            written = await _write(connection, batch)
    except CommitInDoubtError as doubt:
        assert written is not None
        if not await _is_committed(doubt, patience):
            raise doubt.copy() from doubt
    return written


def _company_of(batch: Batch) -> Company:
    """Steps, notices and what jobs were found to be are about rows that no other process writes."""
    is_alone = any(entry.company is Company.ALONE for entry in batch)
    return Company.ALONE if is_alone else Company.SHARED


async def _is_committed(doubt: CommitInDoubtError, patience: Patience) -> bool:
    try:
        return await doubt.is_committed()
    except LedgerUnavailableError as error:
        return await patience.again(error, doubt.is_committed)


async def _write(connection: AsyncConnection, batch: Batch) -> WrittenBatch:
    transaction = Transaction(connection)
    applied = await transaction.apply([step for entry in batch for step in entry.steps])
    taken = frozenset(step.before.id for step in applied)
    await _write_rest(connection, batch, taken)
    results: list[object] = [None] * len(batch)
    for position, entry in enumerate(batch):
        if entry.block is not None:
            results[position] = await entry.block(transaction)
    return WrittenBatch(transaction.applied, taken, results)


async def _write_rest(connection: AsyncConnection, batch: Batch, taken: frozenset[int]) -> None:
    """Notices and news of a batch in which the steps of the jobs `taken` were not stale."""
    notes = [notice for entry in batch for notice in entry.notes]
    settled = [
        settled.notice for entry in batch for settled in entry.settled if settled.job is None or settled.job in taken
    ]
    unfinished = {job.id: job for entry in batch for job in entry.unfinished}
    if notes:
        await notices_add(connection, notes)
    if settled:
        await notices_delete(connection, settled)
    if unfinished:
        await unfinished_write(connection, list(unfinished.values()))
