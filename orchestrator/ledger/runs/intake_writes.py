"""What an intake writes: its rows, that it is whole, and what it does to jobs that were there before."""

from collections import Counter
from typing import Final

import msgspec
from sqlalchemy import ColumnElement, bindparam, delete, func, insert, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.fair_share import PRIORITY_MAX, PRIORITY_MIN
from orchestrator.errors import IntakeLostError
from orchestrator.ledger.expressions import nobody_beside
from orchestrator.ledger.runs.input_corrections import Corrected, Dropped, inputs_correct
from orchestrator.ledger.runs.input_rows import OpenIntake, Sorted, rows_insert
from orchestrator.ledger.runs.intake_pace import ROWS_ALONE
from orchestrator.ledger.schema.job_tables import (
    counts,
    intake_known,
    intake_repeats,
    intakes,
    jobs,
    payloads,
    row_metadata,
    runs,
)
from orchestrator.ledger.statements import IN_BATCH, batch_of, replace_into, upsert
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.count_writes import counts_add
from orchestrator.ledger.transitions.run_messages_owed import start_owe


async def land(transaction: Transaction, intake: OpenIntake, rows: Sorted, *, now: int) -> None:
    """Takes in what can be taken, and has it count at once where the intake's jobs do so as they come."""
    connection = transaction.connection
    new, known = len(rows.fresh), len(rows.same)
    await own(connection, intake, new_rows=intakes.c.new_rows + new, known_rows=intakes.c.known_rows + known)
    await rows_insert(connection, intake, rows.fresh)
    if rows.same:
        await connection.execute(insert(intake_known), rows.same)
    if rows.repeats:
        repeats = [{"intake_id": intake.id, "base": base, "n": n} for base, n in rows.repeats.items()]
        await connection.execute(_REPEATS_SET, repeats)
    if intake.as_they_come:
        transaction.is_signalled = True
        is_accepted = update(runs).where(runs.c.id == intake.run).values(intake_accepted=intake.id)
        await connection.execute(is_accepted)
        await counts_add(connection, Counter({(intake.run, State.QUEUED.value): new}))
        if others := [row["job_id"] for row in rows.same if row["input"] is not None]:
            await inputs_correct(transaction, intake, after=min(others) - 1, last=max(others), now=now)


async def own(connection: AsyncConnection, intake: OpenIntake, **values: ColumnElement[int] | int) -> None:
    """Sets these of an intake, whose row is locked from then on. Raises `IntakeLostError` where it is this process's no
    more: one that was without its ledger for a while has no lock, and what it took in is removed as a dead one's.
    """
    is_own = (intakes.c.id == intake.id) & (intakes.c.started_at == intake.started_at)
    if (await connection.execute(update(intakes).where(is_own).values(values))).rowcount != 1:
        raise taken_over()


def taken_over() -> IntakeLostError:
    """What is said to whoever takes in by a right that it has lost."""
    return IntakeLostError(
        "another process has taken over what was read here, since this one had no connection to the ledger for a"
        " while; nothing of it is lost or sent twice: give the same command again"
    )


_REPEATS_SET = upsert(intake_repeats, lambda new: {"n": new.n})


class IntakeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an accepted intake brought. `gone`: jobs of the run that are no longer in the input."""

    rows: int
    new: int
    gone: int
    corrected: Corrected = Corrected()
    dropped: Dropped = Dropped()
    """What became of those that are gone, where they were to be dropped."""

    unsuccessful: int = 0
    """Those that are gone and have not succeeded, where they were not, as far as that was looked at."""


COUNTED: Final = select(intakes.c.new_rows, intakes.c.known_rows).where(intakes.c.id == bindparam("intake"))


JOBS_BEFORE: Final = select(func.coalesce(func.sum(counts.c.n), 0)).where(
    counts.c.run_id == bindparam("run"), counts.c.name.in_([state.value for state in State])
)


DROPPED: Final = update(intakes).where(intakes.c.id == bindparam("intake")).values(drops=0)


_TAKE: Final = (
    update(runs)
    .where(runs.c.id == bindparam("run"))
    .values(intake_accepted=bindparam("intake"), rows_accepted=bindparam("rows"))
)


async def accept(connection: AsyncConnection, intake: OpenIntake, *, drop: bool, now: int) -> IntakeResult:
    """Makes the intake's jobs exist for everybody, of which others are to `drop`, once they are all there. It counts
    nothing that is large: whoever sends waits meanwhile.
    """
    of = {"intake": intake.id, "run": intake.run}
    # Only what counts as it comes was accepted as it began, and until its end.
    await own(connection, intake, accepted_at=max(now, intake.started_at + 1), drops=int(drop))
    new, known = (await connection.execute(COUNTED, of)).one()
    before = (await connection.execute(JOBS_BEFORE, of)).scalar_one()
    await connection.execute(_TAKE, {**of, "rows": new + known})
    if intake.as_they_come:
        await start_owe(connection, intake.run, now=now)
        return IntakeResult(rows=new + known, new=new, gone=before - new - known)
    await counts_add(connection, Counter({(intake.run, State.QUEUED.value): new}))
    await start_owe(connection, intake.run, now=now)
    return IntakeResult(rows=new + known, new=new, gone=before - known)


_PAGE: Final = (
    (intake_known.c.intake_id == bindparam("intake"))
    & (intake_known.c.job_id > bindparam("after"))
    & (intake_known.c.job_id <= bindparam("last"))
)


_PLACES: Final = (
    update(jobs)
    .values(line=intake_known.c.line, priority=intake_known.c.priority)
    .where(
        jobs.c.id == intake_known.c.job_id,
        _PAGE,
        (jobs.c.line != intake_known.c.line) | (jobs.c.priority != intake_known.c.priority),
    )
)


_ACTIONS: Final = (
    update(payloads)
    .values(policy=intake_known.c.policy, s3_config=intake_known.c.s3_config)
    .where(
        payloads.c.job_id == intake_known.c.job_id,
        _PAGE,
        payloads.c.policy.is_distinct_from(intake_known.c.policy)
        | payloads.c.s3_config.is_distinct_from(intake_known.c.s3_config),
    )
)


_KNOWN_PAGE: Final = (
    select(intake_known.c.job_id)
    .where(intake_known.c.intake_id == bindparam("intake"), intake_known.c.job_id > bindparam("after"))
    .order_by(intake_known.c.job_id)
    .limit(bindparam("most"))
    .subquery()
)


_KNOWN_COUNT: Final = select(func.count(), func.max(_KNOWN_PAGE.c.job_id))


_METADATA_FORGET: Final = delete(row_metadata).where(
    row_metadata.c.run_id == bindparam("run"),
    row_metadata.c.job_id > bindparam("after"),
    row_metadata.c.job_id <= bindparam("last"),
    select(intake_known.c.job_id)
    .where(
        intake_known.c.intake_id == bindparam("intake"),
        intake_known.c.job_id == row_metadata.c.job_id,
        intake_known.c.metadata.is_(None),
    )
    .exists(),
)


_METADATA_SET: Final = replace_into(row_metadata).from_select(
    ["run_id", "job_id", "metadata"],
    select(bindparam("run", type_=row_metadata.c.run_id.type), intake_known.c.job_id, intake_known.c.metadata).where(
        _PAGE, intake_known.c.metadata.is_not(None)
    ),
)


async def revise_some(
    transaction: Transaction, intake: OpenIntake, *, after: int, most: int, now: int
) -> tuple[int, tuple[int | None, Corrected]]:
    """Gives up to `most` known jobs of an accepted intake, with numbers above `after`, their new line, priority,
    policy, s3Config, metadata and input; returns how many, the last one's number, and of how many the input is another.

    Only rows that differ are written: an unchanged input of a million rows costs little here.
    """
    connection = transaction.connection
    page = {"intake": intake.id, "after": after}
    number, last = (await connection.execute(_KNOWN_COUNT, {**page, "most": most})).one()
    if not number:
        return 0, (None, Corrected())
    page["last"] = last
    transaction.is_signalled = True
    await connection.execute(_PLACES, page)
    await connection.execute(_ACTIONS, page)
    await connection.execute(_METADATA_FORGET, {**page, "run": intake.run})
    await connection.execute(_METADATA_SET, {**page, "run": intake.run})
    return number, (last, await inputs_correct(transaction, intake, after=after, last=last, now=now))


async def forget_some(connection: AsyncConnection, intake: int, *, most: int) -> int:
    """Removes up to `most` rows of what an intake has noted of known jobs and repeats; returns how many.

    Where nobody waits and no other intake has noted anything, nor can just now, a table is emptied at once, which costs
    next to nothing.
    """
    for notes, key in ((intake_known, intake_known.c.job_id), (intake_repeats, intake_repeats.c.base)):
        ours = notes.c.intake_id == intake
        page = (await connection.execute(select(key).where(ours).order_by(key).limit(most))).scalars().all()
        if page:
            first, last = (select(edge(notes.c.intake_id)).scalar_subquery() for edge in (func.min, func.max))
            is_all = (await connection.execute(select(nobody_beside(first == last)))).scalar_one()
            doomed = delete(notes)
            await connection.execute(doomed if is_all and most == ROWS_ALONE else doomed.where(ours, key <= page[-1]))
            return len(page)
    return 0


_DOOMED: Final = (
    select(jobs.c.id)
    .where(
        jobs.c.run_id == bindparam("run"),
        jobs.c.endpoint_id == select(runs.c.endpoint_id).where(runs.c.id == bindparam("run")).scalar_subquery(),
        jobs.c.state == literal_column(f"'{State.QUEUED}'"),
        jobs.c.due_at == 0,
        jobs.c.priority.in_(literal_column(str(priority)) for priority in range(PRIORITY_MIN, PRIORITY_MAX + 1)),
        jobs.c.id >= bindparam("first_job"),
        jobs.c.intake_id == bindparam("intake"),
    )
    .limit(bindparam("most"))
)
"""By the index of what may be claimed: of the rows from its first job on, most may be those of other runs."""


async def remove_some(connection: AsyncConnection, intake: OpenIntake, *, most: int) -> int:
    """Removes up to `most` jobs of an intake that was never accepted, or what else it has noted, or at last the intake
    itself; returns how many rows.
    """
    parameters = {"run": intake.run, "first_job": intake.first_job, "intake": intake.id, "most": most}
    ids = (await connection.execute(_DOOMED, parameters)).scalars().all()
    if ids:
        doomed = batch_of(ids)
        await connection.execute(delete(payloads).where(payloads.c.job_id.in_(IN_BATCH)), doomed)
        of_run = (row_metadata.c.run_id == intake.run) & row_metadata.c.job_id.in_(IN_BATCH)
        await connection.execute(delete(row_metadata).where(of_run), doomed)
        await connection.execute(delete(jobs).where(jobs.c.id.in_(IN_BATCH)), doomed)
        return len(ids)
    if forgotten := await forget_some(connection, intake.id, most=most):
        return forgotten
    await connection.execute(delete(intakes).where(intakes.c.id == intake.id))
    return 0
