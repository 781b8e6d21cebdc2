"""Up to which number the events of a ledger on a server are all there that there will ever be.

Events get their numbers in one order, and are there for others in that of the commits of their transactions: who goes
on after the last one that is there skips those that a slower transaction commits later.

Every transaction that writes changes its process's row in `writers` before anything else, and so holds a lock of that
table until it has ended. Who holds one is told to everybody, and a stranger's transaction, however long, holds none.
(The horizon of the server's own snapshots waits for every transaction of every database, and who may only read is not
told which ones are ours.)
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
from sqlalchemy import Result, text

from orchestrator.ledger.postgres.tables import following_number

_FOLLOWING: Final = text(following_number("events_id_seq"))
_WRITING: Final = text(
    "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND relation = 'writers'::regclass"
)

Asked = Callable[[Any, None, Callable[[Result[Any]], Any]], Awaitable[Any]]
"""Answers one question outside of any transaction, as `LedgerDatabase.asked`."""


class FeedHorizon:
    """The horizon, as one process sees it."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._looking = anyio.Lock()
        self._last = 0
        """The last number that was given by the look before."""

        self._behind: Mapping[str, int] = {}
        """Who was writing then, each with a number up to which none is its own."""

    async def now(self) -> int:
        """Where it is; what is read from now on has all events up to it. Raises `StorageError`."""
        async with self._looking:
            last: int = await self._asked(_FOLLOWING, None, Result.scalar_one) - 1
            if last == self._last and not self._behind:
                return last
            # Only afterwards: who has one of those numbers and is not among these has ended.
            writing = await self._asked(_WRITING, None, lambda found: found.scalars().all())
            # Who was not there at the look before has begun after it, and its numbers are larger than those until then.
            self._behind = {each: self._behind.get(each, self._last) for each in writing}
            self._last = last
            return min(self._behind.values(), default=last)
