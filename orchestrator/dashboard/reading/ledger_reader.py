"""The one ledger that all pages of the process read: open once, and opened anew where there is another one.

Each use looks whether the file at the path is still the one that is open, and whether it still has the tables that
this program knows: somebody may have removed it, put another one in its place, or brought it to a newer schema. What
cannot be read is said by each page until it can be.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, NamedTuple

import anyio

from orchestrator.clock import Clock
from orchestrator.errors import OrchestratorError, TookTooLongError, message_of
from orchestrator.ledger import Connect, Ledger, no_ledger, read_ledger
from orchestrator.settings.addresses.companions import file_identity
from orchestrator.settings.addresses.ledger_address import LedgerAddress

READS_AT_ONCE: Final = 4
"""So many pages are read at once; others wait for their turn."""

READ_S_MAX: Final = 1.0
"""After so long a question to the ledger is ended."""


class UnreadableError(OrchestratorError):
    """The ledger cannot be read now."""


class Version(NamedTuple):
    """Something else once anything in the ledger may be different."""

    opened: int
    commits: int


class _Open:
    """One ledger while it is open, and who uses it."""

    def __init__(self, ledger: Ledger, file: object, structure: int, number: int) -> None:
        self.ledger = ledger
        self.file = file
        self.structure = structure
        self.number = number
        self.users = 0
        self.is_over = False
        self.closing = AsyncExitStack()


class LedgerReader:
    """Hands out the ledger at `path`. Made by `open_reader`."""

    def __init__(self, path: LedgerAddress, clock: Clock, connect: Connect | None) -> None:
        self.path = path
        self._clock = clock
        self._connect = connect
        self._current: _Open | None = None
        self._opened = 0
        self._opening = anyio.Lock()
        self._places = anyio.Semaphore(READS_AT_ONCE)

    @asynccontextmanager
    async def borrowed(self) -> AsyncIterator[Ledger]:
        """The ledger, for one page. Raises `UnreadableError`, also where it turns out to be damaged, and
        `TookTooLongError`.
        """
        async with self._places, self._used() as ledger:
            yield ledger

    @asynccontextmanager
    async def _used(self) -> AsyncIterator[Ledger]:
        current = await self._fitting()
        current.users += 1
        try:
            yield current.ledger
        finally:
            current.users -= 1
            if current.is_over and not current.users:
                await current.closing.aclose()

    def now(self) -> int:
        """The time by the ledger's clock, or, as long as none is open, by that of this machine."""
        return (self._clock if self._current is None else self._current.ledger.clock).now()

    async def version(self) -> Version:
        """That of what is open. Raises as `borrowed` does."""
        current = await self._fitting()
        return Version(current.number, await current.ledger.commits_of_others())

    async def holder(self) -> str | None:
        """Who works on it, as text; None where nobody does, or it does not tell."""
        try:
            async with self._used() as ledger:
                return await ledger.holder_or_next()
        except OrchestratorError:
            return None

    async def aclose(self) -> None:
        """Closes what is open."""
        await self._leave()

    async def _fitting(self) -> _Open:
        """The ledger that is at the path now."""
        async with self._opening:
            try:
                if self._current is not None and not await self._still_fits(self._current):
                    await self._leave()
                if self._current is None:
                    self._current = await self._open()
            except TookTooLongError:
                raise
            except OrchestratorError as error:
                raise UnreadableError(message_of(error)) from error
            return self._current

    async def _still_fits(self, current: _Open) -> bool:
        return file_identity(self.path) == current.file and await current.ledger.structure() == current.structure

    async def _open(self) -> _Open:
        if (file := file_identity(self.path)) is None:
            raise no_ledger(self.path)
        async with AsyncExitStack() as stack:
            ledger = await stack.enter_async_context(
                read_ledger(self.path, clock=self._clock, connect=self._connect, patience_s=READ_S_MAX)
            )
            self._opened += 1
            made = _Open(ledger, file, await ledger.structure(), self._opened)
            made.closing = stack.pop_all()
            return made

    async def _leave(self) -> None:
        """Lets go of what is open, once the last page that reads it is done."""
        current, self._current = self._current, None
        if current is not None:
            current.is_over = True
            if not current.users:
                await current.closing.aclose()


@asynccontextmanager
async def open_reader(
    path: LedgerAddress, *, clock: Clock, connect: Connect | None = None
) -> AsyncIterator[LedgerReader]:
    """What reads the ledger at `path`, whether or not there is one yet."""
    reader = LedgerReader(path, clock, connect)
    try:
        yield reader
    finally:
        await reader.aclose()
