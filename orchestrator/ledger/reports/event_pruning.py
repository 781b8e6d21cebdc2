"""Forgets old events and submissions (retention), a little at a time.

The history of a job that ended long ago shrinks to its last event, which says how it ended; so that the events still
replay to the state. A run's `pruned_before` is raised first: of jobs that ended before it, earlier events may be gone.
Its submissions shrink to the one that brought the outcome and the latest one, once the others can bring nothing more.
Of a resumable job that has ended the newest checkpoint is left.

Both are gone through in the order of their numbers, which is that of time: what is young is never looked at.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import Column, bindparam, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.ledger.expressions import unindexed
from orchestrator.ledger.schema.job_tables import (
    checkpoints,
    events,
    failed_executions,
    jobs,
    outcomes,
    runs,
    submissions,
)
from orchestrator.ledger.statements import IN_BATCH, ROWS, batch_of, field
from orchestrator.ledger.transactions.repository import Repository, asked_again, shared
from orchestrator.ledger.transactions.transaction import Transaction


class Doomed(msgspec.Struct, frozen=True):
    """Rows that may go, of those after one and up to `upto`; None where there are no more that are old enough."""

    ids: tuple[int, ...]
    upto: int | None


_is_old = (unindexed(jobs.c.run_id) == field(0)) & (jobs.c.ended_at < field(1))
"""Of a run in the batch, and ended before its time there. Else SQLite goes through all jobs of the run for
each page, and asks for the rows of each: half a second at a million jobs.
"""

_later = events.alias("later")
_EVENTS_DOOMED: Final = (
    select(events.c.id)
    .select_from(events.join(jobs, jobs.c.id == events.c.job_id).join(ROWS, _is_old))
    .where(
        events.c.id > bindparam("after"),
        events.c.id <= bindparam("upto"),
        select(_later.c.id).where(_later.c.job_id == events.c.job_id, _later.c.id > events.c.id).exists(),
    )
)


_SUBMISSIONS_DOOMED: Final = (
    select(submissions.c.id)
    .select_from(submissions.join(jobs, jobs.c.id == submissions.c.job_id).join(ROWS, _is_old))
    .where(
        submissions.c.id > bindparam("after"),
        submissions.c.id <= bindparam("upto"),
        submissions.c.ttl_at < bindparam("ttl_before"),
        submissions.c.cancel_at.is_(None),
        submissions.c.id.is_distinct_from(jobs.c.submission_id),
        ~select(outcomes.c.job_id)
        .where(outcomes.c.job_id == jobs.c.id, outcomes.c.submission_id == submissions.c.id)
        .exists(),
        ~select(events.c.id).where(events.c.job_id == jobs.c.id, events.c.submission_id == submissions.c.id).exists(),
    )
)


_CHECKPOINTS_DOOMED: Final = (
    select(checkpoints.c.job_id)
    .select_from(checkpoints.join(jobs, jobs.c.id == checkpoints.c.job_id))
    .where(jobs.c.ended_at.is_not(None))
    .group_by(checkpoints.c.job_id)
    .having(func.count() > 1)
    .limit(bindparam("most"))
)
_newer = checkpoints.alias("newer")
_CHECKPOINTS_DELETE: Final = delete(checkpoints).where(
    checkpoints.c.job_id.in_(IN_BATCH),
    select(_newer.c.job_id)
    .where(
        _newer.c.job_id == checkpoints.c.job_id,
        (_newer.c.segment > checkpoints.c.segment)
        | ((_newer.c.segment == checkpoints.c.segment) & (_newer.c.seq > checkpoints.c.seq)),
    )
    .exists(),
)
_PRUNED: Final = (
    update(runs).values(pruned_before=field(1)).where(runs.c.id == field(0), runs.c.pruned_before < field(1))
)
_FAILED_DELETE: Final = delete(failed_executions).where(
    failed_executions.c.job_id.in_(select(events.c.job_id).where(events.c.id.in_(IN_BATCH)))
)
"""Of a job whose earlier events go: its last one is not of an execution that another one follows."""

_EVENTS_DELETE: Final = delete(events).where(events.c.id.in_(IN_BATCH))
_SUBMISSIONS_DELETE: Final = delete(submissions).where(submissions.c.id.in_(IN_BATCH))


class Pruning(Repository):
    """What may be forgotten, and its end."""

    @asked_again
    async def events_doomed(self, before: Mapping[int, int], *, after: int, most: int) -> Doomed:
        """Which of the `most` events after `after` may go: of jobs that ended before their run's time in `before`."""
        number, at = events.c.id, events.c.at
        async with self._access.reading() as connection:
            upto = await _upto(connection, number, at, max(before.values()), after=after, most=most)
            if upto is None:
                return Doomed((), None)
            parameters = {"after": after, "upto": upto, **batch_of(before.items())}
            return Doomed(tuple((await connection.execute(_EVENTS_DOOMED, parameters)).scalars()), upto)

    @asked_again
    async def submissions_doomed(self, before: Mapping[int, int], *, ttl_before: int, after: int, most: int) -> Doomed:
        """Which of the `most` submissions after `after` may go, of jobs that ended before their run's time in `before`.

        Their TTL ended before `ttl_before`, no event tells of them any more, no `/cancel` is owed, and they are neither
        the one that brought the job's outcome nor its latest one: so the largest number stays, and none is given again.
        """
        number = submissions.c.id  # the time of its claim
        async with self._access.reading() as connection:
            upto = await _upto(connection, number, number, max(before.values()), after=after, most=most)
            if upto is None:
                return Doomed((), None)
            parameters = {"after": after, "upto": upto, "ttl_before": ttl_before, **batch_of(before.items())}
            return Doomed(tuple((await connection.execute(_SUBMISSIONS_DOOMED, parameters)).scalars()), upto)

    @shared
    async def forget_events(self, transaction: Transaction, before: Mapping[int, int], ids: Sequence[int]) -> None:
        """Deletes these events, and what the failed executions of their jobs said; and records how far back the
        histories of the runs are whole.
        """
        await transaction.connection.execute(_PRUNED, batch_of(before.items()))
        await transaction.connection.execute(_FAILED_DELETE, batch_of(ids))
        await transaction.connection.execute(_EVENTS_DELETE, batch_of(ids))

    async def forget_submissions(self, ids: Sequence[int]) -> None:
        """Deletes these submissions."""
        await self._access.shared.execute(_SUBMISSIONS_DELETE, batch_of(ids))

    async def checkpoints_doomed(self, *, most: int) -> list[int]:
        """Up to `most` jobs that have ended, and of which more is kept than the newest checkpoint."""
        return [row[0] for row in await self._access.rows(_CHECKPOINTS_DOOMED, {"most": most})]

    async def forget_checkpoints(self, jobs_: Sequence[int]) -> None:
        """Deletes all but the newest checkpoint of each of these."""
        await self._access.shared.execute(_CHECKPOINTS_DELETE, batch_of(jobs_))


async def _upto(
    connection: AsyncConnection, number: Column[int], time: Column[int], before: int, *, after: int, most: int
) -> int | None:
    """The last number on the page after `after` whose time is before `before`; None where there is none."""
    page = select(number, time).where(number > after).order_by(number).limit(most)
    return max((row[0] for row in await connection.execute(page) if row[1] < before), default=None)
