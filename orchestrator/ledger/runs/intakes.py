"""The writes of an intake: rows become jobs, which count only once the whole input was checked and accepted.

An intake lands in bounded transactions. Its jobs carry its number, and `runs.intake_accepted` says up to which number
jobs exist for everybody else. An intake may also have its jobs count as they come: each transaction then accepts what
it lands, at a cost that does not grow. Such an intake is accepted from its beginning on, and nothing of it is cleared.

Several may be at work, each for a run of its own and each in a process of its own; what one that was refused or cut off
has left is cleared before the next one of its run, and on the next open.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Select, bindparam, delete, exists, func, insert, literal_column, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.fair_share import PRIORITY_MAX, PRIORITY_MIN
from orchestrator.errors import IntakeBusyError
from orchestrator.ledger.runs.input_corrections import (
    Corrected,
    Dropped,
    Gone,
    gone_count,
    gone_drop_some,
    inputs_correct,
)
from orchestrator.ledger.runs.input_rows import Clash, Intake, PackedRow, Sorted, rows_sort
from orchestrator.ledger.runs.intake_pace import ROWS_ALONE, Pace
from orchestrator.ledger.runs.job_rows import next_job, rows_insert
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.schema.handover_tables import relays
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
from orchestrator.ledger.sqlite.statements import IN_BATCH, batch_of, replace_into, upsert
from orchestrator.ledger.transactions.group_commit import Transaction
from orchestrator.ledger.transactions.repository import Access, Repository
from orchestrator.ledger.transactions.run_removal import (
    jobs_remove_some,
    numbers_keep,
    run_remove,
    submissions_remove_some,
)
from orchestrator.ledger.transitions.count_writes import counts_add

Hold = Callable[[str], AbstractContextManager[None]]
"""Holds the right to take in for the run of that name. Raises `IntakeBusyError` where a living process has it."""

Result = TypeVar("Result")


async def _land(transaction: Transaction, intake: Intake, rows: Sorted, *, now: int) -> None:
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


_COUNTED: Final = select(intakes.c.new_rows, intakes.c.known_rows).where(intakes.c.id == bindparam("intake"))
_JOBS_BEFORE: Final = select(func.coalesce(func.sum(counts.c.n), 0)).where(
    counts.c.run_id == bindparam("run"), counts.c.name.in_([state.value for state in State])
)
_ACCEPT: Final = (
    update(intakes)
    .where(intakes.c.id == bindparam("intake"))
    .values(accepted_at=bindparam("now"), drops=bindparam("drops_too"))
)
_DROPPED: Final = update(intakes).where(intakes.c.id == bindparam("intake")).values(drops=0)
_TAKE: Final = (
    update(runs)
    .where(runs.c.id == bindparam("run"))
    .values(intake_accepted=bindparam("intake"), rows_accepted=bindparam("rows"))
)


async def _accept(connection: AsyncConnection, intake: Intake, *, drop: bool, now: int) -> IntakeResult:
    """Makes the intake's jobs exist for everybody, of which others are to `drop`, once they are all there. It counts
    nothing that is large: whoever sends waits meanwhile.
    """
    of = {"intake": intake.id, "run": intake.run}
    new, known = (await connection.execute(_COUNTED, of)).one()
    before = (await connection.execute(_JOBS_BEFORE, of)).scalar_one()
    await connection.execute(_ACCEPT, {**of, "now": now, "drops_too": int(drop)})
    await connection.execute(_TAKE, {**of, "rows": new + known})
    if intake.as_they_come:
        return IntakeResult(rows=new + known, new=new, gone=before - new - known)
    await counts_add(connection, Counter({(intake.run, State.QUEUED.value): new}))
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


async def _revise_some(
    transaction: Transaction, intake: Intake, *, after: int, most: int, now: int
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


async def _forget_some(connection: AsyncConnection, intake: int, *, most: int) -> int:
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


async def _remove_some(connection: AsyncConnection, intake: Intake, *, most: int) -> int:
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
    if forgotten := await _forget_some(connection, intake.id, most=most):
        return forgotten
    await connection.execute(delete(intakes).where(intakes.c.id == intake.id))
    return 0


_HAS_NOTES: Final = or_(
    *(exists().where(notes.c.intake_id == intakes.c.id) for notes in (intake_known, intake_repeats))
)
_IS_LEFT: Final = intakes.c.accepted_at.is_(None) | _HAS_NOTES | (intakes.c.drops == 1)
"""What has not come to its end: an intake that was never accepted, or an accepted one with something still to do."""

_LEFT: Final = (
    select(intakes.c.id, intakes.c.run_id, runs.c.endpoint_id, intakes.c.first_job, intakes.c.accepted_at)
    .select_from(intakes.join(runs, runs.c.id == intakes.c.run_id))
    .where(runs.c.name == bindparam("name"), _IS_LEFT)
)
_NEVER_ACCEPTED: Final = runs.c.intake_accepted == 0
_NAMES_LEFT: Final = select(runs.c.name).where(
    _NEVER_ACCEPTED | runs.c.id.in_(select(intakes.c.run_id).where(_IS_LEFT))
)


_IS_RELAYED: Final = (
    select(relays.c.to_run)
    .where((relays.c.from_run == bindparam("run")) | (relays.c.to_run == bindparam("run")))
    .limit(1)
)

_NOTHING: Final[Select[Any]] = select(literal_column("0"))


class Intakes(Repository):
    """The intakes of a ledger. Whoever takes in for a run holds its lock, from before the run is looked up or made."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self.pace = Pace()

    async def start(self, run: Run, *, as_they_come: bool = False) -> Intake:
        """Begins an intake for `run`, whose jobs count `as_they_come` or once it is accepted; what an earlier one left
        was cleared.
        """

        async def block(transaction: Transaction) -> Intake:
            first_job = await next_job(transaction.connection)
            now = self._access.now()
            accepted_at = now if as_they_come else None
            is_relayed = (await transaction.connection.execute(_IS_RELAYED, {"run": run.id})).first() is not None
            row = {"run_id": run.id, "started_at": now, "accepted_at": accepted_at, "first_job": first_job}
            made = await transaction.connection.execute(insert(intakes), row)
            assert made.inserted_primary_key is not None
            number = made.inserted_primary_key[0]
            return Intake(
                id=number,
                run=run.id,
                endpoint=run.endpoint_id,
                first_job=first_job,
                as_they_come=as_they_come,
                corrects=not is_relayed,
            )

        return await self._access.write(block)

    async def last_line(self, run: int) -> int:
        """The last line that a job of `run` stands on; 0 where it has none."""
        last = select(func.coalesce(func.max(jobs.c.line), 0)).where(jobs.c.run_id == run)
        return int(await self._access.value(last))

    async def add(self, intake: Intake, rows: Sequence[PackedRow]) -> list[Clash]:
        """Takes in rows, numbering repeated inputs; returns those that cannot be taken, which leave no trace."""
        clashes: list[Clash] = []
        begin = 0
        while begin < len(rows):
            ahead = rows[begin : begin + self.pace.rows]
            part = ahead[: self.pace.fitting(row.size for row in ahead)]
            clashes += await self._add(intake, part)
            begin += len(part)
        return clashes

    async def _add(self, intake: Intake, rows: Sequence[PackedRow]) -> list[Clash]:
        """Beside others the rows are sorted before the transaction; else in it, whose connection has the pages."""
        before: Sorted | None = None
        if self.pace.is_beside():
            async with self._access.reading() as connection:
                before = await rows_sort(connection, intake, rows)

        async def block(transaction: Transaction) -> tuple[int, list[Clash]]:
            found = before or await rows_sort(transaction.connection, intake, rows)
            await _land(transaction, intake, found, now=self._access.now())
            return len(rows), found.clashes

        return await self._paced(block)

    async def gone(self, intake: Intake) -> Gone:
        """The jobs of the run that are not among the rows that `intake` has taken in, where such can be dropped."""
        if not intake.corrects:
            return Gone()
        async with self._access.reading() as connection:
            of = {"intake": intake.id, "run": intake.run}
            known = (await connection.execute(_COUNTED, of)).one()[1]
            if (await connection.execute(_JOBS_BEFORE, of)).scalar_one() == known:
                return Gone()
            return await gone_count(connection, intake)

    async def accept(self, intake: Intake, *, drop: bool = False) -> IntakeResult:
        """The whole input was checked: its jobs exist from now on. Known jobs get what their rows say now, and with
        `drop` those go that it does not have and that have not succeeded.
        """

        async def block(transaction: Transaction) -> IntakeResult:
            now = self._access.now()
            return await _accept(transaction.connection, intake, drop=drop and intake.corrects, now=now)

        taken = await self._access.write(block)
        corrected, dropped = await self._settle(intake)
        return msgspec.structs.replace(taken, corrected=corrected, dropped=dropped)

    async def clear(self, name: str) -> None:
        """Brings every intake of the run called `name` to its end: one that was never accepted is removed, and with it
        a run that has no other, or whose intakes were taken back; what an accepted one had still to do is done.
        """
        for number, run, endpoint, first_job, accepted_at in await self._access.rows(_LEFT, {"name": name}):
            intake = Intake(id=number, run=run, endpoint=endpoint, first_job=first_job)
            if accepted_at is None:
                await self._pages(partial(_remove_some, intake=intake))
                await self._shrink()
            else:
                await self._settle(intake)
        for (run,) in await self._access.rows(select(runs.c.id).where(runs.c.name == name, _NEVER_ACCEPTED)):
            await self._remove(run)

    async def _remove(self, run: int) -> None:
        """Removes a run of which nothing is accepted, and all that is left of it."""

        async def number(transaction: Transaction) -> None:
            await numbers_keep(transaction.connection, run)

        async def itself(transaction: Transaction) -> None:
            await run_remove(transaction.connection, run)

        if await self._access.rows(select(jobs.c.id).where(jobs.c.run_id == run).limit(1)):
            await self._access.write(number)
            after: int | None = 0
            while after is not None:
                after = await self._remove_submissions(run, after)
            await self._pages(partial(jobs_remove_some, run=run))
        await self._access.write(itself)
        await self._shrink()

    async def _remove_submissions(self, run: int, after: int) -> int | None:
        async def block(transaction: Transaction) -> tuple[int, int | None]:
            return await submissions_remove_some(transaction.connection, run, after=after, most=self.pace.rows)

        return await self._paced(block)

    async def clear_dead(self, hold: Hold) -> None:
        """The same for every run for which no living process takes in."""
        for (name,) in await self._access.rows(_NAMES_LEFT):
            with suppress(IntakeBusyError), hold(name):
                await self.clear(name)

    async def _settle(self, intake: Intake) -> tuple[Corrected, Dropped]:
        """What is to be done once an intake was accepted, however often that was begun."""
        corrected, dropped = Corrected(), Dropped()
        left = select(intakes.c.drops).where(intakes.c.id == intake.id, _HAS_NOTES | (intakes.c.drops == 1))
        found = await self._access.rows(left)
        if not found:
            return corrected, dropped
        after: int | None = 0
        while after is not None:
            after, page = await self._revise(intake, after)
            corrected = corrected.and_(page)
        after = 0 if found[0][0] else None
        while after is not None:
            after, some = await self._drop(intake, after)
            dropped = dropped.and_(some)
        await self._access.execute(_DROPPED, {"intake": intake.id})
        await self._pages(partial(_forget_some, intake=intake.id))
        return corrected, dropped

    async def _revise(self, intake: Intake, after: int) -> tuple[int | None, Corrected]:
        async def block(transaction: Transaction) -> tuple[int, tuple[int | None, Corrected]]:
            return await _revise_some(transaction, intake, after=after, most=self.pace.rows, now=self._access.now())

        return await self._paced(block)

    async def _drop(self, intake: Intake, after: int) -> tuple[int | None, Dropped]:
        async def block(transaction: Transaction) -> tuple[int, tuple[int | None, Dropped]]:
            most, now = self.pace.rows, self._access.now()
            number, last, dropped = await gone_drop_some(transaction, intake, after=after, most=most, now=now)
            return number, (last, dropped)

        return await self._paced(block)

    async def _pages(self, page: Callable[..., Awaitable[int]]) -> None:
        """Executes `page` until it finds nothing more to do."""

        async def block(transaction: Transaction) -> tuple[int, bool]:
            done = await page(transaction.connection, most=self.pace.rows)
            return done, done > 0

        while await self._paced(block):
            pass

    async def _shrink(self) -> None:
        """Gives back the room of what was removed."""
        pages = 1
        while pages:
            began_at = self._access.now()
            pages = await self._access.give_back(self.pace.rows)
            await self.pace.rest(pages, self._access.now() - began_at)

    async def _paced(self, block: Callable[[Transaction], Awaitable[tuple[int, Result]]]) -> Result:
        """Executes `block`, which also tells how many rows it wrote, and rests."""

        async def timed(transaction: Transaction) -> tuple[int, int, Result]:
            await transaction.connection.execute(_NOTHING)  # a BEGIN goes along with the first statement
            began_at = self._access.now()
            return began_at, *await block(transaction)

        began_at, rows, result = await self._access.write(timed)
        await self.pace.rest(rows, self._access.now() - began_at)
        return result
