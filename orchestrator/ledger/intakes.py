"""The writes of an intake: rows become jobs, which count only once the whole input was checked and accepted.

An intake lands in bounded batches. Its jobs carry its number, and `runs.intake_accepted` says up to which number jobs
exist for everybody else. An intake that was refused or cut off is removed on the next open.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator import declared
from orchestrator.core.lifecycle import State
from orchestrator.ledger.doors import Doors
from orchestrator.ledger.records import pack
from orchestrator.ledger.runs import Run
from orchestrator.ledger.sqlite.statements import IN_BATCH, BulkInsert, batch_of, upsert
from orchestrator.ledger.store import counts_add
from orchestrator.ledger.tables import intake_known, intake_repeats, intakes, jobs, payloads, runs
from orchestrator.ledger.writer import Transaction

DIGEST_BYTES: Final = 16
"""How much of an input's SHA-256 is kept, to notice that it changed."""

REMOVE_ROWS_MAX: Final = 20_000
"""How many jobs of a removed intake one transaction deletes."""


class InputRow(Protocol):
    """One checked row of an input, as `formats` reads it."""

    @property
    def line(self) -> int: ...
    @property
    def custom_id(self) -> str: ...
    @property
    def derived(self) -> bool: ...
    @property
    def input(self) -> bytes: ...
    @property
    def digest(self) -> bytes: ...
    @property
    def policy(self) -> bytes | None: ...
    @property
    def s3_config(self) -> bytes | None: ...


class Intake(msgspec.Struct, frozen=True, kw_only=True):
    """An intake at work: which run's, and what its jobs carry."""

    id: int
    run: int
    endpoint: int


class Clash(msgspec.Struct, frozen=True):
    """A row that cannot be taken: its line, and what is wrong with it."""

    line: int
    text: str


class _Known(msgspec.Struct, frozen=True):
    """A job that has the custom_id of a row."""

    id: int
    line: int
    digest: bytes
    in_this_intake: bool


_KNOWN = (
    select(
        jobs.c.custom_id,
        jobs.c.id,
        func.coalesce(intake_known.c.line, jobs.c.line),
        payloads.c.digest,
        (jobs.c.intake_id == bindparam("intake")) | intake_known.c.job_id.is_not(None),
    )
    .select_from(
        jobs.join(payloads, payloads.c.job_id == jobs.c.id).outerjoin(
            intake_known, (intake_known.c.job_id == jobs.c.id) & (intake_known.c.intake_id == bindparam("intake"))
        )
    )
    .where(jobs.c.run_id == bindparam("run"), jobs.c.custom_id.in_(IN_BATCH))
)


async def _add(connection: AsyncConnection, intake: Intake, rows: Sequence[InputRow]) -> list[Clash]:
    """Takes in `rows`, numbering repeated inputs; returns those that cannot be taken, which leave no trace."""
    named, known = await _names_and_known(connection, intake, rows)
    clashes: list[Clash] = []
    fresh: dict[str, InputRow] = {}
    same: list[dict[str, Any]] = []
    for row, custom_id in named:
        job = known.get(custom_id)
        if custom_id in fresh:
            clashes.append(_twice(row, custom_id, fresh[custom_id].line))
        elif job is None:
            fresh[custom_id] = row
        elif job.in_this_intake:
            clashes.append(_twice(row, custom_id, job.line))
        elif job.digest != row.digest[:DIGEST_BYTES]:
            clashes.append(_changed(row, custom_id))
        else:
            known[custom_id] = msgspec.structs.replace(job, in_this_intake=True, line=row.line)
            same.append(_known_row(intake, job, row))
    await _insert(connection, intake, fresh)
    if same:
        await connection.execute(insert(intake_known), same)
    return clashes


async def _names_and_known(
    connection: AsyncConnection, intake: Intake, rows: Sequence[InputRow]
) -> tuple[list[tuple[InputRow, str]], dict[str, _Known]]:
    """Each row with its custom_id, repeats numbered, and the jobs that have any of these ids."""
    known = await _known(connection, intake, {row.custom_id for row in rows})
    bases = Counter(row.custom_id for row in rows if row.derived)
    again = [base for base, n in bases.items() if n > 1 or (base in known and known[base].in_this_intake)]
    if not again:
        return [(row, row.custom_id) for row in rows], known
    seen = await _repeats(connection, again)
    for base in again:
        seen.setdefault(base, 1 if base in known and known[base].in_this_intake else 0)
    named: list[tuple[InputRow, str]] = []
    for row in rows:
        base = row.custom_id
        if row.derived and base in seen:
            seen[base] += 1
            named.append((row, base if seen[base] == 1 else f"{base}-{seen[base]}"))
        else:
            named.append((row, base))
    known |= await _known(connection, intake, {custom_id for row, custom_id in named if custom_id != row.custom_id})
    await connection.execute(_REPEATS_SET, [{"base": base, "n": n} for base, n in seen.items()])
    return named, known


async def _known(connection: AsyncConnection, intake: Intake, custom_ids: Iterable[str]) -> dict[str, _Known]:
    parameters = {"run": intake.run, "intake": intake.id, **batch_of(custom_ids)}
    found = await connection.execute(_KNOWN, parameters)
    return {row[0]: _Known(row[1], row[2], row[3], bool(row[4])) for row in found}


_REPEATS_SET = upsert(intake_repeats, lambda new: {"n": new.n})


async def _repeats(connection: AsyncConnection, bases: Sequence[str]) -> dict[str, int]:
    query = select(intake_repeats.c.base, intake_repeats.c.n).where(intake_repeats.c.base.in_(IN_BATCH))
    found = await connection.execute(query, batch_of(bases))
    return {row[0]: row[1] for row in found}


def _twice(row: InputRow, custom_id: str, line: int) -> Clash:
    return Clash(row.line, f"custom_id {custom_id!r} stands on line {line} already; give each row its own")


def _changed(row: InputRow, custom_id: str) -> Clash:
    return Clash(
        row.line,
        f"the input of custom_id {custom_id!r} is not what this run has for it; "
        f"give the changed row a new custom_id, or use another {declared.NAME}",
    )


def _known_row(intake: Intake, job: _Known, row: InputRow) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "intake_id": intake.id,
        "line": row.line,
        "policy": row.policy,
        "s3_config": row.s3_config,
    }


async def _next_job(connection: AsyncConnection) -> int:
    latest: int | None = (await connection.execute(select(func.max(jobs.c.id)))).scalar()
    return (latest or 0) + 1


_JOB = BulkInsert(jobs, "id", "run_id", "endpoint_id", "custom_id", "intake_id", "line")
_PAYLOAD = BulkInsert(payloads, "job_id", "input", "packed", "digest", "policy", "s3_config")


async def _insert(connection: AsyncConnection, intake: Intake, fresh: Mapping[str, InputRow]) -> None:
    if not fresh:
        return
    run, endpoint, number = intake.run, intake.endpoint, intake.id
    job_rows, payload_rows = [], []
    for job, (custom_id, row) in enumerate(fresh.items(), start=await _next_job(connection)):
        packed_input, packed = pack(row.input)
        job_rows.append((job, run, endpoint, custom_id, number, row.line))
        payload_rows.append((job, packed_input, packed, row.digest[:DIGEST_BYTES], row.policy, row.s3_config))
    await _JOB.execute(connection, job_rows)
    await _PAYLOAD.execute(connection, payload_rows)


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What an accepted intake brought. `gone`: jobs of the run that are no longer in the input."""

    rows: int
    new: int
    gone: int


async def _accept(connection: AsyncConnection, intake: Intake, *, now: int) -> Taken:
    """Makes the intake's jobs exist for everybody, and gives known jobs their new line, policy and s3Config."""
    new = await _count(connection, (jobs.c.run_id == intake.run) & (jobs.c.intake_id == intake.id))
    known = await _count(connection, intake_known.c.intake_id == intake.id)
    accepted = select(runs.c.intake_accepted).where(runs.c.id == intake.run).scalar_subquery()
    before = await _count(connection, (jobs.c.run_id == intake.run) & (jobs.c.intake_id <= accepted))
    await _revise_known(connection, intake)
    await connection.execute(delete(intake_known))
    await connection.execute(delete(intake_repeats))
    await connection.execute(update(intakes).where(intakes.c.id == intake.id).values(accepted_at=now))
    await connection.execute(
        update(runs).where(runs.c.id == intake.run).values(intake_accepted=intake.id, rows_accepted=new + known)
    )
    await counts_add(connection, Counter({(intake.run, State.QUEUED.value): new}))
    return Taken(rows=new + known, new=new, gone=before - known)


async def _count(connection: AsyncConnection, condition: Any) -> int:
    found = await connection.execute(select(func.count()).where(condition))
    return int(found.scalar_one())


async def _revise_known(connection: AsyncConnection, intake: Intake) -> None:
    """Only rows that differ are written: an unchanged input of a million rows costs nothing here."""
    of_intake = intake_known.c.intake_id == intake.id
    await connection.execute(
        update(jobs)
        .values(line=intake_known.c.line)
        .where(jobs.c.id == intake_known.c.job_id, of_intake, jobs.c.line != intake_known.c.line)
    )
    await connection.execute(
        update(payloads)
        .values(policy=intake_known.c.policy, s3_config=intake_known.c.s3_config)
        .where(
            payloads.c.job_id == intake_known.c.job_id,
            of_intake,
            payloads.c.policy.is_distinct_from(intake_known.c.policy)
            | payloads.c.s3_config.is_distinct_from(intake_known.c.s3_config),
        )
    )


_UNFINISHED: Final = (
    select(intakes.c.id)
    .where(intakes.c.accepted_at.is_(None))
    .union_all(select(runs.c.id).where(runs.c.intake_accepted == 0))
    .limit(1)
)
"""An intake that was begun and never accepted, or a run that was made and never got one."""


async def _remove_some(connection: AsyncConnection) -> bool:
    """Removes up to `REMOVE_ROWS_MAX` jobs of an intake that was never accepted, then the intake itself, at last the
    runs that have none. Returns whether there may be more to remove.
    """
    query = select(intakes.c.id, intakes.c.first_job).where(intakes.c.accepted_at.is_(None)).limit(1)
    unfinished = (await connection.execute(query)).first()
    if unfinished is None:
        await connection.execute(delete(runs).where(runs.c.intake_accepted == 0))
        return False
    doomed = (
        select(jobs.c.id)
        .where(jobs.c.id >= unfinished.first_job, jobs.c.intake_id == unfinished.id)
        .limit(REMOVE_ROWS_MAX)
    )
    ids = (await connection.execute(doomed)).scalars().all()
    if ids:
        parameters = batch_of(ids)
        await connection.execute(delete(payloads).where(payloads.c.job_id.in_(IN_BATCH)), parameters)
        await connection.execute(delete(jobs).where(jobs.c.id.in_(IN_BATCH)), parameters)
        return True
    await connection.execute(delete(intake_known))
    await connection.execute(delete(intake_repeats))
    await connection.execute(delete(intakes).where(intakes.c.id == unfinished.id))
    return True


class Intakes:
    """The intakes of a ledger."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    async def start(self, run: Run) -> Intake:
        """Begins an intake for `run`. The caller has removed unfinished ones."""

        async def block(transaction: Transaction) -> Intake:
            first_job = await _next_job(transaction.connection)
            row = {"run_id": run.id, "started_at": self._doors.now(), "first_job": first_job}
            made = await transaction.connection.execute(insert(intakes), row)
            assert made.inserted_primary_key is not None
            return Intake(id=made.inserted_primary_key[0], run=run.id, endpoint=run.endpoint_id)

        return await self._doors.write(block)

    async def add(self, intake: Intake, rows: Sequence[InputRow]) -> list[Clash]:
        """Takes in one batch of rows, numbering repeated inputs; returns those that cannot be taken, which leave no
        trace.
        """

        async def block(transaction: Transaction) -> list[Clash]:
            return await _add(transaction.connection, intake, rows)

        return await self._doors.write(block)

    async def accept(self, intake: Intake) -> Taken:
        """The whole input was checked: its jobs exist from now on."""

        async def block(transaction: Transaction) -> Taken:
            return await _accept(transaction.connection, intake, now=self._doors.now())

        return await self._doors.write(block)

    async def remove_unfinished(self) -> None:
        """Removes what an intake that was refused or cut off has left."""
        if not await self._doors.rows(_UNFINISHED):
            return
        while await self.remove_some():
            pass

    async def remove_some(self) -> bool:
        """One transaction of that; returns whether there may be more to remove."""

        async def block(transaction: Transaction) -> bool:
            return await _remove_some(transaction.connection)

        return await self._doors.write(block)
