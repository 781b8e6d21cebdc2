"""Segments: how far resumable jobs have come, with their checkpoints, for those who collect, decide and look."""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from sqlalchemy import bindparam, func, literal_column, select

from orchestrator.core.jobs.lifecycle import TERMINAL
from orchestrator.core.jobs.segments import Mark, SegmentProgress
from orchestrator.ledger.schema.job_tables import checkpoints, jobs, progress, submissions, values_check
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.transactions.repository import Repository, asked_again, shared
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.segment_writes import (
    Latest,
    Reported,
    begun_write,
    report_write,
    segment_progress_of,
)


class SegmentRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A segment of a job. Times are microseconds UTC."""

    segment: int
    submission: int
    given_segment: int
    given_seq: int
    begun_at: int | None
    seq: int | None
    share: float | None
    message: str | None
    reported_at: int | None
    execution_ms: int | None

    @property
    def given(self) -> str | None:
        """The checkpoint that it began with; None: it began with nothing."""
        return f"{self.given_segment}.{self.given_seq}" if self.given_segment else None


class CheckpointRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A checkpoint of a job, without its text."""

    segment: int
    seq: int
    at: int
    bytes: int

    @property
    def checkpoint(self) -> str:
        """What it is called: its segment, and the `seq` of its report."""
        return f"{self.segment}.{self.seq}"


class UnfinishedRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A resumable job that has no outcome yet, and its latest segment."""

    job: int
    custom_id: str
    state: str
    segment: int
    begun_at: int | None
    share: float | None
    message: str | None
    reported_at: int | None
    checkpoint_at: int | None
    executed_ms: int
    """In the segments that have ended."""


_UNFINISHED: Final = f"NOT {values_check('jobs.state', TERMINAL)}"
_checkpoint_at = (
    select(func.max(checkpoints.c.at)).where(checkpoints.c.job_id == jobs.c.id).correlate(jobs).scalar_subquery()
)
_each = progress.alias("each")
_executed = (
    select(func.coalesce(func.sum(submissions.c.execution_ms), 0))
    .select_from(_each.join(submissions, submissions.c.id == _each.c.submission_id))
    .where(_each.c.job_id == jobs.c.id)
    .correlate(jobs)
    .scalar_subquery()
)
_last_share = (
    select(_each.c.share)
    .where(_each.c.job_id == jobs.c.id, _each.c.share.is_not(None))
    .order_by(_each.c.segment.desc())
    .limit(1)
    .correlate(jobs)
    .scalar_subquery()
)
_OF_RUN: Final = (
    select(
        *columns(
            UnfinishedRow,
            progress,
            job=jobs.c.id,
            custom_id=jobs.c.custom_id,
            state=jobs.c.state,
            segment=jobs.c.segment,
            share=_last_share,
            checkpoint_at=_checkpoint_at,
            executed_ms=_executed,
        )
    )
    .select_from(jobs.outerjoin(progress, (progress.c.job_id == jobs.c.id) & (progress.c.segment == jobs.c.segment)))
    .where(jobs.c.run_id == bindparam("run"), literal_column(_UNFINISHED), jobs.c.id > bindparam("after"))
    .order_by(jobs.c.id)
    .limit(bindparam("most"))
)
_OF_JOB: Final = (
    select(*columns(SegmentRow, progress, execution_ms=submissions.c.execution_ms))
    .select_from(progress.outerjoin(submissions, submissions.c.id == progress.c.submission_id))
    .where(progress.c.job_id == bindparam("job"))
    .order_by(progress.c.segment)
)
_CHECKPOINTS: Final = (
    select(*columns(CheckpointRow, checkpoints, bytes=func.length(checkpoints.c.checkpoint)))
    .where(checkpoints.c.job_id == bindparam("job"))
    .order_by(checkpoints.c.segment, checkpoints.c.seq)
)


class Segments(Repository):
    """The segments of resumable jobs."""

    @shared
    async def begun(self, transaction: Transaction, *, job: int, submission: int, begun_at: int) -> None:
        """A worker has begun with this submission."""
        await begun_write(transaction.connection, job=job, submission=submission, begun_at=begun_at)

    @shared
    async def report(self, transaction: Transaction, reports: Sequence[Reported]) -> list[Latest | None]:
        """Keeps these reports as far as they are news; returns what is known now of the segment of each."""
        return [await report_write(transaction.connection, each) for each in reports]

    @asked_again
    async def standings(self, ids: Collection[int]) -> dict[int, SegmentProgress]:
        """How far these jobs have come; those that never had a segment are missing."""
        async with self._access.reading() as connection:
            return await segment_progress_of(connection, ids)

    async def unfinished(self, run: int, *, after: int, most: int) -> list[UnfinishedRow]:
        """Up to `most` jobs of `run` without an outcome, in the order of their numbers, after `after`."""
        return await self._access.structs(UnfinishedRow, _OF_RUN, {"run": run, "after": after, "most": most})

    async def of_job(self, job: int) -> list[SegmentRow]:
        """The segments of `job`, oldest first."""
        return await self._access.structs(SegmentRow, _OF_JOB, {"job": job})

    async def checkpoints(self, job: int) -> list[CheckpointRow]:
        """The checkpoints that are kept of `job`, oldest first."""
        return await self._access.structs(CheckpointRow, _CHECKPOINTS, {"job": job})

    async def checkpoint(self, job: int) -> tuple[Mark, bytes] | None:
        """The newest checkpoint of `job`; None where it has none."""
        standing = (await self.standings([job])).get(job)
        return None if standing is None or standing.checkpoint is None else (standing.newest, standing.checkpoint)
