"""The writes: verbs that take and return sequences, one statement each, inside a transaction of the writer's.

A step is written only where the job still is what the step was made for (state, submission, attempt); its event row,
submission, outcome and counts follow in the same transaction, or nothing does.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, delete, func, insert, literal, literal_column, null, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.gates.executions import FAILED
from orchestrator.core.jobs.cancel_reason import why_owed
from orchestrator.core.jobs.job import (
    JOB_CANCELLED,
    JOB_CANCELLED_UNCERTAIN,
    PAID_TWICE,
    RUN_CANCELLED,
    RUN_CANCELLED_UNCERTAIN,
    Job,
    Outcome,
    Transition,
    is_terminal,
    leaves_extra,
    leaves_in_doubt,
)
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.jobs.overrides import ENDED_WITH
from orchestrator.core.jobs.run_counters import counters
from orchestrator.core.service.responses import Trouble
from orchestrator.core.service.webhook_token import Notice
from orchestrator.core.text.error_text import error_key
from orchestrator.ledger.schema.job_tables import counts, events, jobs, margins, notices, outcomes, submissions
from orchestrator.ledger.schema.row_codec import checksum, notice_row, pack
from orchestrator.ledger.sqlite.statements import (
    BATCH,
    IN_BATCH,
    Guarded,
    Many,
    batch_of,
    field,
    insert_new,
    lesser,
    place,
    replace_into,
    upsert,
    without_index,
)
from orchestrator.ledger.transactions.error_kinds import OfRun, kinds_add, kinds_reduce
from orchestrator.ledger.transactions.execution_totals import executions_add
from orchestrator.ledger.transactions.failed_execution_writes import Failed, failed_keep
from orchestrator.ledger.transactions.handover_debts import owed_write
from orchestrator.ledger.transactions.segment_writes import segments_write

TENTH_US: Final = 100_000
"""Margins are counted in tenths of a second."""


_CHANGED: Final = (
    "state",
    "submission_id",
    "attempt",
    "failures",
    "lost",
    "uncertain",
    "expired",
    "deferrals",
    "due_at",
    "retry_until",
    "unfinished_at",
    "trouble",
    "ended_at",
)

_APPLY = Guarded(
    update(jobs)
    .values({name: place(position) for position, name in enumerate(_CHANGED, start=4)})
    .where(
        jobs.c.id == place(0),
        jobs.c.state == place(1),
        jobs.c.submission_id.is_not_distinct_from(place(2)),
        jobs.c.attempt == place(3),
    )
)


async def steps_apply(connection: AsyncConnection, steps: Sequence[Transition]) -> list[Transition]:
    """Writes every step that is not stale, and returns those. At most one step for each job may be among them.

    A stale answer to `/run` still leaves its remote id on its submission: it may be needed to cancel it.
    """
    if not steps:
        return []
    are_applied = await _APPLY.execute(connection, [_changes(step) for step in steps])
    done = list(compress(steps, are_applied))
    stale = [step for step in compress(steps, map(not_, are_applied)) if step.event is Event.ACCEPTED]
    await _submissions_write(connection, done, stale)
    if done:
        await _events_write(connection, done)
        await _outcomes_write(connection, done)
        await _counts_write(connection, done)
        if given := [_own_settings(step) for step in done if _has_other_settings(step)]:
            await _SETTINGS.execute(connection, given)
        await executions_add(connection, done)
        if long := [step for step in done if step.after.segment]:
            await segments_write(connection, long)
        await owed_write(connection, done)
    return done


def _changes(step: Transition) -> tuple[int | str | None, ...]:
    """The guard of `step`, then its values for `_CHANGED`."""
    before, after = step.before, step.after
    return (
        before.id,
        before.state.value,
        before.submission,
        before.attempt,
        after.state.value,
        after.submission,
        after.attempt,
        after.failures,
        after.lost,
        after.uncertain,
        after.expired,
        after.deferrals,
        after.due_at,
        after.retry_until,
        after.unfinished_at,
        None if step.trouble is None else step.trouble.value,
        step.at if is_terminal(after) else None,
    )


_OPEN = Many(insert(submissions), "id", "job_id", "attempt", "sent_at", "ttl_at", "endpoint_id")
_FAILURE = Many(update(submissions).where(submissions.c.id == bindparam("b_id")).values(failure=bindparam("b_failure")))
_WIN = Many(
    update(submissions)
    .where(submissions.c.id == bindparam("b_id"))
    .values(
        remote_id=func.coalesce(bindparam("b_remote_id"), submissions.c.remote_id),
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
        remote_id=func.coalesce(bindparam("b_remote_id"), submissions.c.remote_id),
        sent_at=func.coalesce(bindparam("b_sent_at"), submissions.c.sent_at),
        ttl_at=func.coalesce(bindparam("b_ttl_at"), submissions.c.ttl_at),
        answered_at=func.coalesce(bindparam("b_answered_at"), submissions.c.answered_at),
        ended_at=func.coalesce(submissions.c.ended_at, bindparam("b_ended_at")),
        ended=func.coalesce(submissions.c.ended, bindparam("b_ended")),
    )
)


async def _submissions_write(
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
    ended = Trouble.UNCERTAIN.value if before.state is State.UNCERTAIN else PAID_TWICE
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
    }


def _settled(step: Transition) -> dict[str, Any] | None:
    """What `step` tells of a submission that was opened before, or None."""
    after = step.after
    row = dict.fromkeys(("b_remote_id", "b_sent_at", "b_ttl_at", "b_answered_at", "b_ended_at", "b_ended"))
    match step.event:
        case Event.ACCEPTED if step.reason == "run":
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
            ended = step.trouble or step.event
            return {**row, "b_id": after.submission, "b_ended_at": step.at, "b_ended": ended.value}
        case _:
            return None


_EVENT = Many(insert(events).inline(), "job_id", "at", "event", "submission_id", "attempt", "trouble", "reason")


async def _events_write(connection: AsyncConnection, done: Sequence[Transition]) -> None:
    rows = [
        {
            "job_id": step.after.id,
            "at": step.at,
            "event": step.event.value,
            "submission_id": step.after.submission,
            "attempt": step.after.attempt,
            "trouble": step.trouble.value if step.trouble else None,
            "reason": step.reason,
        }
        for step in done
    ]
    await _EVENT.execute(connection, rows)


_OUTCOME = Many(replace_into(outcomes), *(column.name for column in outcomes.c))
_OUTCOMES_DELETE = (
    delete(outcomes)
    .where(outcomes.c.job_id.in_(IN_BATCH))
    .returning(outcomes.c.job_id, outcomes.c.error_key, outcomes.c.trouble, outcomes.c.message, outcomes.c.execution_ms)
)

_ERROR: Final = (
    select(outcomes.c.message)
    .where(
        outcomes.c.job_id == events.c.job_id,
        outcomes.c.message.not_in(["", RUN_CANCELLED, RUN_CANCELLED_UNCERTAIN, JOB_CANCELLED, JOB_CANCELLED_UNCERTAIN]),
    )
    .scalar_subquery()
)
_ERRORS_KEEP: Final = (
    update(events)
    .values(reason=func.coalesce(events.c.reason + literal(ENDED_WITH) + _ERROR, events.c.reason))
    .where(
        events.c.id.in_(select(func.max(events.c.id)).where(events.c.job_id.in_(IN_BATCH)).group_by(events.c.job_id))
    )
)
_ERRORS_KEPT: Final = select(events.c.id, events.c.job_id, events.c.reason).where(
    events.c.job_id.in_(IN_BATCH), events.c.event == Event.REOPENED.value
)


async def _outcomes_write(connection: AsyncConnection, done: Sequence[Transition]) -> None:
    if ended_before := {step.before.id: step.after.run for step in done if is_terminal(step.before)}:
        await _outcomes_forget(connection, done, ended_before)
    rows = [_outcome_row(step.after.id, step.outcome) for step in done if step.outcome is not None]
    if not rows:
        return
    await _errors_restore(connection, rows)
    failed = [row for row in rows if row["trouble"] is not None]
    for row in failed:
        row["error_key"] = error_key(row["trouble"], row["message"])
    await _OUTCOME.execute(connection, rows)
    if failed:
        steps = {step.after.id: step for step in done}
        found: dict[OfRun, list[int]] = {}
        for row in failed:
            step = steps[row["job_id"]]
            found.setdefault((step.after.run, row["error_key"]), []).append(step.at)
        await kinds_add(connection, found)


_SETTINGS = Many(
    update(jobs)
    .where(jobs.c.id == bindparam("b_id"))
    .values(
        endpoint_id=bindparam("b_endpoint"),
        attempts_max=bindparam("b_attempts_max"),
        policy=bindparam("b_policy"),
        escalated=bindparam("b_escalated"),
    )
)


def _has_other_settings(step: Transition) -> bool:
    before, after = step.before, step.after
    return step.event in _GIVING and _settings_of(before) != _settings_of(after)


_GIVING: Final = frozenset({Event.REOPENED, Event.RETRIED})
"""The events that can give a job settings of its own."""


def _settings_of(job: Job) -> tuple[int, int | None, bytes | None, bytes | None]:
    return job.endpoint, job.attempts_max, job.policy, job.escalated


def _own_settings(step: Transition) -> dict[str, Any]:
    after = step.after
    return {
        "b_id": after.id,
        "b_endpoint": after.endpoint,
        "b_attempts_max": after.attempts_max,
        "b_policy": after.policy,
        "b_escalated": after.escalated,
    }


async def _outcomes_forget(connection: AsyncConnection, done: Sequence[Transition], run_of: Mapping[int, int]) -> None:
    """Of jobs that had ended, and are reopened or have a result after all."""
    reopened = [step.after.id for step in done if step.event is Event.REOPENED]
    if reopened:
        await connection.execute(_ERRORS_KEEP, batch_of(reopened))
    gone = (await connection.execute(_OUTCOMES_DELETE, batch_of(run_of))).all()
    await kinds_reduce(connection, Counter((run_of[row[0]], row[1]) for row in gone))
    again = {step.after.id: step for step in done if step.event is Event.REOPENED}
    if failed := [_failed_before(again[row[0]], row) for row in gone if row[0] in again and row[2] in FAILED]:
        await failed_keep(connection, failed)


def _failed_before(step: Transition, gone: Any) -> Failed:
    """The last execution of a job that is reopened: its outcome is `gone`."""
    return Failed(
        run=step.after.run,
        job=step.after.id,
        attempt=step.before.attempt,
        at=step.at,
        trouble=gone.trouble,
        error_key=gone.error_key,
        message=gone.message or "",
        execution_ms=gone.execution_ms,
    )


async def _errors_restore(connection: AsyncConnection, rows: Sequence[dict[str, Any]]) -> None:
    """A job that is cancelled after it was reopened has the error message again that it had before."""
    cancelled = {row["job_id"]: row for row in rows if row["trouble"] == Trouble.CANCELLED}
    if cancelled:
        for _, job, reason in sorted((await connection.execute(_ERRORS_KEPT, batch_of(cancelled))).all()):
            cancelled[job]["message"] = reason.partition(ENDED_WITH)[2] or cancelled[job]["message"]


def _outcome_row(job: int, outcome: Outcome) -> dict[str, Any]:
    output, packed = pack(outcome.output)
    return {
        "job_id": job,
        "submission_id": outcome.submission,
        "remote_id": outcome.remote_id,
        "status": outcome.status,
        "output": output,
        "packed": packed,
        "trouble": outcome.trouble.value if outcome.trouble else None,
        "message": outcome.message,
        "delay_ms": outcome.delay_ms,
        "execution_ms": outcome.execution_ms,
        "worker": outcome.worker,
        "margin_us": outcome.margin_us,
        "checksum": checksum(job, output),
        "error_key": None,
    }


async def _counts_write(connection: AsyncConnection, done: Sequence[Transition]) -> None:
    changes: Counter[tuple[int, str]] = Counter()
    for step in done:
        changes[step.after.run, step.before.state] -= 1
        changes[step.after.run, step.after.state] += 1
        for name in counters(step):
            changes[step.after.run, name] += 1
    await counts_add(connection, changes)
    await _margins_add(connection, done)


_COUNT = upsert(counts, lambda new: {"n": counts.c.n + new.n})


async def counts_add(connection: AsyncConnection, changes: Counter[tuple[int, str]]) -> None:
    """Adds `changes[run, name]` to the run's counts."""
    rows = [{"run_id": run, "name": name, "n": n} for (run, name), n in changes.items() if n]
    if rows:
        await connection.execute(_COUNT, rows)


_MARGIN = upsert(margins, lambda new: {"n": margins.c.n + new.n, "least_us": lesser(margins.c.least_us, new.least_us)})


async def _margins_add(connection: AsyncConnection, done: Iterable[Transition]) -> None:
    found: dict[tuple[int, int], list[int]] = {}
    for step in done:
        if step.event is Event.COMPLETED and step.outcome is not None and step.outcome.margin_us is not None:
            found.setdefault((step.after.run, step.outcome.margin_us // TENTH_US), []).append(step.outcome.margin_us)
    rows = [
        {"run_id": run, "step": step, "n": len(found_us), "least_us": min(found_us)}
        for (run, step), found_us in found.items()
    ]
    if rows:
        await connection.execute(_MARGIN, rows)


# --- notices, and jobs that were found unfinished


_NOTE = Many(insert_new(notices).inline(), *(column.name for column in notices.c if column.name != "id"))


async def notices_add(connection: AsyncConnection, added: Sequence[Notice]) -> None:
    """Keeps what webhooks told. One that is known already (submission and status) is not kept twice."""
    await _NOTE.execute(connection, [notice_row(notice) for notice in added])


async def notices_delete(connection: AsyncConnection, dealt_with: Sequence[Notice]) -> None:
    """Forgets these notices, and no other of the same submission that came in between."""
    rows = [(notice.submission, notice.record.status if notice.record else "") for notice in dealt_with]
    await connection.execute(_NOTICES_DELETE, batch_of(rows))


_NOTICES_DELETE = delete(notices).where(
    notices.c.id.in_(
        select(notices.c.id).select_from(
            BATCH.join(notices, (notices.c.submission_id == field(0)) & (notices.c.status == field(1)))
        )
    )
)

_UNFINISHED = (
    update(jobs)
    .values(unfinished_at=field(3))
    .where(
        jobs.c.id == field(0),
        jobs.c.submission_id == field(1),
        jobs.c.attempt == field(2),
        # Else SQLite goes through all outstanding jobs for each row of the batch: minutes at 300,000.
        without_index(jobs.c.state) == literal_column(f"'{State.OUTSTANDING}'"),
    )
)


async def unfinished_write(connection: AsyncConnection, unfinished: Sequence[Job]) -> None:
    """Writes `unfinished_at` of outstanding jobs that were found not finished. No step: nothing happened to them."""
    rows = [(job.id, job.submission, job.attempt, job.unfinished_at) for job in unfinished]
    await connection.execute(_UNFINISHED, batch_of(rows))
