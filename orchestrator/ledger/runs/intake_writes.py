"""What an intake writes: its rows, that it is whole, and what it changes of jobs that are there already."""

from collections import Counter
from typing import Final

import msgspec
from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.runs.input_corrections import (
    Corrected,
    Dropped,
    inputs_correct,
)
from orchestrator.ledger.runs.input_rows import OpenIntake, Sorted
from orchestrator.ledger.runs.job_rows import rows_insert
from orchestrator.ledger.schema.job_tables import (
    counts,
    intake_known,
    intake_repeats,
    intakes,
    runs,
)
from orchestrator.ledger.sqlite.statements import upsert
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.count_writes import counts_add


async def land(transaction: Transaction, intake: OpenIntake, rows: Sorted, *, now: int) -> None:
    """Takes in what can be taken, and has it count at once where the intake's jobs do so as they come."""
    connection = transaction.connection
    await rows_insert(connection, intake, rows.fresh)
    if rows.same:
        await connection.execute(insert(intake_known), rows.same)
    if rows.repeats:
        repeats = [{"intake_id": intake.id, "base": base, "n": n} for base, n in rows.repeats.items()]
        await connection.execute(_REPEATS_SET, repeats)
    new, known = len(rows.fresh), len(rows.same)
    counted = {"new_rows": intakes.c.new_rows + new, "known_rows": intakes.c.known_rows + known}
    if intake.as_they_come:
        is_accepted = update(runs).where(runs.c.id == intake.run).values(intake_accepted=intake.id)
        await connection.execute(is_accepted)
        await counts_add(connection, Counter({(intake.run, State.QUEUED.value): new}))
        if others := [row["job_id"] for row in rows.same if row["input"] is not None]:
            await inputs_correct(transaction, intake, after=min(others) - 1, last=max(others), now=now)
    await connection.execute(update(intakes).where(intakes.c.id == intake.id).values(counted))


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


_ACCEPT: Final = (
    update(intakes)
    .where(intakes.c.id == bindparam("intake"))
    .values(accepted_at=bindparam("now"), drops=bindparam("drops_too"))
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
    new, known = (await connection.execute(COUNTED, of)).one()
    before = (await connection.execute(JOBS_BEFORE, of)).scalar_one()
    await connection.execute(_ACCEPT, {**of, "now": now, "drops_too": int(drop)})
    await connection.execute(_TAKE, {**of, "rows": new + known})
    if intake.as_they_come:
        return IntakeResult(rows=new + known, new=new, gone=before - new - known)
    await counts_add(connection, Counter({(intake.run, State.QUEUED.value): new}))
    return IntakeResult(rows=new + known, new=new, gone=before - known)
