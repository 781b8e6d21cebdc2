"""What can be asked of the place where a ledger lies, whichever it is."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from orchestrator.clock import Clock
from orchestrator.ledger.database import LedgerDatabase
from orchestrator.ledger.sqlite.sent_marks import Boot, Marks
from orchestrator.settings.addresses.ledger_address import LedgerAddress


class LedgerPlace(Protocol):
    """The place of a ledger that is open."""

    def lost(self) -> str | None:
        """Why nothing may be sent any more, as far as is known; None where all is as it was."""

    async def look(self) -> None:
        """Sees to it that this is known soon. To be called several times a second."""


class LedgerSite(Protocol):
    """Where a ledger is, or is to be. Everything here raises `StorageError` where that cannot be used."""

    @property
    def address(self) -> LedgerAddress:
        """What people call it."""

    @property
    def database(self) -> LedgerDatabase:
        """What is in it."""

    @property
    def is_fixed(self) -> bool:
        """Whether nobody can ever write it where it is."""

    async def version(self) -> str | None:
        """The schema version of what is there; None where nothing is.

        Raises `UsageError` where something else is there, or it is no place for a ledger.
        """

    async def migrate(self) -> None:
        """Brings it to this program's schema, creating it if need be. The caller holds it.

        Raises `LedgerVersionError` for a ledger of a newer program, and otherwise as `version` does.
        """

    def holding(self, *, now: int, doing: str = "") -> AbstractAsyncContextManager[None]:
        """Makes sure that nobody else works on it while the block runs; see `holding_ledger`."""

    def holding_intake(self, run: str, *, now: int) -> AbstractAsyncContextManager[None]:
        """Makes sure that nobody else takes rows in for a run while the block runs; see `holding_intake`."""

    async def holder(self) -> str | None:
        """Who works on it now, as text for people; None if nobody does."""

    async def taken_at(self) -> int | None:
        """When somebody last began to work on it (microseconds UTC); None where that is not known."""

    def is_locked_here(self) -> bool:
        """Whether it is this very process that works on it."""

    def refuse_abandoned(self) -> None:
        """Raises `UsageError` where this process holds it in an event loop that is closed; see `left_behind`."""

    def place(self) -> LedgerPlace:
        """Its place as it is now that it is open."""

    def timed(self, clock: Clock) -> AbstractAsyncContextManager[Clock]:
        """The clock by which its times are told while the block runs; `clock` is that of this process."""

    async def marks(self, boot: Boot, *, latest: int) -> tuple[Marks, str | None]:
        """The marks of what may have left, and why they are not kept, if so. `latest` is its latest submission."""

    async def aclose(self) -> None:
        """Closes its database, if it was asked for."""
