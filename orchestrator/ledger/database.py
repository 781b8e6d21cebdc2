"""What the ledger asks of a database, whichever it is. `sqlite/` and `postgres/` each have one that can do it.

All doors shield *before* they take a connection: who is cancelled meanwhile neither leaves a transaction behind nor is
told that nothing was written when it was. Inside a door there is SQL only, and little of it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from sqlalchemy import Executable, Result
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.errors import LedgerUnavailableError

BUSY_TIMEOUT_MS: Final = 10_000
"""How long a writer waits for another process's write to end."""

NUMBER_MAX: Final = 2**63 - 1
"""No row has a larger one."""

Found = TypeVar("Found")
Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class OfOneKind:
    """A dialect of SQLAlchemy's that is like every other of its class: what one has compiled serves them all."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class Company(Enum):
    """Beside which of other processes a transaction that writes may go on. On SQLite there is only one at a time."""

    SHARED = auto()
    """Beside any that are `SHARED`: it reads and writes what nobody else does, only adds, or goes by locks of rows."""

    ALONE = auto()
    """Beside none: it decides by what it reads of others. That of a process that does not own the ledger, and may fall
    asleep within, keeps away only others that are `ALONE`.
    """

    FOR_LONG = auto()
    """Beside none, and for as long as it likes: nobody who waits for it takes it for one that stands still."""


class CommitInDoubtError(LedgerUnavailableError):
    """Whether a transaction was committed is not known. `is_committed` finds out, and may raise `StorageError` itself.

    Nothing else of ours is written before that is known.
    """

    def __init__(self, lost: LedgerUnavailableError, is_committed: Callable[[], Awaitable[bool]]) -> None:
        super().__init__(lost.found, advice=lost.advice)
        self.is_committed = is_committed


class ClashError(LedgerUnavailableError):
    """Others wrote at the same time; nothing was committed."""


class Size(NamedTuple):
    """How large a ledger is."""

    pages: int
    page_bytes: int
    free_pages: int
    """Pages that nothing uses, as far as the database tells."""


class CommitsOfOthers(NamedTuple):
    """Numbers that are others once other processes have committed something. Our own commits leave all as they are but
    `signals`.
    """

    all: int
    """Whatever it was."""

    signals: int
    """What was signalled, on a server also by engines of this process to each other: engines look, for whatever it may
    be.
    """

    notices: int
    """Notices of webhooks, which may come many a second: inboxes look."""


class LedgerDatabase(Protocol):
    """One ledger's database. Everything here raises `StorageError` where it cannot be read or written, and
    `LedgerUnavailableError` where that may pass by itself: whatever was begun then has not been written.
    """

    waited_s: float
    """So long it is worth the while of a short command to wait for a database that cannot be used just now."""

    is_guest: bool
    """Whether it is written beside whoever owns it, by a process that does not."""

    @property
    def name(self) -> str:
        """What messages call it."""

    def writing(
        self, company: Company = Company.ALONE, *, is_proved: bool = True
    ) -> AbstractAsyncContextManager[AsyncConnection]:
        """A transaction that writes, in that company; commits at the end, rolls back on any exception.

        `is_proved`: only where no other process has taken the place of this one; notices are good from anybody.

        Raises `CommitInDoubtError` where it may have been committed, and `ClashError` where it should be tried again.
        """

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """One view of the ledger for several questions, which must be let go within a second."""

    async def asked(
        self, question: Executable, parameters: Parameters | None, found: Callable[[Result[Any]], Found]
    ) -> Found:
        """What is `found` in the answer to one question, which is a view of its own."""

    async def open_readers(self) -> None:
        """Opens all connections that there will be."""

    async def commits_of_others(self) -> CommitsOfOthers:
        """What others have committed by now."""

    async def signal(self, connection: AsyncConnection, *, notices: bool = False) -> None:
        """Has engines of other processes look once the transaction of `connection` is committed, for whatever it may
        be, or for `notices` alone.
        """

    async def horizon(self) -> int:
        """The number of an event up to which all are there that there will ever be, for whoever reads from now on."""

    async def structure(self) -> int:
        """A number that is another one once anybody has changed the tables."""

    async def shrink(self) -> None:
        """Lets go of the memory in which large outputs were written."""

    async def give_back(self, pages: int) -> int:
        """Gives up to so many pages that nothing uses back to the system; returns how many it were."""

    async def damage(self) -> list[str]:
        """What is wrong with it, whatever its rows say: also rows that lack the row they belong to."""

    async def file_bytes(self) -> int:
        """What it takes of a disk."""

    async def size(self) -> Size:
        """Its pages."""

    async def compact(self) -> None:
        """Writes it anew without unused pages. Nobody else writes meanwhile."""

    async def copy_to(self, path: Path) -> None:
        """Writes all that is committed into the empty file at `path`. Raises `UsageError` where only the database's
        own programs can do that.
        """

    async def aclose(self) -> None:
        """Closes every connection."""
