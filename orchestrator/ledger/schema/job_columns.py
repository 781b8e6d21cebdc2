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


class Written(Enum):
    """When a column of `jobs` is written."""

    ONCE = auto()
    """As the row is taken in."""

    BY_EACH = auto()
    """By each transition."""

    AS_SETTING = auto()
    """By a transition that gives the job settings of its own."""

    ELSEWHERE = auto()
    """With what it belongs to: a submission, a segment."""


class JobColumn(NamedTuple):
    """The column that keeps a field of `Job`."""

    field: str
    column: ColumnElement[Any]
    written: Written
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
    JobColumn("id", jobs.c.id, Written.ONCE),
    JobColumn("run", jobs.c.run_id, Written.ONCE),
    JobColumn("endpoint", jobs.c.endpoint_id, Written.AS_SETTING),
    JobColumn("state", jobs.c.state, Written.BY_EACH, "{}.{}.value"),
    JobColumn("submission", jobs.c.submission_id, Written.BY_EACH),
    JobColumn("attempt", jobs.c.attempt, Written.BY_EACH),
    JobColumn("failures", jobs.c.failures, Written.BY_EACH),
    JobColumn("lost", jobs.c.lost, Written.BY_EACH),
    JobColumn("uncertain", jobs.c.uncertain, Written.BY_EACH),
    JobColumn("expired", jobs.c.expired, Written.BY_EACH),
    JobColumn("deferrals", jobs.c.deferrals, Written.BY_EACH),
    JobColumn("due_at", jobs.c.due_at, Written.BY_EACH),
    JobColumn("retry_until", jobs.c.retry_until, Written.BY_EACH),
    JobColumn("unfinished_at", jobs.c.unfinished_at, Written.BY_EACH),
    JobColumn("remote_id", submissions.c.remote_id, Written.ELSEWHERE),
    JobColumn("first_attempt", func.coalesce(submissions.c.attempt, 0), Written.ELSEWHERE),
    JobColumn("sent_at", submissions.c.sent_at, Written.ELSEWHERE),
    JobColumn("ttl_at", submissions.c.ttl_at, Written.ELSEWHERE),
    JobColumn("attempts_max", jobs.c.attempts_max, Written.AS_SETTING),
    JobColumn("policy", jobs.c.policy, Written.AS_SETTING),
    JobColumn("priority", jobs.c.priority, Written.ONCE),
    JobColumn("escalated", jobs.c.escalated, Written.AS_SETTING),
    JobColumn("segment", jobs.c.segment, Written.ELSEWHERE),
)

_COLUMN_OF: Final = {each.field: each.column for each in JOB_COLUMNS}


def written(when: Written) -> tuple[JobColumn, ...]:
    """The columns that are written then."""
    return tuple(each for each in JOB_COLUMNS if each.written is when)


def select_jobs() -> Select[Any]:
    """The columns of `Job`, with those that stand on its latest submission."""
    columns = [_COLUMN_OF[name] for name in Job.__struct_fields__]
    return select(*columns).select_from(jobs.outerjoin(submissions, submissions.c.id == jobs.c.submission_id))


def job_of(row: Sequence[Any]) -> Job:
    """The job in a row of `select_jobs`."""
    return msgspec.convert(tuple(row), Job)
