"""Who may work on a ledger, and who takes in for which of its runs, by whatever the ledger lies on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from orchestrator.ledger.runs.intakes import IntakeRight
from orchestrator.ledger.sites.site import StandsBy
from orchestrator.ledger.sites.sites import site_of
from orchestrator.settings.addresses.ledger_address import LedgerAddress, LedgerUrl

if TYPE_CHECKING:
    from orchestrator.ledger.processes.shard_owner import ShardOwner
    from orchestrator.ledger.processes.this_process import ThisProcess
    from orchestrator.ledger.sites.sites import AnyConnect


@asynccontextmanager
async def holding_ledger(ledger: LedgerAddress, *, now: int, doing: str = "") -> AsyncIterator[None]:
    """Makes sure that nobody else works on the ledger while the block runs; `doing` is for those who ask what its
    holder does.

    Raises `LedgerBusyError`, which says who works on it, and `UsageError` where nobody can.
    """
    async with site_of(ledger).holding(now=now, doing=doing):
        yield


@asynccontextmanager
async def sharing_ledger(
    ledger: LedgerUrl,
    *,
    doing: str,
    stands_by: StandsBy,
    connect: "AnyConnect | None" = None,
    here: "ThisProcess | None" = None,
    is_for_run: bool = False,
) -> AsyncIterator["ShardOwner"]:
    """This process, or the one `here`, is one of those that work on the ledger while the block runs; `is_for_run`: for
    one run of its own (`ProcessKind.FOR_RUN`). Where the ledger is to be brought to this program's schema first,
    whoever works on it is waited for; `stands_by` is called with that one.

    Raises `LedgerBusyError` where there are too many, `UsageError` where nobody can, and `LedgerUnavailableError` where
    the server cannot be reached just now.
    """
    from orchestrator.ledger.sites.shared_site import sharing_server  # noqa: PLC0415  with it comes what few need

    given: Any = connect
    async with sharing_server(
        ledger, doing=doing, stands_by=stands_by, connect=given, here=here, is_for_run=is_for_run
    ) as owner:
        yield owner


@asynccontextmanager
async def holding_intake(ledger: LedgerAddress, run: str, *, now: int) -> AsyncIterator[IntakeRight]:
    """Makes sure that nobody else takes rows in for the run called `run` while the block runs: see `IntakeRight`.

    Raises `IntakeBusyError`, which says who takes in.
    """
    async with site_of(ledger).holding_intake(run, now=now) as right:
        yield right


async def holder_of(ledger: LedgerAddress) -> str | None:
    """Who works on the ledger now, as text for people; None if nobody does. Raises `StorageError`."""
    site = site_of(ledger)
    try:
        return await site.holder()
    finally:
        await site.aclose()


async def accept_lost_commits(ledger: LedgerAddress, *, connect: "AnyConnect | None" = None) -> bool:
    """Whether the server of the ledger had lost what it had confirmed, so that nobody could work on it. From now on
    they can, and go on from what it has: what was sent meanwhile may be sent again. Raises `StorageError`.
    """
    site = site_of(ledger, connect=connect)
    try:
        return await site.version() is not None and await site.accept_lost_commits()
    finally:
        await site.aclose()


def is_locked_here(ledger: LedgerAddress) -> bool:
    """Whether it is this very process that works on the ledger."""
    return site_of(ledger).is_locked_here()


def refuse_abandoned(ledger: LedgerAddress) -> None:
    """Raises `UsageError` where this process works on the ledger in an event loop that is closed; see `left_behind`."""
    site_of(ledger).refuse_abandoned()
