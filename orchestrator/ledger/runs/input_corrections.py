"""What a corrected input changes of a run: jobs whose row has another input by now, and jobs that have no row any more.

A job that gets another input is removed, and its row is a new job under the same custom_id: so no result of the old
input, however late it comes, can be taken for one of the new. Nobody loses a result, nor what is at the service: a job
that has succeeded is never touched, and one that is at the service is cancelled there and kept, with what it cost.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import Select, bindparam, func, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transitions import cancelled_on_request
from orchestrator.ledger.runs.input_rows import CORRECTED, JOB_NUMBERS, OpenIntake, PackedRow, rows_insert
from orchestrator.ledger.schema.job_columns import job_of, select_jobs
from orchestrator.ledger.schema.job_tables import brakes, intake_known, jobs, outcomes, runs, submissions
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.ledger.transactions.run_removal import jobs_remove, submissions_of
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.count_writes import counts_add
from orchestrator.ledger.transitions.error_kinds import kinds_reduce


class RemovedRows(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a run that are no longer in its input, by whether they can be dropped."""

    succeeded: int = 0
    waiting: int = 0
    """Those that have not succeeded, and of which nothing is at the service."""

    at_service: int = 0

    @property
    def unsuccessful(self) -> int:
        """Those that have not succeeded."""
        return self.waiting + self.at_service


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """What became of jobs that were no longer in the input."""

    removed: int = 0
    cancelled: int = 0
    """Those that are cancelled at the service, and stay in the run."""

    def and_(self, other: "Dropped") -> "Dropped":
        """Both together."""
        return Dropped(removed=self.removed + other.removed, cancelled=self.cancelled + other.cancelled)


class Corrected(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs have got the inputs that their rows have now."""

    done: int = 0
    late: int = 0
    """Those that were sent, with the former input, before they could."""

    def and_(self, other: "Corrected") -> "Corrected":
        """Both together."""
        return Corrected(done=self.done + other.done, late=self.late + other.late)


_IS_GONE: Final = (
    (jobs.c.run_id == bindparam("run"))
    & (jobs.c.intake_id < bindparam("intake"))
    & ~select(intake_known.c.job_id)
    .where(intake_known.c.intake_id == bindparam("intake"), intake_known.c.job_id == jobs.c.id)
    .exists()
)
_GONE: Final = select(jobs.c.state, func.count()).where(_IS_GONE).group_by(jobs.c.state)
_GONE_PAGE: Final = (
    select_jobs()
    .where(_IS_GONE, jobs.c.state != literal_column(f"'{State.SUCCEEDED}'"), jobs.c.id > bindparam("after"))
    .order_by(jobs.c.id)
    .limit(bindparam("most"))
    .with_for_update(of=jobs)
)


async def gone_count(connection: AsyncConnection, intake: OpenIntake) -> RemovedRows:
    """What of the run is not among the rows that `intake`, which is not accepted yet, has taken in."""
    found = Counter(
        {State(row[0]): row[1] for row in await connection.execute(_GONE, {"run": intake.run, "intake": intake.id})}
    )
    succeeded, waiting = found.pop(State.SUCCEEDED, 0), sum(found.pop(state, 0) for state in CORRECTED)
    return RemovedRows(succeeded=succeeded, waiting=waiting, at_service=found.total())


async def gone_drop_some(
    transaction: Transaction, intake: OpenIntake, *, after: int, most: int, now: int
) -> tuple[int, int | None, Dropped]:
    """Drops up to `most` of the jobs after the one with the number `after` that are not in the input of `intake`, which
    is accepted, and have not succeeded; returns how many were looked at, the last one's number, None at the end, and
    what became of them.
    """
    connection = transaction.connection
    page = {"run": intake.run, "intake": intake.id, "after": after, "most": most}
    found = [job_of(row) for row in await connection.execute(_GONE_PAGE, page)]
    if not found:
        return 0, None, Dropped()
    transaction.is_signalled = True
    removed = await _remove(transaction, intake.run, [job for job in found if job.state in CORRECTED], now=now)
    cancelled = await _cancel(transaction, [job for job in found if job.state not in CORRECTED], now=now)
    return len(found), found[-1].id, Dropped(removed=len(removed), cancelled=cancelled)


_OWE: Final = (
    update(submissions)
    .values(cancel_at=bindparam("now"), cancel_why=CancelWhy.CHOSEN.value)
    .where(submissions.c.id.in_(IN_BATCH), submissions.c.cancel_why.is_distinct_from(CancelWhy.CHOSEN.value))
)


async def _cancel(transaction: Transaction, there: Sequence[Job], *, now: int) -> int:
    """Has them cancelled at the service, as by `Cancels.cancel`; nothing can be said of requests that are under way."""
    unsure = [job for job in there if job.state is State.UNCERTAIN]
    ended = await transaction.apply([cancelled_on_request(job, at=now, alone=True) for job in unsure])
    known = batch_of([job.submission for job in there if job.state is State.OUTSTANDING])
    return len(ended) + (await transaction.connection.execute(_OWE, {**known, "now": now})).rowcount


_ARE_OWED: Final = select(submissions.c.job_id).where(
    submissions.c.id.in_(IN_BATCH), submissions.c.cancel_at.is_not(None)
)
_ENDED: Final = select(jobs.c.id).where(
    jobs.c.id.in_(IN_BATCH),
    jobs.c.ended_at < select(runs.c.pruned_before).where(runs.c.id == bindparam("run")).scalar_subquery(),
)
_KINDS: Final = (
    select(outcomes.c.error_key, func.count())
    .where(outcomes.c.job_id.in_(IN_BATCH), outcomes.c.error_key.is_not(None))
    .group_by(outcomes.c.error_key)
)
_CANARY: Final = select(brakes.c.canary).where(brakes.c.run_id == bindparam("run"), brakes.c.canary.is_not(None))
_CANARY_SET: Final = update(brakes).where(brakes.c.run_id == bindparam("of")).values(canary=bindparam("left"))


async def _remove(transaction: Transaction, run: int, doomed: Sequence[Job], *, now: int) -> frozenset[int]:
    """Removes these jobs, of which nothing is at the service; returns which: not one whose `/cancel` is owed yet.

    Those that are queued are cancelled first, so that whoever counts steps hears of it.
    """
    connection = transaction.connection
    ids = [job.id for job in doomed]
    if not ids:
        return frozenset()
    is_pruned = (await connection.execute(_ENDED, {**batch_of(ids), "run": run})).first() is not None
    opened = await submissions_of(connection, ids, is_pruned=is_pruned)
    owed = frozenset((await connection.execute(_ARE_OWED, batch_of(opened))).scalars())
    doomed = [job for job in doomed if job.id not in owed]
    if owed:
        opened = await submissions_of(connection, [job.id for job in doomed], is_pruned=is_pruned)
    queued = [job for job in doomed if job.state is State.QUEUED]
    ended = await transaction.apply([cancelled_on_request(job, at=now, alone=True) for job in queued])
    states = Counter(job.state for job in doomed if job.state is not State.QUEUED)
    states[State.CANCELLED] += len(ended)
    ids = [job.id for job in doomed]
    kinds = {(run, row[0]): row[1] for row in await connection.execute(_KINDS, batch_of(ids))}
    await kinds_reduce(connection, kinds)
    await jobs_remove(connection, run, ids, opened)
    await counts_add(connection, Counter({(run, state.value): -n for state, n in states.items()}))
    await _canary_forget(connection, run, frozenset(ids))
    return frozenset(ids)


async def _canary_forget(connection: AsyncConnection, run: int, gone: frozenset[int]) -> None:
    """Where rows go first, and none of them is left, others are chosen."""
    stored = (await connection.execute(_CANARY, {"run": run})).scalar()
    if stored is None:
        return
    chosen = msgspec.json.decode(stored, type=tuple[int, ...])
    left = tuple(job for job in chosen if job not in gone)
    if len(left) < len(chosen):
        await connection.execute(_CANARY_SET, {"of": run, "left": msgspec.json.encode(left) if left else None})


_OF_ROW: Final = ("line", "input", "packed", "digest", "policy", "s3_config", "priority", "metadata")
_OTHERS: Final[Select[Any]] = (
    select(intake_known.c.job_id, *(intake_known.c[name] for name in _OF_ROW))
    .where(
        intake_known.c.intake_id == bindparam("intake"),
        intake_known.c.job_id > bindparam("after"),
        intake_known.c.job_id <= bindparam("last"),
        intake_known.c.input.is_not(None),
    )
    .order_by(intake_known.c.job_id)
)
_JOBS_LOCKED: Final = select_jobs().where(jobs.c.id.in_(IN_BATCH)).with_for_update(of=jobs)
"""Nobody claims one of them meanwhile: whoever serves the run may be another process."""

_CUSTOM_IDS: Final = select(jobs.c.id, jobs.c.custom_id).where(jobs.c.id.in_(IN_BATCH))
_DONE: Final = (
    update(intake_known)
    .values(input=None)
    .where(intake_known.c.intake_id == bindparam("of"), intake_known.c.job_id.in_(IN_BATCH))
)


async def inputs_correct(transaction: Transaction, intake: OpenIntake, *, after: int, last: int, now: int) -> Corrected:
    """Gives the rows that `intake` has found with other inputs, of jobs with numbers above `after` up to `last`, jobs
    of their own in place of these. One that was sent meanwhile stays what it is.
    """
    connection = transaction.connection
    others = {
        row.job_id: row
        for row in await connection.execute(_OTHERS, {"intake": intake.id, "after": after, "last": last})
    }
    if not others:
        return Corrected()
    rows = await connection.execute(_JOBS_LOCKED, batch_of(others))
    found = [job for row in rows if (job := job_of(row)).state in CORRECTED]
    rows = await connection.execute(_CUSTOM_IDS, batch_of([job.id for job in found]))
    names: dict[int, str] = {row[0]: row[1] for row in rows}
    first = await JOB_NUMBERS.following(connection)  # a number that was somebody's is nobody else's in the same breath
    removed = await _remove(transaction, intake.run, found, now=now)
    fresh = {names[job]: _row_of(others[job], names[job]) for job in sorted(removed)}
    await rows_insert(connection, replace(intake, first_job=max(intake.first_job, first)), fresh)
    await counts_add(connection, Counter({(intake.run, State.QUEUED.value): len(fresh)}))
    await connection.execute(_DONE, {"of": intake.id, **batch_of(others)})
    return Corrected(done=len(fresh), late=len(others) - len(fresh))


def _row_of(row: Any, custom_id: str) -> PackedRow:
    return PackedRow(custom_id=custom_id, derived=False, **{name: getattr(row, name) for name in _OF_ROW})
