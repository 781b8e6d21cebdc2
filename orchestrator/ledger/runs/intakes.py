"""The writes of an intake: rows become jobs, which count only once the whole input was checked and accepted.

An intake lands in bounded transactions. Its jobs carry its number, and `runs.intake_accepted` says up to which number
jobs exist for everybody else. An intake may also have its jobs count as they come: each transaction then accepts what
it lands, at a cost that does not grow. Such an intake is accepted from its beginning on, and nothing of it is cleared.

Several may be at work, each for a run of its own and each in a process of its own; what one that was refused or cut off
has left is cleared before the next one of its run, and on the next open.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Select, bindparam, exists, func, insert, literal_column, or_, select, update

from orchestrator.errors import IntakeBusyError, LedgerUnavailableError
from orchestrator.ledger.runs.input_corrections import Corrected, Dropped, RemovedRows, gone_count, gone_drop_some
from orchestrator.ledger.runs.input_rows import JOB_NUMBERS, Clash, OpenIntake, PackedRow, Sorted, rows_sort
from orchestrator.ledger.runs.intake_pace import Pace
from orchestrator.ledger.runs.intake_writes import (
    COUNTED,
    DROPPED,
    JOBS_BEFORE,
    IntakeResult,
    accept,
    forget_some,
    land,
    remove_some,
    revise_some,
    taken_over,
)
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.schema.handover_tables import relays
from orchestrator.ledger.schema.job_tables import intake_known, intake_repeats, intakes, jobs, runs
from orchestrator.ledger.transactions.repository import Access, Repository, asked_again, shared
from orchestrator.ledger.transactions.run_removal import (
    jobs_remove_some,
    numbers_keep,
    run_remove,
    submissions_remove_some,
)
from orchestrator.ledger.transactions.transaction import Transaction


class IntakeRight:
    """The right to take rows in for a run, which somebody has: for good, where it lies beside the ledger in a file."""

    @property
    def is_lost(self) -> bool:
        """Whether somebody else can have it by now."""
        return False

    async def keep(self) -> None:
        """Sees to it that it is not lost, until it is let go of or somebody else has it."""


Hold = Callable[[str], AbstractAsyncContextManager[IntakeRight]]
"""Holds the right to take in for the run of that name. Raises `IntakeBusyError` where a living process has it."""

Result = TypeVar("Result")


_HAS_NOTES: Final = or_(
    *(exists().where(notes.c.intake_id == intakes.c.id) for notes in (intake_known, intake_repeats))
)
_IS_LEFT: Final = intakes.c.accepted_at.is_(None) | _HAS_NOTES | (intakes.c.drops == 1)
"""What has not come to its end: an intake that was never accepted, or an accepted one with something still to do."""

_LEFT: Final = (
    select(intakes.c.id, intakes.c.run_id, intakes.c.first_job, intakes.c.accepted_at)
    .select_from(intakes.join(runs, runs.c.id == intakes.c.run_id))
    .where(runs.c.name == bindparam("name"), _IS_LEFT)
)
_NEVER_ACCEPTED: Final = runs.c.intake_accepted == 0
_NAMES_LEFT: Final = select(runs.c.name).where(
    _NEVER_ACCEPTED | runs.c.id.in_(select(intakes.c.run_id).where(_IS_LEFT))
)


_LATEST: Final = (
    select(func.max(intakes.c.id))
    .select_from(intakes.join(runs, runs.c.id == intakes.c.run_id))
    .where(runs.c.name == bindparam("name"))
)
_IS_OPEN: Final = intakes.c.accepted_at.is_(None) | (intakes.c.accepted_at == intakes.c.started_at)
"""Somebody has begun it, and not ended it."""

_OPEN_TO_NOBODY: Final = (
    update(intakes)
    .where(intakes.c.id == _LATEST.scalar_subquery(), _IS_OPEN)
    .values(started_at=intakes.c.started_at - 1)
)
"""Whoever had begun the latest one, and not ended it, may be alive all the same: it writes nothing more of it
(`intake_writes.own`).
"""

_RUN_LOCKED: Final = select(runs.c.id).where(runs.c.id == bindparam("run")).with_for_update()
_LATEST_OF_RUN: Final = select(func.max(intakes.c.id)).where(intakes.c.run_id == bindparam("run"))
_AT_WORK: Final = select(intakes.c.id).where(intakes.c.id == _LATEST_OF_RUN.scalar_subquery(), _IS_OPEN)

_LOCKED: Final = select(intakes.c.id).where(intakes.c.id == bindparam("intake")).with_for_update()
"""Whoever does what an accepted intake has still to do may not be the only one: each of its pages comes after another,
and none after its end.
"""

_DROPS: Final = _LOCKED.where(intakes.c.drops == 1)
"""The same, while there is anything to drop: afterwards it is forgotten which jobs are in the input."""

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

    @shared
    async def start(self, transaction: Transaction, run: Run, *, as_they_come: bool = False) -> OpenIntake:
        """Begins an intake for `run`, whose jobs count `as_they_come` or once it is accepted; what an earlier one left
        was cleared. Raises `IntakeLostError` where another process has begun one since, or has removed the run.
        """
        of = {"run": run.id}
        is_there = (await transaction.connection.execute(_RUN_LOCKED, of)).first() is not None
        if not is_there or (await transaction.connection.execute(_AT_WORK, of)).first() is not None:
            raise taken_over()
        first_job = await JOB_NUMBERS.following(transaction.connection)
        now = self._access.now()
        accepted_at = now if as_they_come else None
        is_relayed = (await transaction.connection.execute(_IS_RELAYED, of)).first() is not None
        row = {"run_id": run.id, "started_at": now, "accepted_at": accepted_at, "first_job": first_job}
        made = await transaction.connection.execute(insert(intakes), row)
        assert made.inserted_primary_key is not None
        number = made.inserted_primary_key[0]
        return OpenIntake(
            id=number,
            run=run.id,
            first_job=first_job,
            started_at=now,
            as_they_come=as_they_come,
            corrects=not is_relayed,
        )

    async def last_line(self, run: int) -> int:
        """The last line that a job of `run` stands on; 0 where it has none."""
        last = select(func.coalesce(func.max(jobs.c.line), 0)).where(jobs.c.run_id == run)
        return int(await self._access.value(last))

    async def add(self, intake: OpenIntake, rows: Sequence[PackedRow]) -> list[Clash]:
        """Takes in rows, numbering repeated inputs; returns those that cannot be taken, which leave no trace."""
        clashes: list[Clash] = []
        begin = 0
        while begin < len(rows):
            ahead = rows[begin : begin + self.pace.rows]
            part = ahead[: self.pace.fitting(row.size for row in ahead)]
            clashes += await self._add(intake, part)
            begin += len(part)
        return clashes

    async def _add(self, intake: OpenIntake, rows: Sequence[PackedRow]) -> list[Clash]:
        """Beside others the rows are sorted before the transaction; else in it, whose connection has the pages."""
        before = await self._sorted(intake, rows) if self.pace.is_beside() else None

        async def block(transaction: Transaction) -> tuple[int, list[Clash]]:
            found = before or await rows_sort(transaction.connection, intake, rows)
            await land(transaction, intake, found, now=self._access.now())
            return len(rows), found.clashes

        return await self._paced(block)

    @asked_again
    async def _sorted(self, intake: OpenIntake, rows: Sequence[PackedRow]) -> Sorted:
        async with self._access.reading() as connection:
            return await rows_sort(connection, intake, rows)

    @asked_again
    async def gone(self, intake: OpenIntake) -> RemovedRows:
        """The jobs of the run that are not among the rows that `intake` has taken in, where such can be dropped. Raises
        `IntakeLostError` where what it took in was cleared.
        """
        if not intake.corrects:
            return RemovedRows()
        async with self._access.reading() as connection:
            of = {"intake": intake.id, "run": intake.run}
            counted = (await connection.execute(COUNTED, of)).first()
            if counted is None:
                raise taken_over()
            if (await connection.execute(JOBS_BEFORE, of)).scalar_one() == counted.known_rows:
                return RemovedRows()
            return await gone_count(connection, intake)

    async def accept(self, intake: OpenIntake, *, drop: bool = False) -> IntakeResult:
        """The whole input was checked: its jobs exist from now on. Known jobs get what their rows say now, and with
        `drop` those go that it does not have and that have not succeeded.
        """

        async def block(transaction: Transaction) -> IntakeResult:
            now = self._access.now()
            return await accept(transaction.connection, intake, drop=drop and intake.corrects, now=now)

        taken = await self._access.signalling.write(block)
        corrected, dropped = await self._settle(intake)
        return msgspec.structs.replace(taken, corrected=corrected, dropped=dropped)

    async def clear(self, name: str) -> None:
        """Brings every intake of the run called `name` to its end: one that was never accepted is removed, and with it
        a run that has no other, or whose intakes were taken back; what an accepted one had still to do is done.
        """
        await self._access.shared.execute(_OPEN_TO_NOBODY, {"name": name})
        for number, run, first_job, accepted_at in await self._access.rows(_LEFT, {"name": name}):
            intake = OpenIntake(id=number, run=run, first_job=first_job)
            if accepted_at is None:
                await self._pages(partial(remove_some, intake=intake))
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
            await self._access.shared.write(number)
            after: int | None = 0
            while after is not None:
                after = await self._remove_submissions(run, after)
            await self._pages(partial(jobs_remove_some, run=run))
        await self._access.shared.write(itself)
        await self._shrink()

    async def _remove_submissions(self, run: int, after: int) -> int | None:
        async def block(transaction: Transaction) -> tuple[int, int | None]:
            return await submissions_remove_some(transaction.connection, run, after=after, most=self.pace.rows)

        return await self._paced(block)

    async def clear_dead(self, hold: Hold) -> None:
        """The same for every run for which no living process takes in, as far as that can be known just now."""
        for (name,) in await self._access.rows(_NAMES_LEFT):
            async with AsyncExitStack() as held:
                try:
                    await held.enter_async_context(hold(name))
                except (IntakeBusyError, LedgerUnavailableError):
                    continue
                await self.clear(name)

    async def _settle(self, intake: OpenIntake) -> tuple[Corrected, Dropped]:
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
        await self._access.shared.execute(DROPPED, {"intake": intake.id})
        await self._pages(partial(forget_some, intake=intake.id))
        return corrected, dropped

    async def _revise(self, intake: OpenIntake, after: int) -> tuple[int | None, Corrected]:
        async def block(transaction: Transaction) -> tuple[int, tuple[int | None, Corrected]]:
            await transaction.connection.execute(_LOCKED, {"intake": intake.id})
            return await revise_some(transaction, intake, after=after, most=self.pace.rows, now=self._access.now())

        return await self._paced(block)

    async def _drop(self, intake: OpenIntake, after: int) -> tuple[int | None, Dropped]:
        async def block(transaction: Transaction) -> tuple[int, tuple[int | None, Dropped]]:
            if (await transaction.connection.execute(_DROPS, {"intake": intake.id})).first() is None:
                return 0, (None, Dropped())
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

        began_at, rows, result = await self._access.shared.write(timed)
        await self.pace.rest(rows, self._access.now() - began_at)
        return result
