"""Submissions that are owed a `/cancel`, and the jobs that end without one.

A debt is a row, made by the transaction that finds it. A crash leaves it standing; it is settled by any answer of the
service, or by the submission's TTL, since what is past that no longer runs.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import TEXT, bindparam, func, literal_column, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.cancel_reason import BY_PEOPLE, CancelWhy
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transitions import cancelled_on_request
from orchestrator.core.service.webhook_token import Notice
from orchestrator.ledger.expressions import unindexed
from orchestrator.ledger.schema.job_columns import job_of, select_jobs
from orchestrator.ledger.schema.job_tables import jobs, runs, submissions
from orchestrator.ledger.schema.row_codec import columns, is_taken_in, remote_ids_of
from orchestrator.ledger.statements import IN_BATCH, batch_of, field
from orchestrator.ledger.transactions.repository import Repository, shared
from orchestrator.ledger.transactions.run_controls import progress_add
from orchestrator.ledger.transactions.transaction import Transaction


class OwedCancel(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A submission that is owed a `/cancel`."""

    submission: int
    job: int
    endpoint: int
    remote_id: str
    why: CancelWhy
    cancel_at: int


_beside: Any = submissions.alias("beside")
_IS_WANTED: Final = _beside.c.ended_at.is_(None) & or_(
    _beside.c.cancel_why.is_(None), _beside.c.cancel_why.not_in(sorted(BY_PEOPLE))
)
_IS_WHOLE: Final = or_(
    submissions.c.chunk_id.is_(None),
    (submissions.c.chunk_id == submissions.c.id)
    & ~select(_beside.c.id)
    .where(
        _beside.c.chunk_id == submissions.c.id,
        _beside.c.id != submissions.c.id,
        submissions.c.cancel_why.in_(sorted(BY_PEOPLE)),
        _IS_WANTED,
    )
    .exists(),
)
"""It leads no chunk, or one of which people want no row any more: a chunk is cancelled as a whole, by its lead."""

_IN_COMPANY: Final = (
    select(func.count())
    .select_from(jobs.join(submissions, submissions.c.id == jobs.c.submission_id))
    .where(
        jobs.c.id.in_(IN_BATCH),
        jobs.c.state == literal_column(f"'{State.OUTSTANDING}'"),
        submissions.c.chunk_id.is_not(None),
        select(_beside.c.id).where(_beside.c.chunk_id == submissions.c.chunk_id, _IS_WANTED).exists(),
    )
)
"""Which of these jobs travel with rows that are wanted still."""

_DUE: Final = (
    select(*columns(OwedCancel, submissions, submission=submissions.c.id, why=submissions.c.cancel_why))
    .where(
        submissions.c.cancel_at.is_not(None),
        submissions.c.remote_id.is_not(None),
        submissions.c.batch_id.is_(None),  # those are cancelled with their batch
        _IS_WHOLE,
        submissions.c.cancel_at <= bindparam("now"),
        (submissions.c.cancel_at > bindparam("at"))
        | ((submissions.c.cancel_at == bindparam("at")) & (submissions.c.id > bindparam("after"))),
    )
    .order_by(submissions.c.cancel_at, submissions.c.id)
    .limit(bindparam("most"))
)
_IS_OWED: Final = select(submissions.c.id).where(
    submissions.c.id == bindparam("submission"), submissions.c.cancel_at.is_not(None)
)
_IS_WAITED_FOR: Final = (
    select(submissions.c.id)
    .join(jobs, jobs.c.id == submissions.c.job_id)
    .where(
        submissions.c.id == bindparam("submission"),
        jobs.c.submission_id == submissions.c.id,
        jobs.c.state == literal_column(f"'{State.OUTSTANDING}'"),
    )
)
_SETTLE: Final = (
    update(submissions)
    .values(cancel_at=field(1))
    .where(submissions.c.id == field(0), submissions.c.cancel_at.is_not(None))
)
_WRITE_OFF: Final = (
    update(submissions)
    .values(cancel_at=None)
    .where(submissions.c.cancel_at.is_not(None), submissions.c.ttl_at < bindparam("now"))
)
_OWE: Final = (
    update(submissions)
    .values(cancel_at=bindparam("now"), cancel_why=bindparam("why"))
    .where(
        submissions.c.id.in_(
            select(jobs.c.submission_id).where(
                jobs.c.id.in_(IN_BATCH), jobs.c.state == literal_column(f"'{State.OUTSTANDING}'")
            )
        ),
        submissions.c.cancel_why.is_(None),
    )
    .returning(submissions.c.job_id)
)
_is_cancelled: Final = (
    select(runs.c.cancel_requested).where(runs.c.id == bindparam("run")).with_for_update(read=True).scalar_subquery()
    == 1
)
_latest: Any = (
    select(jobs.c.submission_id)
    .join(submissions, submissions.c.id == jobs.c.submission_id)
    .where(
        jobs.c.run_id == bindparam("run"),
        jobs.c.state == literal_column(f"'{State.OUTSTANDING}'"),
        or_(submissions.c.cancel_why.is_(None), submissions.c.cancel_why.not_in(sorted(BY_PEOPLE))),
        _is_cancelled,
    )
    .limit(bindparam("most"))
)
_CONTROLS_LOCKED: Final = (
    select(runs.c.pause_requested, runs.c.cancel_requested)
    .where(runs.c.id == bindparam("run"))
    .with_for_update(read=True)
)
"""Nobody has the run go on until the transaction has ended: its pipeline may be continued by another process."""

_OWE_RUN: Final = (
    update(submissions)
    .values(cancel_at=bindparam("now"), cancel_why=bindparam("why"))
    .where(submissions.c.id.in_(_latest))
)
_NAME: Final = (
    update(submissions)
    .values(remote_id=field(1, TEXT))
    .where(
        submissions.c.id == field(0),
        submissions.c.remote_id.is_(None),
        submissions.c.cancel_at.is_not(None),
        field(1, TEXT).is_not(None),
    )
)


_OWE_CHOSEN: Final = (
    update(submissions)
    .values(cancel_at=bindparam("now"), cancel_why=CancelWhy.CHOSEN.value)
    .where(
        submissions.c.id.in_(
            select(jobs.c.submission_id).where(
                jobs.c.id.in_(IN_BATCH), jobs.c.state == literal_column(f"'{State.OUTSTANDING}'")
            )
        ),
        submissions.c.cancel_why.is_distinct_from(CancelWhy.CHOSEN.value),
    )
)
_TAKE_BACK: Final = (
    update(submissions)
    .values(cancel_at=None, cancel_why=None)
    .where(
        submissions.c.cancel_at.is_not(None),
        submissions.c.cancel_why == literal_column(f"'{CancelWhy.MOVED}'"),
        submissions.c.endpoint_id == bindparam("endpoint"),
    )
)
_DROP: Final = (
    update(submissions)
    .values(cancel_at=None, cancel_why=None)
    .where(submissions.c.id == field(0), submissions.c.cancel_why == literal_column(f"'{CancelWhy.MOVED}'"))
)
_WHY: Final = select(submissions.c.cancel_why).where(submissions.c.id == bindparam("submission"))


class CancelProgress(msgspec.Struct, frozen=True):
    """What has become of jobs that were to be cancelled."""

    ended: int
    """They waited here, or nobody knows whether the service has them, and are cancelled."""

    owed: int
    """They are to be cancelled at the service."""

    submitting: tuple[int, ...]
    """Nothing can be said of these until their requests are answered; nor, where nobody knows whether the service has
    it, of single ones of a chunk."""

    in_batches: int = 0
    """So many of those that are owed are in batches, from which none can be taken alone."""

    in_company: int = 0
    """So many travel in chunks with rows that are wanted still, and come to their ends with these."""

    def plus(self, other: "CancelProgress") -> "CancelProgress":
        """Both together."""
        return CancelProgress(
            self.ended + other.ended,
            self.owed + other.owed,
            (*self.submitting, *other.submitting),
            self.in_batches + other.in_batches,
            self.in_company + other.in_company,
        )


class Cancels(Repository):
    """What is owed a `/cancel`, or is to be cancelled here."""

    async def due(self, *, now: int, after: tuple[int, int], most: int) -> list[OwedCancel]:
        """Up to `most` submissions whose `/cancel` is due and can be sent, after the one at `(cancel_at, id)`."""
        parameters = {"now": now, "at": after[0], "after": after[1], "most": most}
        return await self._access.structs(OwedCancel, _DUE, parameters)

    async def is_owed(self, submission: int) -> bool:
        """Whether a `/cancel` of this submission is owed still."""
        return bool(await self._access.rows(_IS_OWED, {"submission": submission}))

    async def is_waited_for(self, submission: int) -> bool:
        """Whether its job is to end by this submission, as far as is known: it is the latest, and at the service."""
        return bool(await self._access.rows(_IS_WAITED_FOR, {"submission": submission}))

    async def why(self, submission: int) -> CancelWhy | None:
        """Why this submission is, or was, to be cancelled; None where it is not."""
        found = await self._access.value(_WHY, {"submission": submission})
        return None if found is None else CancelWhy(found)

    async def settle(self, until: Mapping[int, int | None]) -> None:
        """Puts each submission's debt off until that time, or with None writes it off."""
        await self._access.shared.execute(_SETTLE, batch_of(until.items()))

    async def write_off(self, *, now: int) -> None:
        """Forgets the debts of submissions that the service has deleted by now."""
        await self._access.shared.execute(_WRITE_OFF, {"now": now})

    async def owe(self, ids: Collection[int], why: CancelWhy, *, now: int) -> list[int]:
        """The latest submissions of these jobs are to be cancelled; returns the jobs of which that is news.

        Only of outstanding jobs, and once for each submission.
        """
        found = await self._access.shared.returning(_OWE, {**batch_of(ids), "why": why.value, "now": now})
        return [row[0] for row in found]

    async def take_back(self, endpoint: int) -> int:
        """What was to be moved away from `endpoint`, and was not cancelled yet, stays; returns how many submissions."""
        return await self._access.shared.execute(_TAKE_BACK, {"endpoint": endpoint})

    async def drop(self, ids: Collection[int]) -> None:
        """These submissions, which were to be moved, stay where they are: they have begun."""
        await self._access.shared.execute(_DROP, batch_of((each,) for each in ids))

    async def owe_run(self, run: int, *, most: int, now: int) -> int:
        """Up to `most` outstanding jobs of `run` are to be cancelled at the service; returns of how many that is news.

        Of none where the run is to go on after all.
        """
        owed = {"run": run, "most": most, "now": now, "why": CancelWhy.ASKED.value}
        return await self._access.shared.execute(_OWE_RUN, owed)

    @shared
    async def end(self, transaction: Transaction, run: int, *, most: int) -> int:
        """Ends up to `most` jobs of `run` that are not at the service, or may not be; returns how many.

        None where the run is to go on after all.
        """
        asked = (await transaction.connection.execute(_CONTROLS_LOCKED, {"run": run})).one()
        if not asked.cancel_requested:
            return 0
        page = await _not_there(transaction.connection, run=run, most=most)
        return len(await transaction.apply([cancelled_on_request(job, at=self._access.now()) for job in page]))

    @shared
    async def cancel(self, transaction: Transaction, ids: Collection[int], *, command: int) -> CancelProgress:
        """Ends these jobs where they are not at the service, or may not be; those that are there are to be cancelled.

        One transaction, in which they count as the progress of `command`. Whoever asks twice changes nothing twice.
        """
        connection, now = transaction.connection, self._access.now()
        rows = await connection.execute(select_jobs().where(jobs.c.id.in_(IN_BATCH)), batch_of(ids))
        found = [job_of(row) for row in rows]
        waiting = [job for job in found if job.state in (State.QUEUED, State.UNCERTAIN) and not _is_unanswered(job)]
        ended = len(await transaction.apply([cancelled_on_request(job, at=now, alone=True) for job in waiting]))
        owed = (await connection.execute(_OWE_CHOSEN, {**batch_of(ids), "now": now})).rowcount
        await progress_add(connection, command, ended + owed)
        submitting = tuple(job.id for job in found if _is_unanswered(job))
        in_batches = sum(job.state is State.OUTSTANDING and job.batch is not None for job in found)
        company = (await connection.execute(_IN_COMPANY, batch_of(ids))).scalar_one()
        return CancelProgress(ended=ended, owed=owed, submitting=submitting, in_batches=in_batches, in_company=company)

    async def name(self, told: Sequence[Notice]) -> int:
        """What the service calls submissions that are owed a `/cancel`, as these notices tell; returns of how many."""
        return await self._access.shared.execute(_NAME, remote_ids_of(told))


def _is_unanswered(job: Job) -> bool:
    """Whether nothing can be said of it alone: its request is on its way, or nobody knows whether the service has its
    chunk.
    """
    return job.state is State.SUBMITTING or (job.state is State.UNCERTAIN and job.chunk_rows > 1)


_QUEUED: Final = (
    select_jobs()
    .where(
        jobs.c.run_id == bindparam("run"),
        jobs.c.state == literal_column(f"'{State.QUEUED}'"),
        is_taken_in(bindparam("run")),
    )
    .limit(bindparam("most"))
)
_UNCERTAIN: Final = (
    select_jobs()
    .where(jobs.c.state == literal_column(f"'{State.UNCERTAIN}'"), unindexed(jobs.c.run_id) == bindparam("run"))
    .order_by(jobs.c.due_at)
    .limit(bindparam("most"))
)


async def _not_there(connection: AsyncConnection, *, run: int, most: int) -> list[Job]:
    """Up to `most` jobs of `run` that the service does not hold, or of which nobody knows whether it does."""
    found = [job_of(row) for row in await connection.execute(_QUEUED, {"run": run, "most": most})]
    if len(found) < most:
        rest = await connection.execute(_UNCERTAIN, {"run": run, "most": most - len(found)})
        found += [job_of(row) for row in rest]
    return found
