"""What each repository of the ledger has of it: a way to read, a way to write, and the time.

Nothing of them leaves the ledger: who asks gets values.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeVar

from sqlalchemy import Executable, Result
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.clock import Clock
from orchestrator.ledger.sqlite.database import Database, Parameters
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter
from orchestrator.ledger.transactions.transaction import Block, OnCommit, Transaction

Written = TypeVar("Written")


class Access:
    """The way to one ledger, or to one view of it."""

    def __init__(
        self, database: Database, writer: GroupCommitWriter, clock: Clock, *, view: AsyncConnection | None = None
    ) -> None:
        self._database = database
        self._writer = writer
        self._clock = clock
        self._view = view

    def within(self, view: AsyncConnection) -> "Access":
        """The same, reading what `view` sees: that of `reading`, or of a transaction."""
        return Access(self._database, self._writer, self._clock, view=view)

    def now(self) -> int:
        """The time by the ledger's clock, microseconds UTC."""
        return self._clock.now()

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """One view of the ledger, for several questions; it must be let go within a second."""
        return self._database.reading() if self._view is None else nullcontext(self._view)

    async def rows(self, query: Executable, parameters: Parameters | None = None) -> Sequence[Any]:
        """What one question is answered."""
        if self._view is None:
            return await self._database.asked(query, parameters, Result.all)
        return (await self._view.execute(query, parameters)).all()

    async def value(self, query: Executable, parameters: Parameters | None = None) -> Any:
        """The first value of the first row; None without one."""
        if self._view is None:
            return await self._database.asked(query, parameters, Result.scalar)
        return (await self._view.execute(query, parameters)).scalar()

    async def write(self, block: Block[Written], then: OnCommit | None = None) -> Written:
        """Runs `block` in a transaction of the writer's. It may run twice: it builds what it returns inside.

        `then` is called after the feed has told of this transaction, and before it tells of the next one.
        """
        return await self._writer.run(block, then)

    async def write_briefly(self, block: Block[Written]) -> Written:
        """The same with others in one transaction: see `GroupCommitWriter.run_briefly`."""
        return await self._writer.run_briefly(block)

    async def give_back(self, pages: int) -> int:
        """Makes the ledger up to so many unused pages smaller; returns how many."""
        return await self._database.give_back(pages)

    async def execute(self, statement: Executable, parameters: Parameters | None = None) -> int:
        """One change in a transaction; returns how many rows there were to change."""

        async def block(transaction: Transaction) -> int:
            return (await transaction.connection.execute(statement, parameters)).rowcount

        return await self._writer.run(block)

    async def returning(self, statement: Executable, parameters: Parameters | None = None) -> Sequence[Any]:
        """One change in a transaction, and what it returns."""

        async def block(transaction: Transaction) -> Sequence[Any]:
            return (await transaction.connection.execute(statement, parameters)).all()

        return await self._writer.run(block)


class Repository:
    """What a ledger has of one noun (jobs, claims ...); its methods are the verbs."""

    def __init__(self, access: Access) -> None:
        self._access = access
