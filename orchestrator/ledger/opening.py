"""Opening a ledger: to work on it (with its lock, and migrated), to look at it, or to leave a word in it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from orchestrator.clock import Clock, SystemClock
from orchestrator.errors import LedgerBusyError, UsageError, leading
from orchestrator.ledger import migrations
from orchestrator.ledger.ledger import Ledger
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION, metadata
from orchestrator.ledger.sqlite.database import Connect, Database
from orchestrator.ledger.sqlite.file_locks import dispatcher_lock, holder
from orchestrator.ledger.sqlite.immutable_file import is_fixed
from orchestrator.ledger.sqlite.ledger_files import LedgerFiles
from orchestrator.ledger.sqlite.sent_marks import Boot, this_boot
from orchestrator.settings.addresses.ledger_address import LedgerAddress, file_of

if TYPE_CHECKING:
    from orchestrator.ledger.postgres.connection import Connect as ServerConnect


@asynccontextmanager
async def open_ledger(
    address: LedgerAddress, *, clock: Clock, connect: Connect | None = None, boot: Boot = this_boot
) -> AsyncIterator[Ledger]:
    """The ledger at `address`, brought to this program's schema, created if need be. The caller holds its lock.

    Raises `LedgerVersionError` for a newer one and `StorageError` where the file cannot be used.
    """
    path = file_of(address)
    await _migrate(path, connect)
    ledger = Ledger(Database(path, connect=connect), clock)
    try:
        await ledger.prepare(boot)
        yield ledger
    finally:
        await ledger.aclose()


@asynccontextmanager
async def open_server_ledger(
    url: str, *, clock: Clock, connect: "ServerConnect | None" = None
) -> AsyncIterator[Ledger]:
    """The ledger in the database at `url`, brought to this program's schema, created if need be. Nobody else serves it.

    Raises `LedgerVersionError` for a newer one and `StorageError` where it cannot be used.
    """
    from orchestrator.ledger.postgres.connection import connecting  # noqa: PLC0415  with it comes what few need
    from orchestrator.ledger.postgres.database import ServerDatabase  # noqa: PLC0415

    database = ServerDatabase(url, connect or connecting(url), metadata)
    ledger = Ledger(database, clock)
    try:
        await migrations.migrate_server(database)
        await ledger.prepare()
        yield ledger
    finally:
        await ledger.aclose()


async def _migrate_beside(path: Path, connect: Connect | None, now: int) -> None:
    """Brings it up where nobody works on it. Raises `LedgerBusyError`, which says who has to end for that."""
    try:
        with dispatcher_lock(path, now=now):
            await _migrate(path, connect)
    except LedgerBusyError:
        raise LedgerBusyError(
            f"{path}: {holder(path) or 'another process'} is working on this ledger with an older version of the"
            " program, or is bringing it up to date; where that lasts, stop it, and start it again with this version"
        ) from None


async def _migrate(path: Path, connect: Connect | None) -> None:
    """In a thread, or, where the caller's connections have none either, at once."""
    if connect is None:
        await to_thread.run_sync(migrations.migrate, path)
    else:
        migrations.migrate(path)


def no_ledger(address: LedgerAddress) -> UsageError:
    """There is none at `address`."""
    return UsageError(f"{address}: there is no ledger here; name it with <setting ledger>")


@asynccontextmanager
async def read_ledger(
    address: LedgerAddress,
    *,
    clock: Clock | None = None,
    connect: Connect | None = None,
    patience_s: float | None = None,
) -> AsyncIterator[Ledger]:
    """The ledger at `address` to look at, beside whoever works on it. Without a `clock`: by that of the system.

    With `patience_s` nothing can be written, and a question that takes longer raises `TookTooLongError`.

    One that an older program left is brought to this program's schema first. Raises `UsageError` if there is none,
    `LedgerVersionError` for a newer one, `LedgerBusyError` for an older one that somebody works on.
    """
    clock, path = clock or SystemClock(), file_of(address)
    found = migrations.version_of(path)
    if found is None:
        raise no_ledger(path)
    migrations.refuse_unknown(path, found)
    if found != SCHEMA_VERSION:
        if is_fixed(path):
            raise UsageError(f"{path}: an older version made this ledger; copy it to a folder that can be written")
        await _migrate_beside(path, connect, clock.now())
    ledger = Ledger(Database(path, connect=connect, patience_s=patience_s), clock)
    try:
        yield ledger
    finally:
        await ledger.aclose()


def is_made(address: LedgerAddress) -> bool:
    """Whether there is a ledger at `address`, of whichever version."""
    return migrations.version_of(file_of(address)) is not None


def is_ready(address: LedgerAddress) -> bool:
    """Whether there is a ledger at `address` that others have made, or brought to this program's schema.

    Raises `LedgerVersionError` for a newer one.
    """
    path = file_of(address)
    found = migrations.version_of(path)
    if found is not None:
        migrations.refuse_unknown(path, found)
    return found == SCHEMA_VERSION


@asynccontextmanager
async def command_ledger(
    address: LedgerAddress, *, clock: Clock, connect: Connect | None = None
) -> AsyncIterator[Ledger]:
    """The ledger at `address` to leave a word in, beside whoever works on it; that process notices the commit.

    For small writes, and for nothing that is a step of a job. Raises like `read_ledger`.
    """
    try:
        async with read_ledger(address, clock=clock, connect=connect) as ledger, anyio.create_task_group() as tasks:
            await tasks.start(ledger.writer.serve)
            ledger.runs.intakes.pace.is_beside = lambda: True
            await ledger.commits_of_others()  # until a connection is open, who closes the last one removes the log
            ledger.place = LedgerFiles(file_of(address))
            yield ledger
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise leading(group) from group
