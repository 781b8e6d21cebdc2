"""The outcomes of jobs: written as they end, removed as they are reopened or have a result after all."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import delete, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.gates.ended_executions import FAILED
from orchestrator.core.jobs.job import Outcome, is_terminal
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.error_text import error_key
from orchestrator.ledger.schema.job_tables import events, outcomes
from orchestrator.ledger.schema.row_codec import checksum, detail_of, pack, saved_names_text
from orchestrator.ledger.statements import IN_BATCH, Many, batch_of, replace_into
from orchestrator.ledger.transitions.error_kinds import OfRun, kinds_add, kinds_reduce
from orchestrator.ledger.transitions.execution_writes import Failed, failed_keep

_OUTCOME = Many(replace_into(outcomes), *(column.name for column in outcomes.c))
_OUTCOMES_DELETE = (
    delete(outcomes)
    .where(outcomes.c.job_id.in_(IN_BATCH))
    .returning(
        outcomes.c.job_id,
        outcomes.c.error_key,
        outcomes.c.trouble,
        outcomes.c.message,
        outcomes.c.execution_ms,
        outcomes.c.status,
    )
)
_ERRORS: Final = select(events.c.id, events.c.job_id, events.c.detail).where(
    events.c.job_id.in_(IN_BATCH),
    events.c.event == literal_column(f"'{Event.REOPENED}'"),
    events.c.detail.is_not(None),
)


async def outcomes_write(connection: AsyncConnection, done: Sequence[Transition]) -> None:
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


async def outcomes_forget(connection: AsyncConnection, done: Sequence[Transition]) -> dict[int, str]:
    """Removes the outcomes of jobs that had ended, and are reopened or have a result after all; returns the errors of
    those that are reopened.
    """
    run_of = {step.before.id: step.after.run for step in done if is_terminal(step.before)}
    if not run_of:
        return {}
    gone = (await connection.execute(_OUTCOMES_DELETE, batch_of(run_of))).all()
    await kinds_reduce(connection, Counter((run_of[row[0]], row[1]) for row in gone))
    again = {step.after.id: step for step in done if step.event is Event.REOPENED}
    if failed := [_failed_before(again[row[0]], row) for row in gone if row[0] in again and row[2] in FAILED]:
        await failed_keep(connection, failed)
    cancelled = [row.job_id for row in gone if row.job_id in again and _is_cancelled_here(row)]
    errors = await _errors_before(connection, cancelled) if cancelled else {}
    of_their_own = {row.job_id: row.message for row in gone if row.job_id in again and not _is_cancelled_here(row)}
    return errors | {job: message for job, message in of_their_own.items() if message}


def _is_cancelled_here(outcome: Any) -> bool:
    """Whether the message of this outcome tells of a cancellation alone: no execution of the job had failed."""
    return outcome.trouble == FailureClass.CANCELLED and outcome.status in (None, "COMPLETED")


async def _errors_before(connection: AsyncConnection, among: Iterable[int]) -> dict[int, str]:
    """The errors that these jobs had ended with when they were reopened last."""
    rows = sorted((await connection.execute(_ERRORS, batch_of(among))).all())
    return {job: error for _, job, stored in rows if (error := detail_of(stored).error)}


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
    cancelled = {row["job_id"]: row for row in rows if row["trouble"] == FailureClass.CANCELLED}
    if cancelled:
        for job, error in (await _errors_before(connection, cancelled)).items():
            cancelled[job]["message"] = error


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
        "saved": saved_names_text(outcome.saved),
    }
