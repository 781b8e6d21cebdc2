"""What transitions say of the submissions of their jobs."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import INTEGER, TEXT, bindparam, func, insert, literal_column, null, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.cancel_reason import why_owed
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.jobs.reasons import OF_SUBMISSIONS
from orchestrator.core.jobs.run_counters import PAID_TWICE
from orchestrator.core.jobs.transition_type import Transition, leaves_extra, leaves_in_doubt
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger.schema.job_tables import submissions
from orchestrator.ledger.statements import Many

_OPEN = Many(
    insert(submissions),
    *("id", "job_id", "attempt", "sent_at", "ttl_at", "endpoint_id", "retention_us", "batch_id"),
    *("chunk_id", "chunk_rows"),
)
_FAILURE = Many(update(submissions).where(submissions.c.id == bindparam("b_id")).values(failure=bindparam("b_failure")))
_WIN = Many(
    update(submissions)
    .where(submissions.c.id == bindparam("b_id"))
    .values(
        remote_id=func.coalesce(bindparam("b_remote_id", type_=TEXT), submissions.c.remote_id),
        ended_at=bindparam("b_ended_at"),
        ended=literal_column("'succeeded'"),
        cancel_at=null(),
    )
)
_OWE = Many(
    update(submissions)
    .where(submissions.c.id == bindparam("b_id"))
    .values(
        ended_at=bindparam("b_ended_at"),
        ended=bindparam("b_ended"),
        cancel_at=bindparam("b_ended_at"),
        cancel_why=bindparam("b_cancel_why"),
    )
)
_SETTLE = Many(
    update(submissions)
    .where(submissions.c.id == bindparam("b_id"))
    .values(
        remote_id=func.coalesce(bindparam("b_remote_id", type_=TEXT), submissions.c.remote_id),
        sent_at=func.coalesce(bindparam("b_sent_at", type_=INTEGER), submissions.c.sent_at),
        ttl_at=func.coalesce(bindparam("b_ttl_at", type_=INTEGER), submissions.c.ttl_at),
        answered_at=func.coalesce(bindparam("b_answered_at", type_=INTEGER), submissions.c.answered_at),
        ended_at=func.coalesce(submissions.c.ended_at, bindparam("b_ended_at", type_=INTEGER)),
        ended=func.coalesce(submissions.c.ended, bindparam("b_ended", type_=TEXT)),
    )
)


async def submissions_write(
    connection: AsyncConnection, done: Sequence[Transition], stale: Sequence[Transition]
) -> None:
    opened = [_opened(step) for step in done if step.after.submission != step.before.submission]
    settled = [row for step in done if (row := _settled(step)) is not None]
    settled += [row for step in stale if (row := _settled(step)) is not None]
    if opened:
        await _OPEN.execute(connection, opened)
    if settled:
        await _SETTLE.execute(connection, settled)
    if failed := [_failed(step) for step in done if step.failure is not None]:
        await _FAILURE.execute(connection, failed)
    if won := [_won(step) for step in done if step.event is Event.COMPLETED]:
        await _WIN.execute(connection, won)
    if owed := [_owed(step) for step in done if leaves_extra(step) or leaves_in_doubt(step)]:
        await _OWE.execute(connection, owed)


def _failed(step: Transition) -> dict[str, Any]:
    return {"b_id": step.after.submission, "b_failure": msgspec.json.encode(step.failure)}


def _won(step: Transition) -> dict[str, Any]:
    """The submission that brought the result, whatever it was taken for before."""
    outcome = step.outcome
    assert outcome is not None
    return {"b_id": outcome.submission, "b_remote_id": outcome.remote_id, "b_ended_at": step.at}


def _owed(step: Transition) -> dict[str, Any]:
    """The submission that nobody wants any more: it is owed a /cancel, also where its remote id is not known yet."""
    before, outcome = step.before, step.outcome
    is_uncertain = before.state is State.UNCERTAIN or step.event is Event.RETRIED
    ended = FailureClass.UNCERTAIN.value if is_uncertain else PAID_TWICE
    if step.event is Event.COMPLETED and outcome is not None and outcome.submission == before.submission:
        ended = State.SUCCEEDED.value  # one execution of it brought the result, and another one is on its way
    return {"b_id": before.submission, "b_ended_at": step.at, "b_ended": ended, "b_cancel_why": why_owed(step).value}


def _opened(step: Transition) -> dict[str, Any]:
    after = step.after
    return {
        "id": after.submission,
        "job_id": after.id,
        "attempt": after.attempt,
        "sent_at": after.sent_at,
        "ttl_at": after.ttl_at,
        "endpoint_id": after.endpoint,
        "retention_us": after.retention_us,
        "batch_id": after.batch,
        "chunk_id": after.chunk,
        "chunk_rows": after.chunk_rows,
    }


def _settled(step: Transition) -> dict[str, Any] | None:
    """What `step` tells of a submission that was opened before, or None."""
    after = step.after
    row = dict.fromkeys(("b_remote_id", "b_sent_at", "b_ttl_at", "b_answered_at", "b_ended_at", "b_ended"))
    match step.event:
        case Event.ACCEPTED if step.reason in OF_SUBMISSIONS:
            told = {
                "b_remote_id": after.remote_id,
                "b_sent_at": after.sent_at,
                "b_ttl_at": after.ttl_at,
                "b_answered_at": step.at,
            }
            return {**row, "b_id": after.submission, **told}
        case Event.ADOPTED:
            return {**row, "b_id": after.submission, "b_remote_id": after.remote_id}
        case Event.DEFERRED | Event.RETRIED | Event.CONTINUED | Event.ABANDONED | Event.CANCELLED if not after.by_retry:
            ended, over = step.trouble or step.event, step.outcome or step.previous_outcome
            is_told = over is not None and over.submission == after.submission  # an answer may be the end at once
            return {
                **row,
                "b_id": after.submission,
                "b_remote_id": over.remote_id if over is not None and is_told else None,
                "b_ended_at": step.at,
                "b_ended": ended.value,
            }
        case _:
            return None
