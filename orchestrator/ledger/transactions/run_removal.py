"""Removes all rows of a run that does not count any more, a page at a time.

A run is deleted like an intake that was refused: first it is taken back that anything of it was accepted
(`Runs.take_back`), and from then on it is no run for anybody; whatever is left of it is cleared, now, or on the next
open if the process ends meanwhile.

The largest numbers of events and submissions stay taken, by rows of no job: who reads the feed from a place on would
miss what came later with a smaller number, and a webhook of a submission that is gone must not be one of a later one.
"""

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import bindparam, delete, func, literal_column, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.ledger.expressions import unindexed
from orchestrator.ledger.schema.flow_tables import episodes, run_outbox
from orchestrator.ledger.schema.handover_tables import (
    gathers,
    groups,
    handovers,
    lineage,
    owed,
    relays,
    reusable,
    reused,
)
from orchestrator.ledger.schema.job_tables import (
    AT_SERVICE,
    batches,
    brakes,
    checkpoints,
    clusters,
    counts,
    events,
    exports,
    failed_executions,
    intakes,
    jobs,
    margins,
    notices,
    outcomes,
    payloads,
    progress,
    retried_kinds,
    row_metadata,
    run_endpoints,
    runs,
    submissions,
)
from orchestrator.ledger.schema.pod_tables import OPEN_LEASE, pod_leases
from orchestrator.ledger.schema.sample_tables import run_samples
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.ledger.transactions.run_controls import HAS_UNFINISHED

NO_JOB: Final = 0
"""The number of the job of rows that are kept for their own numbers only."""

_AT_SERVICE: Final = (
    select(literal_column("1"))
    .where(
        counts.c.run_id == runs.c.id,
        counts.c.n > 0,
        counts.c.name.in_([state.value for state in sorted(AT_SERVICE)]),
    )
    .exists()
)
_HAS_PODS: Final = select(literal_column("1")).where(pod_leases.c.run == runs.c.id, OPEN_LEASE).exists()
_TAKE_BACK: Final = update(runs).where(runs.c.id == bindparam("run")).values(intake_accepted=0)
_OF_RUN: Final = select(jobs.c.id).where(jobs.c.run_id == bindparam("run"))
_SUBMISSIONS_END: Final = select(func.max(submissions.c.id)).where(
    submissions.c.id.in_(
        select(submissions.c.id)
        .where(submissions.c.id > bindparam("after"))
        .order_by(submissions.c.id)
        .limit(bindparam("most"))
    )
)
_SUBMISSIONS_PAGE: Final = (
    select(submissions.c.id)
    .select_from(submissions.join(jobs, jobs.c.id == submissions.c.job_id))
    .where(
        submissions.c.id > bindparam("after"),
        submissions.c.id <= bindparam("upto"),
        unindexed(jobs.c.run_id) == bindparam("run"),
    )
)
_KEEP_EVENT: Final = (
    update(events)
    .values(job_id=NO_JOB, submission_id=None)
    .where(events.c.id == select(func.max(events.c.id)).scalar_subquery(), events.c.job_id.in_(_OF_RUN))
)
_KEEP_SUBMISSION: Final = (
    update(submissions)
    .values(job_id=NO_JOB, cancel_at=None)
    .where(submissions.c.id == select(func.max(submissions.c.id)).scalar_subquery(), submissions.c.job_id.in_(_OF_RUN))
)
_latest = submissions.alias("latest")
_FORGET_NOTICES: Final = delete(notices).where(
    notices.c.submission_id == select(func.max(submissions.c.id)).scalar_subquery(),
    select(_latest.c.id).where(_latest.c.id == notices.c.submission_id, _latest.c.job_id == NO_JOB).exists(),
)


async def run_take_back(connection: AsyncConnection, run: int, *, even_if_cancelling: bool) -> bool:
    """Takes back that any intake of `run` was accepted. False where jobs of it are at the service; those of a run that
    is to be cancelled are given up, `even_if_cancelling`. False, too, while a pod of it may be paid: of a run that is
    none, nobody of several processes would end it.
    """
    may_go = or_(~_AT_SERVICE, runs.c.cancel_requested == 1) if even_if_cancelling else ~_AT_SERVICE
    return (await connection.execute(_TAKE_BACK.where(may_go, ~_HAS_PODS), {"run": run})).rowcount > 0


async def run_has_pods(connection: AsyncConnection, run: int) -> bool:
    """Whether a pod of `run` may still be paid."""
    found = await connection.execute(select(runs.c.id).where(runs.c.id == run, _HAS_PODS))
    return found.first() is not None


async def run_give_up(connection: AsyncConnection, run: int) -> bool:
    """Has a run that is over be none any more; what is left of it is to be cleared (`Intakes.clear`). False where
    somebody has something of it done again.
    """
    is_at_work = select(runs.c.id).where(runs.c.id == run, HAS_UNFINISHED)
    if (await connection.execute(is_at_work)).first() is not None:
        return False
    return await run_take_back(connection, run, even_if_cancelling=False)


async def numbers_keep(connection: AsyncConnection, run: int) -> None:
    """Keeps the largest numbers taken, where rows of `run` have them."""
    for keep in (_KEEP_EVENT, _KEEP_SUBMISSION):
        await connection.execute(keep, {"run": run})
    await connection.execute(_FORGET_NOTICES)


async def submissions_remove_some(
    connection: AsyncConnection, run: int, *, after: int, most: int
) -> tuple[int, int | None]:
    """Removes the submissions of `run`, and their notices, among the `most` after `after`; returns how many were looked
    at, and the last one's number, None at the end.
    """
    upto = (await connection.execute(_SUBMISSIONS_END, {"after": after, "most": most})).scalar()
    if upto is None:
        return 0, None
    page = {"run": run, "after": after, "upto": upto}
    doomed = batch_of((await connection.execute(_SUBMISSIONS_PAGE, page)).scalars())
    await connection.execute(delete(notices).where(notices.c.submission_id.in_(IN_BATCH)), doomed)
    await connection.execute(delete(submissions).where(submissions.c.id.in_(IN_BATCH)), doomed)
    return most, upto


async def jobs_remove_some(connection: AsyncConnection, run: int, *, most: int) -> int:
    """Removes up to `most` jobs of `run` with all that is theirs but their submissions; returns how many."""
    some = _OF_RUN.limit(most).with_for_update()  # a late answer may be written to one of them just now
    ids = (await connection.execute(some, {"run": run})).scalars().all()
    if ids:
        await _jobs_remove(connection, run, ids)
    return len(ids)


async def _jobs_remove(connection: AsyncConnection, run: int, ids: Sequence[int]) -> None:
    doomed = batch_of(ids)
    for table in (
        payloads,
        outcomes,
        failed_executions,
        events,
        progress,
        checkpoints,
        owed,
        handovers,
        reusable,
        reused,
    ):
        await connection.execute(delete(table).where(table.c.job_id.in_(IN_BATCH)), doomed)
    of_run = (row_metadata.c.run_id == run) & row_metadata.c.job_id.in_(IN_BATCH)
    await connection.execute(delete(row_metadata).where(of_run), doomed)
    await connection.execute(delete(lineage).where(lineage.c.child.in_(IN_BATCH)), doomed)
    await connection.execute(delete(jobs).where(jobs.c.id.in_(IN_BATCH)), doomed)


_SUBMISSIONS_OF: Final = select(events.c.submission_id).where(
    events.c.job_id.in_(IN_BATCH), events.c.submission_id.is_not(None)
)
_KEEP_LATEST_EVENT: Final = (
    update(events)
    .values(job_id=NO_JOB, submission_id=None)
    .where(events.c.id == select(func.max(events.c.id)).scalar_subquery(), events.c.job_id.in_(IN_BATCH))
)
_KEEP_LATEST_SUBMISSION: Final = (
    update(submissions)
    .values(job_id=NO_JOB, cancel_at=None)
    .where(submissions.c.id == select(func.max(submissions.c.id)).scalar_subquery(), submissions.c.job_id.in_(IN_BATCH))
)


async def submissions_of(connection: AsyncConnection, ids: Sequence[int], *, is_pruned: bool) -> frozenset[int]:
    """The submissions of these jobs: as their events name them, or, where some of these are gone, by going through all
    there are.
    """
    query = select(submissions.c.id).where(submissions.c.job_id.in_(IN_BATCH)) if is_pruned else _SUBMISSIONS_OF
    return frozenset((await connection.execute(query, batch_of(ids))).scalars())


async def jobs_remove(connection: AsyncConnection, run: int, ids: Sequence[int], opened: Collection[int]) -> None:
    """Removes these jobs of `run`, which goes on, with all that is theirs, the submissions `opened` included; counts
    are the caller's.
    """
    doomed, named = batch_of(ids), batch_of(opened)
    for keep in (_KEEP_LATEST_EVENT, _KEEP_LATEST_SUBMISSION):
        await connection.execute(keep, doomed)
    await connection.execute(delete(notices).where(notices.c.submission_id.in_(IN_BATCH)), named)
    left = submissions.c.id.in_(IN_BATCH) & (submissions.c.job_id != NO_JOB)
    await connection.execute(delete(submissions).where(left), named)
    await _jobs_remove(connection, run, ids)


async def run_remove(connection: AsyncConnection, run: int) -> None:
    """Removes `run` itself, of which no job is left, unless an intake of it counts."""
    never = (runs.c.id == run) & (runs.c.intake_accepted == 0)
    if (await connection.execute(select(runs.c.id).where(never))).scalar() is None:
        return
    for table in (
        *(brakes, clusters, retried_kinds, counts, margins, intakes, run_endpoints, run_outbox, exports),
        *(episodes, run_samples, batches),
    ):
        await connection.execute(delete(table).where(table.c.run_id == run))
    await connection.execute(delete(relays).where((relays.c.from_run == run) | (relays.c.to_run == run)))
    await connection.execute(delete(gathers).where((gathers.c.run == run) | (gathers.c.to_run == run)))
    for table in (owed, groups):
        await connection.execute(delete(table).where(table.c.to_run == run))
    await connection.execute(delete(row_metadata).where(row_metadata.c.run_id == run))
    await connection.execute(delete(runs).where(never))
