"""What an accepted intake does to jobs that were there before: they stand elsewhere, are corrected, or are dropped."""

from typing import Final

from sqlalchemy import bindparam, delete, func, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.fair_share import PRIORITY_MAX, PRIORITY_MIN
from orchestrator.ledger.runs.input_corrections import (
    Corrected,
    inputs_correct,
)
from orchestrator.ledger.runs.input_rows import OpenIntake
from orchestrator.ledger.runs.intake_pace import ROWS_ALONE
from orchestrator.ledger.schema.job_tables import (
    intake_known,
    intake_repeats,
    intakes,
    jobs,
    payloads,
    row_metadata,
)
from orchestrator.ledger.sqlite.statements import IN_BATCH, batch_of, replace_into
from orchestrator.ledger.transactions.transaction import Transaction

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
    await connection.execute(_PLACES, page)
    await connection.execute(_ACTIONS, page)
    await connection.execute(_METADATA_FORGET, {**page, "run": intake.run})
    await connection.execute(_METADATA_SET, {**page, "run": intake.run})
    return number, (last, await inputs_correct(transaction, intake, after=after, last=last, now=now))


async def forget_some(connection: AsyncConnection, intake: int, *, most: int) -> int:
    """Removes up to `most` rows of what an intake has noted of known jobs and repeats; returns how many.

    Where nobody waits and no other intake has noted anything, a table is emptied at once, which costs next to nothing.
    """
    for notes, key in ((intake_known, intake_known.c.job_id), (intake_repeats, intake_repeats.c.base)):
        ours = notes.c.intake_id == intake
        page = (await connection.execute(select(key).where(ours).order_by(key).limit(most))).scalars().all()
        if page:
            first, last = (select(edge(notes.c.intake_id)).scalar_subquery() for edge in (func.min, func.max))
            is_all = (await connection.execute(select(first == last))).scalar_one()
            doomed = delete(notes)
            await connection.execute(doomed if is_all and most == ROWS_ALONE else doomed.where(ours, key <= page[-1]))
            return len(page)
    return 0


_DOOMED: Final = (
    select(jobs.c.id)
    .where(
        jobs.c.run_id == bindparam("run"),
        jobs.c.endpoint_id == bindparam("endpoint"),
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
    parameters = {
        "run": intake.run,
        "endpoint": intake.endpoint,
        "first_job": intake.first_job,
        "intake": intake.id,
        "most": most,
    }
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
