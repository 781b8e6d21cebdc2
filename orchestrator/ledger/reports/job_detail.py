"""Job details: all that the ledger knows of one job, for people who look into it."""

from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy import select

from orchestrator.core.filters.filter import Comparison, Text
from orchestrator.core.text.durations import with_own
from orchestrator.errors import DamagedError
from orchestrator.ledger.jobs.history import EventRow, History
from orchestrator.ledger.jobs.segments import CheckpointRow, SegmentRow, Segments
from orchestrator.ledger.reports.failed_executions import FailedExecution, FailedExecutions
from orchestrator.ledger.reports.job_queries import JobQueries
from orchestrator.ledger.reports.selected_jobs import SelectedJob
from orchestrator.ledger.schema.job_tables import endpoints, jobs, outcomes, payloads, row_metadata, submissions
from orchestrator.ledger.schema.row_codec import unpack, values
from orchestrator.ledger.sqlite.statements import IN_BATCH, batch_of
from orchestrator.ledger.transactions.repository import Access, Repository


class SubmissionRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One submission of a job. Times are microseconds UTC."""

    id: int
    remote_id: str | None
    sent_at: int
    ttl_at: int
    answered_at: int | None
    ended_at: int | None
    ended: str | None
    """The event or class of trouble that ended it."""

    cancel_why: str | None
    endpoint: str
    """Where it was sent."""


class OutcomeRow(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended."""

    remote_id: str | None
    status: str | None
    output: bytes | None
    """As it was collected; None also where it cannot be unpacked any more."""

    delay_ms: int | None
    execution_ms: int | None


class JobDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What the ledger knows of a job."""

    job: SelectedJob
    input: bytes | None
    metadata: bytes | None
    """What its row carries unsent."""

    policy: bytes | None
    """Its line's, with what it was tried again with."""

    attempts_max: int | None
    priority: int
    endpoint: str
    """Where it was sent last, or is to be sent."""

    failed_executions: list[FailedExecution]
    """Those that failed and were tried again, oldest first; of jobs that ended long ago none may be left."""

    events: list[EventRow]
    """Oldest first; of jobs that ended long ago only the last one may be left."""

    submissions: list[SubmissionRow]
    """Those that the events name, oldest first."""

    outcome: OutcomeRow | None
    segments: list[SegmentRow]
    """Of a resumable job, oldest first."""

    checkpoints: list[CheckpointRow]


_ENDPOINT: Final = select(endpoints.c.endpoint).select_from(jobs.join(endpoints, endpoints.c.id == jobs.c.endpoint_id))


class JobDetails(Repository):
    """The jobs of a ledger, one at a time."""

    async def of(self, run: int, custom_id: str) -> JobDetail | None:
        """The story of the job of `run` that the input calls so; None where there is none."""
        async with self._access.reading() as connection:
            view = self._access.within(connection)
            named = Text("id", Comparison.EQUAL, custom_id)
            page = await JobQueries(view).page(run, named, most=1)
            while not page.jobs and not page.is_last:
                page = await JobQueries(view).page(run, named, after=page.after, most=1)
            if not page.jobs:
                return None
            [job] = page.jobs
            events = await History(view).of(job.job)
            return JobDetail(
                job=job,
                input=await _input(view, job.job),
                metadata=await view.value(
                    select(row_metadata.c.metadata).where(
                        row_metadata.c.run_id == run, row_metadata.c.job_id == job.job
                    )
                ),
                policy=await _policy(view, job.job),
                attempts_max=await view.value(select(jobs.c.attempts_max).where(jobs.c.id == job.job)),
                priority=await view.value(select(jobs.c.priority).where(jobs.c.id == job.job)),
                endpoint=await view.value(_ENDPOINT.where(jobs.c.id == job.job)),
                failed_executions=await FailedExecutions(view).of_job(job.job),
                events=events,
                submissions=await _submissions(view, events),
                outcome=await _outcome(view, job.job),
                segments=await Segments(view).of_job(job.job),
                checkpoints=await Segments(view).checkpoints(job.job),
            )


async def _input(view: Access, job: int) -> bytes | None:
    query = select(payloads.c.input, payloads.c.packed).where(payloads.c.job_id == job)
    return next((_unpacked(*row) for row in await view.rows(query)), None)


async def _policy(view: Access, job: int) -> bytes | None:
    query = select(payloads.c.policy, jobs.c.policy)
    query = query.select_from(jobs.join(payloads, payloads.c.job_id == jobs.c.id))
    [(line, own)] = await view.rows(query.where(jobs.c.id == job))
    return line if own is None else with_own(line, own)


async def _submissions(view: Access, events: Sequence[EventRow]) -> list[SubmissionRow]:
    """They have no index by job, but the events name them."""
    *columns, endpoint = SubmissionRow.__struct_fields__
    query = select(*(submissions.c[name] for name in columns), endpoints.c[endpoint])
    query = query.select_from(submissions.join(endpoints, endpoints.c.id == submissions.c.endpoint_id))
    query = query.where(submissions.c.id.in_(IN_BATCH)).order_by(submissions.c.id)
    named = {event.submission for event in events if event.submission is not None}
    return values(SubmissionRow, await view.rows(query, batch_of(named)))


async def _outcome(view: Access, job: int) -> OutcomeRow | None:
    query = select(
        outcomes.c.remote_id, outcomes.c.status, outcomes.c.output, outcomes.c.packed, outcomes.c.delay_ms,
        outcomes.c.execution_ms,
    ).where(outcomes.c.job_id == job)  # fmt: skip
    for remote_id, status, output, packed, delay_ms, execution_ms in await view.rows(query):
        return OutcomeRow(
            remote_id=remote_id,
            status=status,
            output=None if output is None else _unpacked(output, packed),
            delay_ms=delay_ms,
            execution_ms=execution_ms,
        )
    return None


def _unpacked(blob: bytes, packed: int) -> bytes | None:
    try:
        return unpack(blob, packed)
    except DamagedError:
        return None
