"""The reads of an audit: what the tables say of each job, page by page, and what the database says of its file.

Each question is one view of the ledger, so that the audit can run beside the process at work.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import exists, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.errors import DamagedError
from orchestrator.ledger.database import LedgerDatabase
from orchestrator.ledger.expressions import joined, of_greatest
from orchestrator.ledger.schema.job_tables import counts, events, jobs, outcomes, payloads, runs, submissions
from orchestrator.ledger.schema.row_codec import checksum, columns, fitting, unpack
from orchestrator.ledger.transactions.repository import Access, asked_again
from orchestrator.ledger.transactions.run_removal import NO_JOB


class JobFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the tables say of one job."""

    job: int
    custom_id: str
    run: int
    state: str
    submission: int | None
    attempt: int
    ended_at: int | None
    has_input: bool
    submission_job: int | None
    """The job that its latest submission belongs to; None where that submission is not there."""

    remote_id: str | None
    outcome: bool
    outcome_trouble: str | None
    outcome_submission: int | None
    outcome_submission_job: int | None
    checked: bool | None
    """Whether the output has its checksum and can be unpacked; None where there is no checksum."""


class JobHistory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The events of one job."""

    job: int
    events: str
    """Their names in their order, joined by commas."""

    submission: int | None
    """This and what follows is of the last event."""

    attempt: int
    at: int


class AuditPage(msgspec.Struct, frozen=True):
    """Some jobs in the order of their numbers, with everything in that range that is or ought to be theirs."""

    jobs: Sequence[JobFacts]
    histories: Sequence[JobHistory]
    strays: Sequence[tuple[int, int]]
    """(job, submission) of events whose submission is another job's, or is not there."""


_latest = submissions.alias("latest")
_winner = submissions.alias("winner")
_lead = submissions.alias("lead")
_lead_job = jobs.alias("lead_job")
_BY_LEAD = (
    select(_lead.c.remote_id)
    .select_from(_lead.join(_lead_job, (_lead_job.c.id == _lead.c.job_id) & (_lead_job.c.submission_id == _lead.c.id)))
    .where(_lead.c.id == _latest.c.chunk_id, _lead_job.c.state == jobs.c.state)
    .scalar_subquery()
)
"""What the service calls the chunk in which a job travels, as long as who leads it is where the job is."""

_FACTS = (
    select(
        *columns(
            JobFacts,
            jobs,
            job=jobs.c.id,
            has_input=exists().where(payloads.c.job_id == jobs.c.id),
            submission_job=_latest.c.job_id,
            remote_id=func.coalesce(_latest.c.remote_id, _BY_LEAD),
            outcome=outcomes.c.job_id.is_not(None),
            outcome_trouble=outcomes.c.trouble,
            outcome_submission=outcomes.c.submission_id,
            outcome_submission_job=_winner.c.job_id,
            checked=outcomes.c.checksum,
        ),
        outcomes.c.output,
        outcomes.c.packed,
    )
    .select_from(
        jobs.outerjoin(outcomes, outcomes.c.job_id == jobs.c.id)
        .outerjoin(_latest, _latest.c.id == jobs.c.submission_id)
        .outerjoin(_winner, _winner.c.id == outcomes.c.submission_id)
    )
    .order_by(jobs.c.id)
)


_SIZES = (
    select(func.coalesce(func.length(outcomes.c.output), 0))
    .select_from(jobs.outerjoin(outcomes, outcomes.c.job_id == jobs.c.id))
    .order_by(jobs.c.id)
)


def _facts_of(row: Any) -> JobFacts:
    *_, checksum_, stored, packed = row
    facts = dict(zip(JobFacts.__struct_fields__, row, strict=False))
    checked = None if checksum_ is None else _is_whole(row.job, stored, packed, checksum_)
    return JobFacts(**{**facts, "checked": checked})


def _is_whole(job: int, stored: bytes | None, packed: int, expected: int) -> bool:
    try:
        unpack(stored or b"", packed if stored is not None else 0)
    except DamagedError:
        return False
    return checksum(job, stored) == expected


async def _stories(connection: AsyncConnection, within: Any) -> list[JobHistory]:
    ordered = select(events).where(within).order_by(events.c.job_id, events.c.id).subquery()
    query = select(
        ordered.c.job_id,
        joined(ordered.c.event, ordered.c.id),
        func.max(ordered.c.id),
        *(of_greatest(of_last, ordered.c.id) for of_last in (ordered.c.submission_id, ordered.c.attempt, ordered.c.at)),
    ).group_by(ordered.c.job_id)
    return [
        JobHistory(job=row[0], events=row[1], submission=row[3], attempt=row[4], at=row[5])
        for row in await connection.execute(query)
    ]


async def _strays(connection: AsyncConnection, within: Any) -> list[tuple[int, int]]:
    query = (
        select(events.c.job_id, events.c.submission_id)
        .distinct()
        .select_from(events.outerjoin(submissions, submissions.c.id == events.c.submission_id))
        .where(within, events.c.submission_id.is_not(None), submissions.c.job_id.is_distinct_from(events.c.job_id))
    )
    return [(row[0], row[1]) for row in await connection.execute(query)]


class SubmissionsPage(msgspec.Struct, frozen=True):
    """Some submissions in the order of their numbers: how many, the last one's number, and those of no job."""

    number: int
    last: int
    astray: Sequence[int]


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What a run's counts say, and what its rows come to, in one view."""

    run: str
    counts: dict[str, int]
    rows: dict[str, int]
    unanswered: int
    """Events of that kind that are left; those of jobs that ended before `pruned_before` may be gone."""

    pruned: bool


class Audit:
    """What an audit asks of a ledger."""

    def __init__(self, access: Access, database: LedgerDatabase) -> None:
        self._access = access
        self._database = database

    async def damage(self) -> list[str]:
        """What is wrong with the file itself, whatever its rows say."""
        return await self._database.damage()

    async def file_bytes(self) -> int:
        """The size of the ledger."""
        return await self._database.file_bytes()

    async def jobs_number(self) -> int:
        """About how many jobs there are, for those who wait: the largest number."""
        return int(await self._access.value(select(func.max(jobs.c.id))) or 0)

    @asked_again
    async def jobs_after(self, job: int, *, most: int, bytes_max: int) -> AuditPage:
        """Up to `most` jobs with a number above `job`, fewer where their outputs as stored are more than `bytes_max`.

        The last page has none, and everything that is left over.
        """
        async with self._access.reading() as connection:
            sizes = (await connection.execute(_SIZES.where(jobs.c.id > job).limit(most))).scalars().all()
            found = await connection.execute(_FACTS.where(jobs.c.id > job).limit(fitting(sizes, bytes_max)))
            facts = [_facts_of(row) for row in found]
            after = events.c.job_id > job
            within = after & (events.c.job_id <= facts[-1].job) if facts else after
            return AuditPage(facts, await _stories(connection, within), await _strays(connection, within))

    async def submissions_after(self, submission: int, *, most: int) -> SubmissionsPage:
        """Up to `most` submissions with a number above `submission`."""
        query = (
            select(submissions.c.id, jobs.c.id)
            .select_from(submissions.outerjoin(jobs, jobs.c.id == submissions.c.job_id))
            .where(submissions.c.id > submission, submissions.c.job_id != NO_JOB)
            .order_by(submissions.c.id)
            .limit(most)
        )
        rows = await self._access.rows(query)
        return SubmissionsPage(
            len(rows), rows[-1][0] if rows else submission, [row[0] for row in rows if row[1] is None]
        )

    @asked_again
    async def totals(self, run: int) -> Totals:
        """The counts of `run` beside its rows."""
        async with self._access.reading() as connection:
            query = select(runs.c.name, runs.c.intake_accepted, runs.c.pruned_before).where(runs.c.id == run)
            name, accepted, pruned_before = (await connection.execute(query)).one()
            said = await connection.execute(select(counts.c.name, counts.c.n).where(counts.c.run_id == run))
            rows = await connection.execute(
                select(jobs.c.state, func.count())
                .where(jobs.c.run_id == run, jobs.c.intake_id <= accepted)
                .group_by(jobs.c.state)
            )
            unanswered = await connection.execute(
                select(func.count())
                .select_from(
                    events.join(jobs, jobs.c.id == events.c.job_id).outerjoin(
                        submissions, submissions.c.id == events.c.submission_id
                    )
                )
                .where(
                    events.c.event == literal_column(f"'{Event.UNANSWERED}'"),
                    jobs.c.run_id == run,
                    submissions.c.chunk_id.is_(None) | (submissions.c.chunk_id == submissions.c.id),
                )
            )
        states = {state.value for state in State}
        counted = {row[0]: row[1] for row in said}
        return Totals(
            run=name,
            counts={key: n for key, n in counted.items() if key in states or key == "uncertain_seen"},
            rows={row[0]: row[1] for row in rows},
            unanswered=unanswered.scalar_one(),
            pruned=pruned_before > 0,
        )
