"""The segments of resumable jobs as the ledger keeps them: what each was given, and what was reported of it.

A report counts where it is newer than what is known of its segment; its checkpoint, where that is newer than any of
the job's, and another. So reports may come late, twice and in any order.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec
from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.segments import CHECKPOINTS_KEPT, Mark, Report, Resume, SegmentProgress, is_same
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.ledger.schema.job_tables import checkpoints, jobs, progress, submissions
from orchestrator.ledger.schema.row_codec import pack, unpack
from orchestrator.ledger.statements import IN_BATCH, Many, batch_of


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """A report, as it came with the answer about a submission."""

    job: int
    submission: int
    report: Report
    at: int
    """When the question was sent that it answers."""

    begun_at: int | None = None
    """When the worker began, where that was told."""


class Latest(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a segment once a report was dealt with."""

    seq: int
    reported_at: int
    """When it was first known."""

    is_checkpoint: bool
    """Whether the report brought a checkpoint that is newer than all others."""

    owes_cancel: bool = False
    """Whether somebody who wanted the segment cancelled had waited for that checkpoint."""


_newest = (
    select(checkpoints.c.segment, checkpoints.c.seq, checkpoints.c.checkpoint, checkpoints.c.packed)
    .order_by(checkpoints.c.segment.desc(), checkpoints.c.seq.desc())
    .limit(1)
)
_NEWEST: Final = _newest.where(checkpoints.c.job_id == bindparam("job"))
_EXECUTED: Final = (
    select(progress.c.job_id, func.sum(submissions.c.execution_ms))
    .select_from(progress.join(submissions, submissions.c.id == progress.c.submission_id))
    .where(progress.c.job_id.in_(IN_BATCH), submissions.c.execution_ms.is_not(None))
    .group_by(progress.c.job_id)
)

# --- steps

_NUMBER: Final = Many(update(jobs).where(jobs.c.id == bindparam("b_id")).values(segment=bindparam("b_segment")))
_BEGIN: Final = Many(insert(progress), "job_id", "segment", "submission_id", "given_segment", "given_seq")
_EXECUTION: Final = Many(
    update(submissions).where(submissions.c.id == bindparam("b_id")).values(execution_ms=bindparam("b_ms"))
)


async def segments_write(connection: AsyncConnection, done: Sequence[Transition]) -> None:
    """What these steps of resumable jobs, which have been written, say of their segments."""
    begun = [step for step in done if step.after.segment != step.before.segment]
    if begun:
        rows = []
        for step in begun:
            given = await _newest_of(connection, step.after.id)
            rows.append(
                {
                    "job_id": step.after.id,
                    "segment": step.after.segment,
                    "submission_id": step.after.submission,
                    "given_segment": given.newest.segment,
                    "given_seq": given.newest.seq,
                }
            )
        await _NUMBER.execute(connection, [{"b_id": row["job_id"], "b_segment": row["segment"]} for row in rows])
        await _BEGIN.execute(connection, rows)
    executed = [step for step in done if step.execution_ms is not None and step.event is not Event.CLAIMED]
    if executed:
        rows = [{"b_id": _ended(step), "b_ms": step.execution_ms} for step in executed]
        await _EXECUTION.execute(connection, rows)
    for step in done:
        if step.report is not None and step.before.submission is not None:
            said = Reported(job=step.after.id, submission=step.before.submission, report=step.report, at=step.at)
            await report_write(connection, said)


def _ended(step: Transition) -> int | None:
    """The submission that ended: a result may be of an earlier one."""
    return step.before.submission if step.outcome is None else step.outcome.submission


async def resumes_of(connection: AsyncConnection, begun: Iterable[Transition]) -> dict[int, Resume]:
    """From where each of these jobs goes on, whose latest step has begun a segment."""
    begun = list(begun)
    executed = await _executed_ms(connection, [step.after.id for step in begun])
    found = {}
    for step in begun:
        job = step.after.id
        newest = await _newest_of(connection, job)
        found[job] = Resume(step.after.segment, newest.checkpoint, executed.get(job, 0))
    return found


# --- reports

_SEGMENT: Final = select(
    progress.c.segment, progress.c.seq, progress.c.reported_at, progress.c.begun_at
).where(progress.c.job_id == bindparam("job"), progress.c.submission_id == bindparam("submission"))  # fmt: skip
_of_segment = (progress.c.job_id == bindparam("b_job"), progress.c.segment == bindparam("b_segment"))
_REPORT: Final = (
    update(progress)
    .where(*_of_segment)
    .values(
        seq=bindparam("b_seq"),
        share=bindparam("b_share"),
        message=bindparam("b_message"),
        reported_at=bindparam("b_at"),
    )
)
_BEGUN: Final = update(progress).where(*_of_segment).values(begun_at=bindparam("b_begun_at"))
_oldest_kept = (
    select(checkpoints.c.segment, checkpoints.c.seq)
    .where(checkpoints.c.job_id == bindparam("b_job"))
    .order_by(checkpoints.c.segment.desc(), checkpoints.c.seq.desc())
    .limit(1)
    .offset(CHECKPOINTS_KEPT)
)
_CANCEL_NOW: Final = (
    update(submissions)
    .where(
        submissions.c.id == bindparam("b_submission"),
        submissions.c.cancel_at > bindparam("b_at"),
        submissions.c.cancel_why == CancelWhy.ASKED.value,
    )
    .values(cancel_at=bindparam("b_at"))
)


async def begun_write(connection: AsyncConnection, *, job: int, submission: int, begun_at: int) -> None:
    """A worker has begun with this submission, which is a segment of `job`; the first time that is told counts."""
    row = (await connection.execute(_SEGMENT, {"job": job, "submission": submission})).first()
    if row is not None and row.begun_at is None:
        await connection.execute(_BEGUN, {"b_job": job, "b_segment": row.segment, "b_begun_at": begun_at})


async def report_write(connection: AsyncConnection, said: Reported) -> Latest | None:
    """Keeps what `said` reports, as far as it is newer than what is known; None where it is of no segment."""
    row = (await connection.execute(_SEGMENT, {"job": said.job, "submission": said.submission})).first()
    if row is None:
        return None
    report, known = said.report, -1 if row.seq is None else row.seq
    seq = known + 1 if report.seq is None else report.seq
    if said.begun_at is not None and row.begun_at is None:
        parameters = {"b_job": said.job, "b_segment": row.segment, "b_begun_at": said.begun_at}
        await connection.execute(_BEGUN, parameters)
    if seq <= known:
        return Latest(seq=known, reported_at=row.reported_at, is_checkpoint=False)
    parameters = {
        "b_job": said.job,
        "b_segment": row.segment,
        "b_seq": seq,
        "b_share": report.share,
        "b_message": report.message,
        "b_at": said.at,
    }
    await connection.execute(_REPORT, parameters)
    is_checkpoint = await _checkpoint_write(connection, said, Mark(row.segment, seq))
    owes_cancel = is_checkpoint and await _cancel_now(connection, said)
    return Latest(seq=seq, reported_at=said.at, is_checkpoint=is_checkpoint, owes_cancel=owes_cancel)


async def _checkpoint_write(connection: AsyncConnection, said: Reported, mark: Mark) -> bool:
    """Keeps the checkpoint of a report, if it is newer than all others, and another; returns whether."""
    checkpoint = said.report.checkpoint
    if checkpoint is None:
        return False
    known = await _newest_of(connection, said.job)
    if mark <= known.newest or is_same(checkpoint, known.checkpoint):
        return False
    stored, packed = pack(checkpoint)
    row = {"job_id": said.job, "segment": mark.segment, "seq": mark.seq, "at": said.at}
    await connection.execute(insert(checkpoints), {**row, "checkpoint": stored, "packed": packed})
    surplus = (await connection.execute(_oldest_kept, {"b_job": said.job})).first()
    if surplus is not None:
        is_older = (checkpoints.c.segment < surplus.segment) | (
            (checkpoints.c.segment == surplus.segment) & (checkpoints.c.seq <= surplus.seq)
        )
        await connection.execute(delete(checkpoints).where(checkpoints.c.job_id == said.job, is_older))
    return True


async def _cancel_now(connection: AsyncConnection, said: Reported) -> bool:
    """Whoever waits for a checkpoint to cancel the segment waits no longer; whether somebody did."""
    done = await connection.execute(_CANCEL_NOW, {"b_submission": said.submission, "b_at": said.at})
    return done.rowcount > 0


# --- standings


async def _newest_of(connection: AsyncConnection, job: int) -> SegmentProgress:
    """The newest checkpoint of `job`, in a standing that says nothing else."""
    row = (await connection.execute(_NEWEST, {"job": job})).first()
    if row is None:
        return SegmentProgress(segment=0)
    return SegmentProgress(segment=0, newest=Mark(row[0], row[1]), checkpoint=unpack(row[2], row[3]))


async def _executed_ms(connection: AsyncConnection, ids: Iterable[int]) -> dict[int, int]:
    rows = await connection.execute(_EXECUTED, batch_of(ids))
    return {row[0]: row[1] for row in rows}


_LATEST: Final = (
    select(progress.c.job_id, progress.c.segment, progress.c.given_segment, progress.c.given_seq, progress.c.begun_at)
    .select_from(jobs.join(progress, (progress.c.job_id == jobs.c.id) & (progress.c.segment == jobs.c.segment)))
    .where(jobs.c.id.in_(IN_BATCH))
)


async def segment_progress_of(connection: AsyncConnection, ids: Collection[int]) -> dict[int, SegmentProgress]:
    """How far these jobs have come; those that never had a segment are missing."""
    executed = await _executed_ms(connection, ids)
    found = {}
    for row in (await connection.execute(_LATEST, batch_of(ids))).all():
        newest = await _newest_of(connection, row.job_id)
        found[row.job_id] = SegmentProgress(
            segment=row.segment,
            given=Mark(row.given_segment, row.given_seq),
            newest=newest.newest,
            checkpoint=newest.checkpoint,
            begun_at=row.begun_at,
            executed_ms=executed.get(row.job_id, 0),
        )
    return found
