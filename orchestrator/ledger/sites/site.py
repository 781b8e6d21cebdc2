"""What can be asked of the place where a ledger lies, whichever it is."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from orchestrator.clock import Clock
from orchestrator.core.ownership.handover import EndpointsLeft
from orchestrator.ledger.administration.server_inspection import ServerInspection
from orchestrator.ledger.database import LedgerDatabase
from orchestrator.ledger.runs.intakes import IntakeRight
from orchestrator.ledger.sites.sent_marks import Boot, SentMarks
from orchestrator.ledger.sites.webhook_key import NotedKey
from orchestrator.settings.addresses.ledger_address import LedgerAddress


class LedgerPlace(Protocol):
    """The place of a ledger that is open."""

    def lost(self) -> str | None:
        """Why nothing may be sent any more, as far as is known; None where all is as it was."""


StandsBy = Callable[[str], object]
"""Called with whoever is waited for, as text for people, each time that it is another one."""


class Owners(msgspec.Struct, frozen=True):
    """Who works where on a ledger, as text for people."""

    everywhere: str | None = None
    """Who has all of it, where only one process can."""

    at: Mapping[int, str] = {}
    """Who has which endpoint, by its number, where there may be several."""

    def of(self, endpoint: int) -> str | None:
        """Who works at the endpoint of that number; None if nobody does."""
        return self.at.get(endpoint, self.everywhere)


class Ownership(Protocol):
    """That this process owns a ledger, or a part of it, which another one may take from it, should this one seem to be
    gone.
    """

    @property
    def number(self) -> int:
        """Its own among all that ever were; not 0."""

    @property
    def slot(self) -> int:
        """Its own among the processes that live: no two give the same numbers."""

    endpoints_left: EndpointsLeft
    """How owners before have left their endpoints, and how we leave them."""

    @property
    def is_successor(self) -> bool:
        """Whether the one before did not let go: requests of that one may still be on their way."""

    def may_leave(self) -> bool:
        """Whether anything may leave for a service now. Asked just before its bytes do."""


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

    async def make_room(self) -> None:
        """Makes what it has to be in, if that is not there: a schema. Raises `StorageError` where that may not be."""

    async def migrate(self) -> None:
        """Brings it to this program's schema, creating it if need be. The caller holds it.

        Raises `LedgerVersionError` for a ledger of a newer program, and otherwise as `version` does.
        """

    def holding(self, *, now: int, doing: str = "") -> AbstractAsyncContextManager[None]:
        """Makes sure that nobody else works on it while the block runs; see `holding_ledger`."""

    def holding_intake(self, run: str, *, now: int) -> AbstractAsyncContextManager[IntakeRight]:
        """Makes sure that nobody else takes rows in for a run while the block runs; see `holding_intake`."""

    async def holder(self, endpoint: int | None = None) -> str | None:
        """Who works on it now, as text for people; None if nobody does. Where there may be several: whoever has the
        endpoint of that number; without one the keeper, or, while there is none, another one that has a part.
        """

    async def owners(self, held_by: str) -> Owners:
        """Who works where, while `held_by` works on it."""

    async def taken_at(self) -> int | None:
        """When somebody last began to work on it (microseconds UTC); None where that is not known."""

    def is_locked_here(self) -> bool:
        """Whether it is this very process that works on it."""

    def refuse_abandoned(self) -> None:
        """Raises `UsageError` where this process holds it in an event loop that is closed; see `left_behind`."""

    async def accept_lost_commits(self) -> bool:
        """Whether its server had lost what it had confirmed. Nobody is kept from working on it by that any more."""

    @property
    def inspection(self) -> ServerInspection | None:
        """What there is to ask of the server on which it is; None for a file."""

    async def grants(self) -> Mapping[str, Sequence[str]]:
        """By what each is for, the statements for roles that may do just that; none for a file."""

    def place(self) -> LedgerPlace:
        """Its place as it is now that it is open."""

    def timed(self, clock: Clock) -> AbstractAsyncContextManager[Clock]:
        """The clock by which its times are told while the block runs; `clock` is that of this process."""

    def own(self) -> None:
        """Proves from now on, with whatever is written, that we hold it, where another process may take it from us."""

    @property
    def ownership(self) -> Ownership | None:
        """What there is to ask of us who hold it, after `own`; None where nobody can take it from us."""

    async def marks(self, boot: Boot, latest: Callable[[], Awaitable[int]]) -> SentMarks:
        """The marks of what may have left. `latest` asks for its latest submission."""

    def hurry(self) -> None:
        """The process ends, and cannot use it just now: whatever tries to reach it is to give up soon."""

    async def webhook_key(self, environ: Mapping[str, str]) -> bytes:
        """The key by which the tokens of webhooks are signed, made on first use.

        Raises `UsageError` where what is at the service was given tokens by another one, or another process works with
        that.
        """

    @property
    def key_notes(self) -> NotedKey | None:
        """Where it is noted whose key that is; None for a file, with which no other machine works."""

    async def aclose(self) -> None:
        """Closes its database, if it was asked for."""
