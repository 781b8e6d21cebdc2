"""The feed: what has happened to the jobs of a ledger since a place in it, in order, each event once.

It is read from the events, by their numbers, so it skips nothing, however slow its reader is, and holds no more than a
page in memory. Who writes in this process wakes its readers after each commit; what other processes commit is noticed
within a quarter of a second.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Final

import anyio
import msgspec
from sqlalchemy import bindparam, func, select

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.reasons import ReasonCode, reason_text
from orchestrator.core.jobs.transition import Transition
from orchestrator.ledger.schema.job_tables import events, jobs
from orchestrator.ledger.schema.row_codec import detail_of, values
from orchestrator.ledger.sqlite.database import Database
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter
from orchestrator.ledger.transactions.repository import Access

PAGE: Final = 1_000
LOOK_S: Final = 0.25
"""How often it is asked whether another process has committed anything."""


class FeedEvent(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An event of a job. `at` is microseconds UTC."""

    place: int
    """Where the feed goes on after it."""

    run: int
    job: int
    at: int
    event: Event
    submission: int | None
    attempt: int
    trouble: str | None
    text: str
    code: ReasonCode | None
    detail: str | None

    @property
    def reason(self) -> str:
        """The reason in words."""
        return reason_text(self.code or self.text, detail_of(self.detail))


_PAGE: Final = (
    select(
        events.c.id,
        jobs.c.run_id,
        events.c.job_id,
        events.c.at,
        events.c.event,
        events.c.submission_id,
        events.c.attempt,
        events.c.trouble,
        events.c.reason,
        events.c.reason_code,
        events.c.detail,
    )
    .select_from(events.join(jobs, jobs.c.id == events.c.job_id))
    .where(events.c.id > bindparam("after"))
    .order_by(events.c.id)
    .limit(PAGE)
)
_END: Final = select(func.coalesce(func.max(events.c.id), 0))


class Feed:
    """The feed of one ledger."""

    def __init__(self, access: Access, database: Database, writer: GroupCommitWriter) -> None:
        self._access = access
        self._database = database
        self._committed = anyio.Event()
        writer.subscribe(self._on_steps)

    def _on_steps(self, _taken: Sequence[Transition]) -> None:
        self._committed.set()
        self._committed = anyio.Event()

    async def end(self) -> int:
        """The place after everything that has happened until now."""
        return int(await self._access.value(_END))

    async def after(self, place: int) -> AsyncIterator[list[FeedEvent]]:
        """What has happened since `place`, a page at a time, and then whatever happens, until its reader is cancelled.

        Whoever leaves off goes on after the `place` of the last event. Raises `StorageError`.
        """
        async with aclosing(self.changes()) as changes:
            async for _ in changes:
                while page := await self._page(place):
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
                others = await self._database.commits_of_others()
            yield
            others = await self._changed(committed, others)

    async def _page(self, place: int) -> list[FeedEvent]:
        return values(FeedEvent, await self._access.rows(_PAGE, {"after": place}))

    async def _changed(self, committed: anyio.Event, others: int) -> int:
        """Returns once anybody has committed something, with the number of what others have."""
        while True:
            with anyio.move_on_after(LOOK_S):
                await committed.wait()
            found = await self._database.commits_of_others()
            if committed.is_set() or found != others:
                return found
