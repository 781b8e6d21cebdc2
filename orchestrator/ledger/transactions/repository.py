"""What each repository of the ledger has of it: a way to read, a way to write, and the time.

Nothing of them leaves the ledger: who asks gets values.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial, wraps
from operator import attrgetter
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

import anyio
from sqlalchemy import Executable, Result
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.clock import Clock
from orchestrator.errors import LedgerUnavailableError
from orchestrator.ledger.database import CommitsOfOthers, Company, Found, LedgerDatabase, Parameters
from orchestrator.ledger.schema.row_codec import Value, values
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter
from orchestrator.ledger.transactions.transaction import Block, OnCommit, Transaction

SETTLE_S: Final = 0.02
SETTLE_S_MAX: Final = 0.25
"""How soon it is looked again whether slower transactions have ended: most take less than the first pause, and each
further one is twice as long.
"""

Written = TypeVar("Written")
Given = ParamSpec("Given")


class Access:
    """The way to one ledger, or to one view of it."""

    def __init__(
        self, database: LedgerDatabase, writer: GroupCommitWriter, clock: Clock, *, view: AsyncConnection | None = None
    ) -> None:
        self._database = database
        self._writer = writer
        self.shared: Final = SharedWrites(writer)
        self.signalling: Final = Writes(writer, Company.SHARED, is_signalled=True)
        """The same, of verbs that change what engines of other processes go by: these look afterwards."""

        self.alone: Final = Writes(writer, Company.ALONE, is_signalled=True)
        """Of verbs that decide by what they read of others: flows, groups, what commands ask for, what is removed.
        These look afterwards, too.
        """

        self.clock = clock
        self._view = view

    def within(self, view: AsyncConnection) -> "Access":
        """The same, reading what `view` sees: that of `reading`, or of a transaction."""
        return Access(self._database, self._writer, self.clock, view=view)

    def now(self) -> int:
        """The time by the ledger's clock, microseconds UTC."""
        return self.clock.now()

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """One view of the ledger, for several questions; it must be let go within a second."""
        return self._database.reading() if self._view is None else nullcontext(self._view)

    async def rows(self, query: Executable, parameters: Parameters | None = None) -> Sequence[Any]:
        """What one question is answered."""
        if self._view is None:
            return await self._asked(query, parameters, Result.all)
        return (await self._view.execute(query, parameters)).all()

    async def structs(self, kind: type[Value], query: Executable, parameters: Parameters | None = None) -> list[Value]:
        """The same, each row as a `kind` (see `values`)."""
        return values(kind, await self.rows(query, parameters))

    async def first(self, kind: type[Value], query: Executable, parameters: Parameters | None = None) -> Value | None:
        """The first of these; None without one."""
        return next(iter(await self.structs(kind, query, parameters)), None)

    async def value(self, query: Executable, parameters: Parameters | None = None) -> Any:
        """The first value of the first row; None without one."""
        if self._view is None:
            return await self._asked(query, parameters, Result.scalar)
        return (await self._view.execute(query, parameters)).scalar()

    async def horizon(self) -> int:
        """The number of an event up to which all are there that there will ever be, for who reads from now on."""
        return await self.waited(self._database.horizon)

    async def settled(self, look: Callable[[int], Awaitable[Found | None]]) -> Found:
        """What `look` finds among the events up to a number: all that there will ever be are there then. It is asked
        again, with a larger one, while that is None: those that it sees wait for a slower transaction's.
        """
        pause_s = SETTLE_S
        while True:
            found = await look(await self.horizon())
            if found is not None:
                return found
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, SETTLE_S_MAX)

    async def _asked(
        self, query: Executable, parameters: Parameters | None, found: Callable[[Result[Any]], Found]
    ) -> Found:
        try:
            return await self._database.asked(query, parameters, found)
        except LedgerUnavailableError as error:
            return await self.again(error, partial(self._database.asked, query, parameters, found))

    async def again(self, error: LedgerUnavailableError, ask: Callable[[], Awaitable[Found]]) -> Found:
        """What `ask` returns, which raised `error`, for as long as the process waits for its ledger. What was asked in
        a view of somebody else's cannot be asked again: that one is gone.
        """
        if self._view is not None:
            raise error
        return await self._writer.patience.again(error, ask)

    async def commits_of_others(self) -> int:
        """A number that is another one once anybody else has committed."""
        return (await self.signals_of_others()).all

    async def signals_of_others(self) -> CommitsOfOthers:
        """The same, and what of it was signalled."""
        return await self.waited(self._database.commits_of_others)

    async def waited(self, ask: Callable[[], Awaitable[Found]]) -> Found:
        """What `ask` returns, which may be asked again; see `again`."""
        try:
            return await ask()
        except LedgerUnavailableError as error:
            return await self.again(error, ask)

    async def give_back(self, pages: int) -> int:
        """Makes the ledger up to so many unused pages smaller; returns how many."""
        return await self._database.give_back(pages)


class Writes:
    """The way to write to one ledger, in one `company`: a verb says by it beside which others it may go on, and whether
    engines of other processes are told of it.
    """

    def __init__(self, writer: GroupCommitWriter, company: Company, *, is_signalled: bool) -> None:
        self._writer = writer
        self._company: Final = company
        self._is_signalled: Final = is_signalled

    async def write(self, block: Block[Written], then: OnCommit | None = None) -> Written:
        """Runs `block` in a transaction of the writer's. It may run twice: it builds what it returns inside.

        `then` is called after the feed has told of this transaction, and before it tells of the next one.
        """
        return await self._writer.run(block, then, company=self._company, is_signalled=self._is_signalled)

    async def execute(self, statement: Executable, parameters: Parameters | None = None) -> int:
        """One change in a transaction; returns how many rows there were to change."""

        async def block(transaction: Transaction) -> int:
            return (await transaction.connection.execute(statement, parameters)).rowcount

        return await self.write(block)

    async def returning(self, statement: Executable, parameters: Parameters | None = None) -> Sequence[Any]:
        """One change in a transaction, and what it returns."""

        async def block(transaction: Transaction) -> Sequence[Any]:
            return (await transaction.connection.execute(statement, parameters)).all()

        return await self.write(block)


class SharedWrites(Writes):
    """Of verbs that read and write only what no other process does, or add, or go by the locks of rows that they take:
    beside others that are so. Nobody elsewhere waits for what they write, but for whoever follows a run.
    """

    def __init__(self, writer: GroupCommitWriter) -> None:
        super().__init__(writer, Company.SHARED, is_signalled=False)

    async def write_briefly(self, block: Block[Written]) -> Written:
        """Runs `block` with others in one transaction: see `GroupCommitWriter.run_briefly`."""
        return await self._writer.run_briefly(block)


class Repository:
    """What a ledger has of one noun (jobs, claims ...); its methods are the verbs."""

    def __init__(self, access: Access) -> None:
        self._access = access


Of = TypeVar("Of", bound=Repository)


class HasAccess(Protocol):
    """What has a way to the ledger."""

    _access: Access


By = TypeVar("By", bound=HasAccess)


def asked_again(
    verb: Callable[Concatenate[By, Given], Awaitable[Found]],
) -> Callable[Concatenate[By, Given], Coroutine[Any, Any, Found]]:
    """Has a verb that reads in a view of its own, and does nothing else, read anew where the view was lost."""

    @wraps(verb)
    async def called(self: By, /, *args: Given.args, **kwargs: Given.kwargs) -> Found:
        try:
            return await verb(self, *args, **kwargs)
        except LedgerUnavailableError as error:
            return await self._access.again(error, partial(verb, self, *args, **kwargs))

    return called


InTransaction = Callable[Concatenate[Of, Transaction, Given], Awaitable[Written]]
Called = Callable[Concatenate[Of, Given], Coroutine[Any, Any, Written]]


def shared(verb: InTransaction[Of, Given, Written]) -> Called[Of, Given, Written]:
    """Gives a verb its transaction of the writer's, beside others (`SharedWrites`). It may run twice, so it builds what
    it returns inside itself.
    """
    return _in_transaction(verb, attrgetter("shared"))


def signalling(verb: InTransaction[Of, Given, Written]) -> Called[Of, Given, Written]:
    """The same for a verb that changes what engines of other processes go by: these look afterwards."""
    return _in_transaction(verb, attrgetter("signalling"))


def alone(verb: InTransaction[Of, Given, Written]) -> Called[Of, Given, Written]:
    """The same for a verb that decides by what it reads of others: beside none. These are told of it as well."""
    return _in_transaction(verb, attrgetter("alone"))


def _in_transaction(
    verb: InTransaction[Of, Given, Written], way: Callable[[Access], Writes]
) -> Called[Of, Given, Written]:
    @wraps(verb)
    async def called(self: Of, /, *args: Given.args, **kwargs: Given.kwargs) -> Written:
        async def block(transaction: Transaction) -> Written:
            return await verb(self, transaction, *args, **kwargs)

        return await way(self._access).write(block)

    return called
