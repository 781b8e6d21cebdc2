"""A ledger in a file: held by locks beside it, lost with the file."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path

from anyio import to_thread

from orchestrator.clock import Clock
from orchestrator.ledger import migrations
from orchestrator.ledger.runs.intakes import IntakeRight
from orchestrator.ledger.sites.sent_marks import Boot, SoleMarks, sole_marks_of
from orchestrator.ledger.sites.site import Owners
from orchestrator.ledger.sites.webhook_key import webhook_key
from orchestrator.ledger.sqlite import file_locks
from orchestrator.ledger.sqlite.database import Connect, Database
from orchestrator.ledger.sqlite.immutable_file import is_fixed
from orchestrator.ledger.sqlite.ledger_files import LedgerFiles


class FileSite:
    """That of the file at `address`. With `patience_s` its database is there to be read only."""

    inspection = None
    """There is no server."""

    ownership = None
    """Nobody can take it from who holds it."""

    def __init__(self, address: Path, *, connect: Connect | None = None, patience_s: float | None = None) -> None:
        self.address = address
        self._connect = connect
        self._patience_s = patience_s
        self._database: Database | None = None

    @property
    def database(self) -> Database:
        """The file, open once it is asked."""
        if self._database is None:
            self._database = Database(self.address, connect=self._connect, patience_s=self._patience_s)
        return self._database

    def hurry(self) -> None:
        """Nothing: a file is there at once, or not at all."""

    async def webhook_key(self, environ: Mapping[str, str]) -> bytes:  # noqa: ARG002  a file is one machine's
        """That in the file beside it."""
        return webhook_key(self.address)

    @property
    def key_notes(self) -> None:
        """Nowhere: whoever comes second to a file is refused anyhow."""
        return

    async def aclose(self) -> None:
        """Closes its database, if it was asked for."""
        if self._database is not None:
            await self._database.aclose()

    @property
    def is_fixed(self) -> bool:
        """Whether its folder cannot be written."""
        return is_fixed(self.address)

    async def version(self) -> str | None:
        """That of the file; None for one that is new or empty. Raises `UsageError` for what is no ledger."""
        return migrations.version_of(self.address)

    async def make_room(self) -> None:
        """Nothing: its folder is people's affair."""

    async def migrate(self) -> None:
        """In a thread, or, where the caller's connections have none either, at once."""
        if self._connect is None:
            await to_thread.run_sync(migrations.migrate, self.address)
        else:
            migrations.migrate(self.address)

    @asynccontextmanager
    async def holding(self, *, now: int, doing: str = "") -> AsyncIterator[None]:
        """By the lock beside it."""
        with file_locks.dispatcher_lock(self.address, now=now, doing=doing):
            yield

    @asynccontextmanager
    async def holding_intake(self, run: str, *, now: int) -> AsyncIterator[IntakeRight]:
        """By a lock of its own."""
        with file_locks.intake_lock(self.address, run, now=now):
            yield IntakeRight()

    async def holder(self, endpoint: int | None = None) -> str | None:  # noqa: ARG002  one has all
        """As the lock says."""
        return file_locks.holder(self.address)

    async def owners(self, held_by: str) -> Owners:
        """It is one everywhere."""
        return Owners(everywhere=held_by)

    async def taken_at(self) -> int | None:
        """As the lock says, also if nobody holds it any more."""
        return file_locks.locked_since(self.address)

    def is_locked_here(self) -> bool:
        """Whether the lock is ours."""
        return file_locks.is_file_locked_here(self.address)

    def refuse_abandoned(self) -> None:
        """See `left_behind`."""
        file_locks.refuse_abandoned_file(self.address)

    async def accept_lost_commits(self) -> bool:
        """It has no server."""
        return False

    async def grants(self) -> Mapping[str, Sequence[str]]:
        """None."""
        return {}

    def place(self) -> LedgerFiles:
        """Its files, as they are."""
        return LedgerFiles(self.address)

    def timed(self, clock: Clock) -> AbstractAsyncContextManager[Clock]:
        """This machine's: nobody else's uses the file."""
        return nullcontext(clock)

    def own(self) -> None:
        """Nothing: the lock is ours until we end."""

    async def marks(self, boot: Boot, latest: Callable[[], Awaitable[int]]) -> SoleMarks:
        """Those in the file beside it."""
        return await sole_marks_of(self.address, self.database, boot(), latest=await latest())
