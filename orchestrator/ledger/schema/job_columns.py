"""Which column keeps which field of a job: what is read of jobs and what their transitions write follows from this.

Another field is one entry, besides its column, its migration and its use.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Select, func, select

from orchestrator.core.jobs.job import Job
from orchestrator.ledger.schema.job_tables import jobs, submissions


class WrittenBy(Enum):
    """What writes a column."""

    ROW = auto()
    """The row, as it is taken in."""

    TRANSITION = auto()
    """Each transition."""

    MOVE = auto()
    """A transition that has the job at another endpoint."""

    SETTINGS = auto()
    """A transition that gives the job settings of its own."""

    OTHERS = auto()
    """What it belongs to: a submission, a segment."""


class JobColumn(NamedTuple):
    """The column that keeps a field of `Job`."""

    field: str
    column: ColumnElement[Any]
    written: WrittenBy
    stored: str = "{}.{}"
    """What is stored of a job, as an expression of the job's name and the field's."""

    @property
    def name(self) -> str:
        """What the column is called."""
        assert self.column.key is not None
        return self.column.key

    def of(self, job: str) -> str:
        """The expression for what is stored of the job that is called so."""
        return self.stored.format(job, self.field)


JOB_COLUMNS: Final = (
    JobColumn("id", jobs.c.id, WrittenBy.ROW),
    JobColumn("run", jobs.c.run_id, WrittenBy.ROW),
    JobColumn("endpoint", jobs.c.endpoint_id, WrittenBy.MOVE),
    JobColumn("state", jobs.c.state, WrittenBy.TRANSITION, "{}.{}.value"),
    JobColumn("submission", jobs.c.submission_id, WrittenBy.TRANSITION),
    JobColumn("attempt", jobs.c.attempt, WrittenBy.TRANSITION),
    JobColumn("failures", jobs.c.failures, WrittenBy.TRANSITION),
    JobColumn("lost", jobs.c.lost, WrittenBy.TRANSITION),
    JobColumn("uncertain", jobs.c.uncertain, WrittenBy.TRANSITION),
    JobColumn("expired", jobs.c.expired, WrittenBy.TRANSITION),
    JobColumn("deferrals", jobs.c.deferrals, WrittenBy.TRANSITION),
    JobColumn("due_at", jobs.c.due_at, WrittenBy.TRANSITION),
    JobColumn("retry_until", jobs.c.retry_until, WrittenBy.TRANSITION),
    JobColumn("unfinished_at", jobs.c.unfinished_at, WrittenBy.TRANSITION),
    JobColumn("remote_id", submissions.c.remote_id, WrittenBy.OTHERS),
    JobColumn("first_attempt", func.coalesce(submissions.c.attempt, 0), WrittenBy.OTHERS),
    JobColumn("sent_at", submissions.c.sent_at, WrittenBy.OTHERS),
    JobColumn("ttl_at", submissions.c.ttl_at, WrittenBy.OTHERS),
    JobColumn("attempts_max", jobs.c.attempts_max, WrittenBy.SETTINGS),
    JobColumn("policy", jobs.c.policy, WrittenBy.SETTINGS),
    JobColumn("priority", jobs.c.priority, WrittenBy.ROW),
    JobColumn("escalated", jobs.c.escalated, WrittenBy.SETTINGS),
    JobColumn("segment", jobs.c.segment, WrittenBy.OTHERS),
    JobColumn("retention_us", submissions.c.retention_us, WrittenBy.OTHERS),
    JobColumn("batch", submissions.c.batch_id, WrittenBy.OTHERS),
    JobColumn("chunk", submissions.c.chunk_id, WrittenBy.OTHERS),
    JobColumn("chunk_rows", func.coalesce(submissions.c.chunk_rows, 0), WrittenBy.OTHERS),
    JobColumn("chunk_most", jobs.c.chunk_most, WrittenBy.SETTINGS),
)

_COLUMN_OF: Final = {each.field: each.column for each in JOB_COLUMNS}


def columns_written(by: WrittenBy) -> tuple[JobColumn, ...]:
    """The columns that are written by that."""
    return tuple(each for each in JOB_COLUMNS if each.written is by)


def select_jobs() -> Select[Any]:
    """The columns of `Job`, with those that stand on its latest submission."""
    columns = [_COLUMN_OF[name] for name in Job.__struct_fields__]
    return select(*columns).select_from(jobs.outerjoin(submissions, submissions.c.id == jobs.c.submission_id))


def select_jobs_by_submission() -> Select[Any]:
    """The same, found by their latest submissions."""
    columns = [_COLUMN_OF[name] for name in Job.__struct_fields__]
    is_latest = (jobs.c.id == submissions.c.job_id) & (jobs.c.submission_id == submissions.c.id)
    return select(*columns).select_from(submissions.join(jobs, is_latest))


def job_of(row: Sequence[Any]) -> Job:
    """The job in a row of `select_jobs`."""
    return msgspec.convert(tuple(row), Job)
