"""What the steps of jobs make owed: a row that has ended is to be handed over, in the transaction of its last step."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.job import Transition, is_terminal
from orchestrator.core.lifecycle import Event
from orchestrator.ledger.handover_tables import handovers, owed, relays
from orchestrator.ledger.sqlite.statements import IN_BATCH, Many, batch_of, insert_new
from orchestrator.ledger.tables import jobs

NEVER_US: Final = 1 << 62
"""When a job is due that nobody sends: its step is called anew, and makes others of it or has it fail again."""

_FOLLOWERS: Final = select(relays.c.from_run, relays.c.to_run).where(relays.c.from_run.in_(IN_BATCH))
_OWE: Final = Many(insert_new(owed), "to_run", "job_id")
_FAILED_STEPS: Final = select(handovers.c.job_id, handovers.c.to_run).where(handovers.c.failed_job.in_(IN_BATCH))
_SEND_NEVER: Final = (
    update(jobs)
    .where(jobs.c.id.in_(select(handovers.c.failed_job).where(handovers.c.failed_job.in_(IN_BATCH))))
    .values(due_at=literal_column(str(NEVER_US)))
)


async def owed_write(connection: AsyncConnection, done: Sequence[Transition]) -> None:
    """Jobs that have ended are owed to whoever follows. A failed step that is reopened is owed anew."""
    ended = [(step.after.id, step.after.run) for step in done if is_terminal(step.after)]
    if ended:
        followers = (await connection.execute(_FOLLOWERS, batch_of({run for _, run in ended}))).all()
        if followers:
            rows = [
                {"to_run": to_run, "job_id": job}
                for job, run in ended
                for from_run, to_run in followers
                if run == from_run
            ]
            await _OWE.execute(connection, rows)
    if reopened := [step.after.id for step in done if step.event is Event.REOPENED]:
        batch = batch_of(reopened)
        if rows := [{"job_id": job, "to_run": to} for job, to in await connection.execute(_FAILED_STEPS, batch)]:
            await _OWE.execute(connection, rows)
            await connection.execute(_SEND_NEVER, batch)
