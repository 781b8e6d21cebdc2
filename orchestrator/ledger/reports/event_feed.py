"""The feed: what has happened to the jobs of a ledger since a place in it, in order, each event once.

It is read from the events, by their numbers, so it skips nothing, however slow its reader is, and holds no more than a
page in memory. Who writes in this process wakes its readers after each commit; what other processes commit is noticed
within a quarter of a second. Where several may write at once, an event waits for those with smaller numbers.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Final

import anyio
from sqlalchemy import bindparam, func, select

from orchestrator.core.jobs.transition_type import Transition
from orchestrator.ledger.jobs.history import OF_EVENT, EventRow
from orchestrator.ledger.schema.job_tables import events, jobs
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter
from orchestrator.ledger.transactions.repository import Access

PAGE: Final = 1_000
LOOK_S: Final = 0.25
"""How often it is asked whether another process has committed anything."""


class FeedEvent(EventRow, frozen=True, kw_only=True, array_like=True):
    """An event of a job, with its place."""

    place: int
    """Where the feed goes on after it."""

    run: int
    job: int


_PAGE: Final = (
    select(*columns(FeedEvent, events, **OF_EVENT, place=events.c.id, run=jobs.c.run_id))
    .select_from(events.join(jobs, jobs.c.id == events.c.job_id))
    .where(events.c.id > bindparam("after"))
    .order_by(events.c.id)
    .limit(PAGE)
)
_END: Final = select(func.coalesce(func.max(events.c.id), 0))
_AT: Final = select(events.c.at).where(events.c.id == bindparam("place"))
_BY: Final = select(events.c.id).where(events.c.at <= bindparam("at")).order_by(events.c.id.desc()).limit(1)


class Feed:
    """The feed of one ledger."""

    def __init__(self, access: Access, writer: GroupCommitWriter) -> None:
        self._access = access
        self._committed = anyio.Event()
        writer.subscribe(self._on_steps)

    def _on_steps(self, _taken: Sequence[Transition]) -> None:
        self._committed.set()
        self._committed = anyio.Event()

    async def end(self) -> int:
        """The place after everything that has happened until now."""
        end = int(await self._access.value(_END))

        async def look(horizon: int) -> int | None:
            return end if end <= horizon else None

        return await self._access.settled(look)

    async def at(self, place: int) -> int | None:
        """When what stands at that place happened; None where nothing does (any more)."""
        found: int | None = await self._access.value(_AT, {"place": place})
        return found

    async def place_by(self, at: int) -> int:
        """The last place of what had happened by then: for who finds something else where they had left off, since
        numbers of events that were deleted last are given again.
        """
        return int(await self._access.value(_BY, {"at": at}) or 0)

    async def after(self, place: int) -> AsyncIterator[list[FeedEvent]]:
        """What has happened since `place`, a page at a time, and then whatever happens, until its reader is cancelled.

        Whoever leaves off goes on after the `place` of the last event. Raises `StorageError`.
        """
        async with aclosing(self.changes()) as changes:
            async for _ in changes:
                while page := await self.page(place):
                    yield page
                    place = page[-1].place

    async def changes(self) -> AsyncGenerator[None]:
        """Now, and again each time that anybody has committed something since, until its reader leaves off.

        Raises `StorageError`.
        """
        others: int | None = None
        while True:
            committed = self._committed  # before the look: what is committed during it is looked for once more
            if others is None:
                others = await self._access.commits_of_others()
            yield
            others = await self._changed(committed, others)

    async def page(self, place: int) -> list[FeedEvent]:
        """The next ones after `place`, as many as are read at once; none at the end."""

        async def look(horizon: int) -> list[FeedEvent] | None:
            page = await self._access.structs(FeedEvent, _PAGE, {"after": place})
            return [each for each in page if each.place <= horizon] or (None if page else [])

        return await self._access.settled(look)

    async def _changed(self, committed: anyio.Event, others: int) -> int:
        """Returns once anybody has committed something, with the number of what others have."""
        while True:
            with anyio.move_on_after(LOOK_S):
                await committed.wait()
            found = await self._access.commits_of_others()
            if committed.is_set() or found != others:
                return found
