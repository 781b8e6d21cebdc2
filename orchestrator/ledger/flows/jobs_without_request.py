"""Jobs that are not sent: they say why a step has failed, or have their output from the beginning."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.job import Outcome
from orchestrator.core.jobs.transitions import abandoned, completed
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger.runs.input_rows import PackedRow
from orchestrator.ledger.schema.handover_tables import lineage
from orchestrator.ledger.schema.job_columns import job_of, select_jobs
from orchestrator.ledger.schema.job_tables import events, jobs, outcomes, payloads, row_metadata
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.count_writes import counts_add

NO_INPUT: Final = b"{}"
"""The input of a job that says why its step failed: it is never sent."""

COMPLETED: Final = "COMPLETED"
COMPLETED_MAX: Final = 1_000
"""So many jobs are completed together."""

_STATES: Final = select(jobs.c.id, jobs.c.state).where(jobs.c.id.in_(IN_BATCH))


def nothing(custom_id: str, line: int) -> PackedRow:
    """The row of a job that says why its step failed."""
    return PackedRow(
        line=line,
        custom_id=custom_id,
        derived=False,
        input=NO_INPUT,
        packed=0,
        digest=b"",
        policy=None,
        s3_config=None,
    )


async def fail(transaction: Transaction, failed: Mapping[int, str], *, now: int) -> None:
    """The jobs that say why a step failed end at once."""
    if not failed:
        return
    query = select_jobs().where(jobs.c.id.in_(IN_BATCH))
    found = (await transaction.connection.execute(query, batch_of(failed))).all()
    steps = []
    for job in map(job_of, found):
        outcome = Outcome(
            submission=None, remote_id=None, status=None, trouble=FailureClass.STEP, message=failed[job.id]
        )
        steps.append(abandoned(job, outcome, reason="its step failed", at=now))
    await transaction.apply(steps)


async def complete(transaction: Transaction, outputs: Mapping[int, bytes], *, reason: str, now: int) -> None:
    """The jobs that have these outputs have succeeded with them."""
    numbers = list(outputs)
    for start in range(0, len(numbers), COMPLETED_MAX):
        page = batch_of(numbers[start : start + COMPLETED_MAX])
        found = (await transaction.connection.execute(select_jobs().where(jobs.c.id.in_(IN_BATCH)), page)).all()
        steps = []
        for job in map(job_of, found):
            outcome = Outcome(submission=None, remote_id=None, status=COMPLETED, output=outputs[job.id])
            steps.append(completed(job, outcome, reason=reason, at=now))
        await transaction.apply(steps)


async def forget_failed(connection: AsyncConnection, run: int, failed: Sequence[int]) -> Mapping[int, str]:
    """Removes these jobs of `run`, and their failures; returns the state that each was in."""
    if not failed:
        return {}
    gone = batch_of(failed)
    states = await states_of(connection, failed)
    for table, key in ((payloads, payloads.c.job_id), (outcomes, outcomes.c.job_id), (lineage, lineage.c.child)):
        await connection.execute(delete(table).where(key.in_(IN_BATCH)), gone)
    await connection.execute(delete(events).where(events.c.job_id.in_(IN_BATCH)), gone)
    of_run = (row_metadata.c.run_id == run) & row_metadata.c.job_id.in_(IN_BATCH)
    await connection.execute(delete(row_metadata).where(of_run), gone)
    await connection.execute(delete(jobs).where(jobs.c.id.in_(IN_BATCH)), gone)
    await counts_add(connection, Counter({(run, state): -n for state, n in Counter(states.values()).items()}))
    return states


async def states_of(connection: AsyncConnection, among: Sequence[int]) -> dict[int, str]:
    """The state that each of these jobs is in."""
    return {row[0]: row[1] for row in await connection.execute(_STATES, batch_of(among))}
