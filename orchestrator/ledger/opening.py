"""Opening a ledger: to work on it (with its lock, and migrated), to look at it, or to leave a word in it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from orchestrator.clock import Clock, SystemClock
from orchestrator.errors import LedgerBusyError, UsageError, leading
from orchestrator.ledger.ledger import Ledger
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION
from orchestrator.ledger.schema.retirement import refuse_unknown
from orchestrator.ledger.sites.sent_marks import Boot, this_boot
from orchestrator.ledger.sites.site import LedgerSite
from orchestrator.ledger.sites.sites import site_of
from orchestrator.ledger.sites.webhook_key import key_in_use, refuse_other_key, webhook_key
from orchestrator.settings.addresses.ledger_address import LedgerAddress

if TYPE_CHECKING:
    from orchestrator.ledger.processes.this_process import ThisProcess
    from orchestrator.ledger.sites.sites import AnyConnect


@asynccontextmanager
async def open_ledger(
    address: LedgerAddress,
    *,
    clock: Clock,
    connect: "AnyConnect | None" = None,
    boot: Boot = this_boot,
    here: "ThisProcess | None" = None,
) -> AsyncIterator[Ledger]:
    """The ledger at `address`, brought to this program's schema, created if need be. The caller holds its lock, `here`
    if not in the process in which this runs.

    Raises `LedgerVersionError` for a newer one, `UsageError` where it cannot be, and `StorageError` where it cannot be
    used.
    """
    async with _opened(site_of(address, connect=connect, here=here), clock) as (site, ledger):
        await site.migrate()
        await ledger.prepare(boot)
        yield ledger


@asynccontextmanager
async def _opened(site: LedgerSite, clock: Clock) -> AsyncIterator[tuple[LedgerSite, Ledger]]:
    async with aclosing(site), site.timed(clock) as time:
        yield site, Ledger(site, time)


async def _migrate_beside(site: LedgerSite, now: int) -> None:
    """Brings it up where nobody works on it. Raises `LedgerBusyError`, which says who has to end for that."""
    try:
        async with site.holding(now=now):
            await site.migrate()
    except LedgerBusyError:
        raise LedgerBusyError(
            f"{site.address}: {await site.holder() or 'another process'} is working on this ledger with an older"
            " version of the program, or is bringing it up to date; where that lasts, stop it, and start it again with"
            " this version"
        ) from None
    finally:
        await site.aclose()


def no_ledger(address: LedgerAddress) -> UsageError:
    """There is none at `address`."""
    return UsageError(f"{address}: there is no ledger here; name it with <setting ledger>")


@asynccontextmanager
async def read_ledger(
    address: LedgerAddress,
    *,
    clock: Clock | None = None,
    connect: "AnyConnect | None" = None,
    patience_s: float | None = None,
) -> AsyncIterator[Ledger]:
    """The ledger at `address` to look at, beside whoever works on it. Without a `clock`: by that of the system.

    With `patience_s` nothing can be written, and a question that takes longer raises `TookTooLongError`.

    One that an older program left is brought to this program's schema first. Raises `UsageError` if there is none,
    `LedgerVersionError` for a newer one, `LedgerBusyError` for an older one that somebody works on.
    """
    clock = clock or SystemClock()
    async with _opened(site_of(address, connect=connect, patience_s=patience_s), clock) as (site, ledger):
        found = await site.version()
        if found is None:
            raise no_ledger(address)
        refuse_unknown(address, found)
        if found != SCHEMA_VERSION:
            if site.is_fixed:
                raise UsageError(
                    f"{address}: an older version made this ledger; copy it to a folder that can be written"
                )
            await _migrate_beside(site_of(address, connect=connect), clock.now())
        site.database.is_guest = True
        yield ledger


async def is_made(address: LedgerAddress, *, connect: "AnyConnect | None" = None) -> bool:
    """Whether there is a ledger at `address`, of whichever version."""
    return await _version_of(address, connect) is not None


async def is_ready(address: LedgerAddress, *, connect: "AnyConnect | None" = None) -> bool:
    """Whether there is a ledger at `address` that others have made, or brought to this program's schema.

    Raises `LedgerVersionError` for a newer one.
    """
    found = await _version_of(address, connect)
    refuse_unknown(address, found)
    return found == SCHEMA_VERSION


async def webhook_key_of(
    address: LedgerAddress, environ: Mapping[str, str], *, connect: "AnyConnect | None" = None
) -> bytes:
    """The key by which the tokens of the ledger's webhooks are signed. On a server nothing is noted by that. Raises
    `UsageError` where this process has another one.
    """
    site = site_of(address, connect=connect)
    try:
        notes = site.key_notes
        return webhook_key(address) if notes is None else await key_in_use(address, notes, environ)
    finally:
        await site.aclose()


async def refuse_other_webhook_key(
    address: LedgerAddress, environ: Mapping[str, str], *, connect: "AnyConnect | None" = None
) -> None:
    """Raises `UsageError` where what is at the service, or another process, has webhooks that are signed by another key
    than this one has: it could not take the place of that one.
    """
    site = site_of(address, connect=connect)
    try:
        if await site.version() == SCHEMA_VERSION and site.key_notes is not None:
            await refuse_other_key(address, site.key_notes, environ)
    finally:
        await site.aclose()


async def _version_of(address: LedgerAddress, connect: "AnyConnect | None") -> str | None:
    site = site_of(address, connect=connect)
    try:
        return await site.version()
    finally:
        await site.aclose()


@asynccontextmanager
async def command_ledger(
    address: LedgerAddress, *, clock: Clock, connect: "AnyConnect | None" = None
) -> AsyncIterator[Ledger]:
    """The ledger at `address` to leave a word in, beside whoever works on it; that process notices the commit.

    For small writes, and for nothing that is a step of a job. Raises like `read_ledger`.
    """
    try:
        async with read_ledger(address, clock=clock, connect=connect) as ledger, anyio.create_task_group() as tasks:
            await tasks.start(ledger.writer.serve)
            ledger.runs.intakes.pace.is_beside = lambda: True
            await ledger.commits_of_others()  # until a connection is open, who closes the last one removes the log
            ledger.settle()
            yield ledger
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise leading(group) from group
