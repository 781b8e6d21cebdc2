"""A batch of what was handed over, in one transaction. It can be written again where nothing of it was committed."""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import anyio
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.transition_type import Transition, late_notice
from orchestrator.core.service.webhook_token import Notice
from orchestrator.errors import DeposedError, StorageError
from orchestrator.ledger.database import ClashError, CommitInDoubtError, Company, LedgerDatabase
from orchestrator.ledger.transactions.notice_writes import notices_add, notices_delete, unfinished_write
from orchestrator.ledger.transactions.patience import Patience
from orchestrator.ledger.transactions.transaction import QueuedWrite, Transaction
from orchestrator.units import MIB

CLASHES_MAX: Final = 5
"""So often a transaction is tried again at once that met those of others."""

WAITING_BYTES_MAX: Final = 64 * MIB
"""While so many bytes of outputs wait, no webhook is taken, whose sender comes again; nor what a process still hears
whose place another one has taken, which can ask for it. Whatever else comes waits for room much sooner.
"""

Batch = Sequence[QueuedWrite[object]]


class WrittenBatch(NamedTuple):
    """What a transaction has written."""

    steps: Sequence[Transition]
    """All that were not stale, those of blocks included."""

    taken: frozenset[int]
    """The jobs of those that were handed over as steps."""

    results: Sequence[object]
    """What the block of each entry returned."""


async def batch_write(
    database: LedgerDatabase, batch: Batch, patience: Patience, *, is_proved: bool = True
) -> WrittenBatch:
    """Writes it once, also where the answer of the database was cut. Raises `StorageError` where it was not written,
    and whatever a block raises. For `is_proved` see `LedgerDatabase.writing`.
    """
    for _ in range(CLASHES_MAX):
        try:
            return await _written_once(database, batch, patience, is_proved=is_proved)
        except ClashError:
            pass
    return await _written_once(database, batch, patience, is_proved=is_proved)


async def _written_once(database: LedgerDatabase, batch: Batch, patience: Patience, *, is_proved: bool) -> WrittenBatch:
    written: WrittenBatch | None = None
    try:
        async with database.writing(_company_of(batch), is_proved=is_proved) as connection:
            transaction = Transaction(connection)
            written = await _write(transaction, batch)
            if transaction.is_signalled or any(entry.is_signalled for entry in batch):
                await database.signal(connection)
            if any(entry.notes for entry in batch):
                await database.signal(connection, notices=True)
    except CommitInDoubtError as doubt:
        assert written is not None
        if not await patience.outlast(doubt.is_committed):
            raise doubt.copy() from doubt
    return written


def _company_of(batch: Batch) -> Company:
    """Steps, notices and what jobs were found to be are about rows that no other process writes."""
    is_alone = any(entry.company is Company.ALONE for entry in batch)
    return Company.ALONE if is_alone else Company.SHARED


async def _write(transaction: Transaction, batch: Batch) -> WrittenBatch:
    applied = await transaction.apply([step for entry in batch for step in entry.steps])
    taken = frozenset(step.before.id for step in applied)
    await _write_rest(transaction.connection, batch, taken)
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


async def leave_to_successor(database: LedgerDatabase, batch: Batch, patience: Patience, deposed: DeposedError) -> None:
    """Writes down what this process has heard, once another one has taken its place: webhooks, and what steps were made
    of. They are notices, of which that one makes what is right by now. Nothing else is written, as who waits for it is
    told.
    """
    heard = [late_notice(step) for entry in batch for step in entry.steps]
    notes = [*(notice for entry in batch for notice in entry.notes), *filter(None, heard)]
    failure = await _noted(database, notes, patience) if notes else None
    for entry in batch:
        entry.end(failure if entry.notes else deposed)


async def _noted(database: LedgerDatabase, notes: Sequence[Notice], patience: Patience) -> StorageError | None:
    """Keeps `notes`; returns why that could not be."""
    write = partial(batch_write, database, [QueuedWrite[object](notes=notes)], patience, is_proved=False)
    with anyio.CancelScope(shield=True):
        try:
            await patience.outlast(write)
        except StorageError as error:
            return error
    return None
