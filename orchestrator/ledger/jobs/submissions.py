"""Submissions: which there were, when they were sent, and which have run after all."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import TEXT, bindparam, case, func, literal, literal_column, select, update

from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.run_counters import PAID_TWICE, RAN
from orchestrator.core.service.webhook_token import Notice
from orchestrator.ledger.expressions import least
from orchestrator.ledger.schema.job_columns import job_of, select_jobs_by_submission
from orchestrator.ledger.schema.job_tables import FATE_UNKNOWN, HAS_RUN, events, jobs, submissions, values_check
from orchestrator.ledger.schema.row_codec import remote_ids_of
from orchestrator.ledger.statements import IN_BATCH, batch_of, field
from orchestrator.ledger.transactions.repository import Repository, asked_again, shared
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.count_writes import counts_add


class Sent(msgspec.Struct, frozen=True):
    """When an endpoint's submissions were answered, ascending; where no answer came, the latest time at which the
    service can have seen them.
    """

    answered: list[int]
    unanswered: list[int]


class ChunkRow(msgspec.Struct, frozen=True):
    """A row that was sent in a chunk."""

    custom_id: str
    number: int
    """Of its job."""

    submission: int
    """Its own, by which it was sent."""

    job: Job | None
    """As it is now; None where it is no longer there by that submission."""

    cancel_why: CancelWhy | None
    """Why it is to be cancelled, if it is."""


_JOBS_IN: Final = select_jobs_by_submission().where(submissions.c.chunk_id == bindparam("chunk"))
_ROWS_IN: Final = (
    select(submissions.c.id, jobs.c.id.label("number"), jobs.c.custom_id, submissions.c.cancel_why)
    .select_from(submissions.join(jobs, jobs.c.id == submissions.c.job_id))
    .where(submissions.c.chunk_id == bindparam("chunk"))
    .order_by(submissions.c.id)
)

_other = submissions.alias("other")
_BESIDE: Final = (
    select(_other.c.id)
    .select_from(events.join(_other, _other.c.id == events.c.submission_id))  # they have an index by job
    .where(
        events.c.job_id == submissions.c.job_id,
        _other.c.id != submissions.c.id,
        _other.c.ended.is_(None) | literal_column(values_check("other.ended", HAS_RUN)),
    )
    .exists()
)
_RAN: Final = (
    update(submissions)
    .values(
        ended=case((_BESIDE, literal(PAID_TWICE)), else_=literal(RAN)),
        remote_id=func.coalesce(submissions.c.remote_id, field(1, TEXT)),
        cancel_at=None,
    )
    .where(submissions.c.id == field(0), literal_column(values_check("submissions.ended", FATE_UNKNOWN)))
    .returning(submissions.c.job_id, submissions.c.ended)
)


class Submissions(Repository):
    """The submissions of a ledger."""

    async def latest(self) -> int:
        """The largest submission number so far; 0 without any."""
        return int(await self._access.value(select(func.max(submissions.c.id))) or 0)

    async def accepted_since(self, first: int, *, endpoint_id: int) -> int:
        """How many submissions to an endpoint have a remote id, from the one of number `first` on."""
        query = (
            select(func.count())
            .select_from(submissions)
            .where(
                submissions.c.id >= first,
                submissions.c.remote_id.is_not(None),
                submissions.c.endpoint_id == endpoint_id,
            )
        )
        return int(await self._access.value(query))

    async def sent_since(self, since: int, *, endpoint_id: int, now: int, answer_us: int) -> Sent:
        """The endpoint's submissions that were claimed after `since`.

        The service can have seen one until `answer_us` after its sending. No time is later than `now`.
        """
        is_answered = submissions.c.answered_at.is_not(None)
        seen_at = least(func.coalesce(submissions.c.answered_at, submissions.c.sent_at + answer_us), now)
        query = (
            select(is_answered, seen_at)
            .where(submissions.c.id > since, submissions.c.endpoint_id == endpoint_id)
            .order_by(seen_at)
        )
        found = await self._access.rows(query)
        return Sent([at for answered, at in found if answered], [at for answered, at in found if not answered])

    async def ids_given(self, since: int, *, endpoint_id: int, most: int) -> Sequence[tuple[str, int]]:
        """The latest ids, at most so many, that the service has given to the endpoint's submissions that were claimed
        after `since`, in the order of the claims, each with its job. Of a chunk, which has one id, it is the job that
        leads.
        """
        leads = submissions.c.chunk_id.is_(None) | (submissions.c.chunk_id == submissions.c.id)
        query = (
            select(submissions.c.remote_id, submissions.c.job_id)
            .where(
                submissions.c.id > since,
                submissions.c.endpoint_id == endpoint_id,
                submissions.c.remote_id.is_not(None),
                leads,
            )
            .order_by(submissions.c.id.desc())
            .limit(most)
        )
        found = await self._access.rows(query)
        return [(remote_id, job) for remote_id, job in reversed(found)]

    @asked_again
    async def in_chunk(self, chunk: int) -> list[ChunkRow]:
        """The rows that were sent by the submission `chunk`, in their order."""
        async with self._access.reading() as connection:
            sent = (await connection.execute(_ROWS_IN, {"chunk": chunk})).all()
            there = [job_of(row) for row in await connection.execute(_JOBS_IN, {"chunk": chunk})]
        now = {job.submission: job for job in there}
        return [
            ChunkRow(
                row.custom_id,
                row.number,
                row.id,
                now.get(row.id),
                None if row.cancel_why is None else CancelWhy(row.cancel_why),
            )
            for row in sent
        ]

    @shared
    async def ran(self, transaction: Transaction, told: Sequence[Notice]) -> Mapping[int, int]:
        """Submissions that were given up, of as many jobs, have run after all, as these notices tell.

        Those beside which another one of their job has run, or is at the service, are paid twice. Each is counted once,
        however often it is told; returns how many more there are by run.
        """
        connection = transaction.connection
        found = await connection.execute(_RAN, remote_ids_of(told))
        twice = [row[0] for row in found if row[1] == PAID_TWICE]
        if not twice:
            return {}
        runs = select(jobs.c.id, jobs.c.run_id).where(jobs.c.id.in_(IN_BATCH))
        more = Counter(row[1] for row in await connection.execute(runs, batch_of(twice)))
        await counts_add(connection, Counter({(run, PAID_TWICE): n for run, n in more.items()}))
        return more
