"""Stages that are carried out anew for what has failed: what has succeeded the time before is taken over.

It is asked for by the claim, like results that are reused: so nothing is sent that was paid for, whenever a process
ends.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import bindparam, func, select

from orchestrator.core.jobs.job import Job, Outcome
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.reasons import Detail, ReasonCode
from orchestrator.core.jobs.transition import Transition
from orchestrator.core.jobs.transitions import completed
from orchestrator.ledger.jobs.claim_queue import ClaimableJob
from orchestrator.ledger.jobs.result_reuse import BYTES_MAX
from orchestrator.ledger.schema.job_tables import jobs, outcomes, payloads, runs
from orchestrator.ledger.schema.row_codec import fitting, unpack
from orchestrator.ledger.sqlite.statements import IN_BATCH, batch_of
from orchestrator.ledger.transactions.transaction import Transaction

_old_jobs: Final = jobs.alias("old_jobs")
_old_payloads: Final = payloads.alias("old_payloads")
_BEFORE: Final = (
    jobs.join(payloads, payloads.c.job_id == jobs.c.id)
    .join(
        _old_jobs,
        (_old_jobs.c.run_id == bindparam("previous"))
        & (_old_jobs.c.custom_id == jobs.c.custom_id)
        & (_old_jobs.c.state == State.SUCCEEDED.value),
    )
    .join(
        _old_payloads,
        (_old_payloads.c.job_id == _old_jobs.c.id) & (_old_payloads.c.digest == payloads.c.digest),
    )
    .join(outcomes, outcomes.c.job_id == _old_jobs.c.id)
    .join(runs, runs.c.id == _old_jobs.c.run_id)
)
_THESE: Final = jobs.c.id.in_(IN_BATCH) & outcomes.c.output.is_not(None)
_SIZES: Final = select(jobs.c.id, func.length(outcomes.c.output)).select_from(_BEFORE).where(_THESE)
_CARRIED_OVER: Final = (
    select(
        jobs.c.id,
        outcomes.c.remote_id,
        outcomes.c.status,
        outcomes.c.output,
        outcomes.c.packed,
        outcomes.c.delay_ms,
        outcomes.c.execution_ms,
        outcomes.c.worker,
        runs.c.name,
    )
    .select_from(_BEFORE)
    .where(_THESE)
)


async def results_carry_over(
    transaction: Transaction, found: Sequence[ClaimableJob], previous: int, *, now: int
) -> tuple[list[ClaimableJob], bool]:
    """Ends those of these jobs, which are due, that have succeeded in the run `previous` with the same input; returns
    the others, and whether some were left out, neither sent nor ended: their results would have been too much at once.
    """
    connection = transaction.connection
    given = {"previous": previous, **batch_of([each.job.id for each in found])}
    sizes = (await connection.execute(_SIZES, given)).all()
    if not sizes:
        return list(found), False
    taken = [job for job, _ in sizes[: fitting((size for _, size in sizes), BYTES_MAX)]]
    of_job = {each.job.id: each.job for each in found}
    rows = (await connection.execute(_CARRIED_OVER, {"previous": previous, **batch_of(taken)})).all()
    await transaction.apply([_step(of_job[row.id], row, now) for row in rows])
    known = {job for job, _ in sizes}
    return [each for each in found if each.job.id not in known], len(taken) < len(sizes)


def _step(job: Job, row: Any, now: int) -> Transition:
    outcome = Outcome(
        submission=None,
        remote_id=row.remote_id,
        status=row.status,
        output=unpack(row.output, row.packed),
        delay_ms=row.delay_ms,
        execution_ms=row.execution_ms,
        worker=row.worker,
    )
    return completed(job, outcome, reason=ReasonCode.CARRIED_OVER, detail=Detail(run=row.name), at=now)
