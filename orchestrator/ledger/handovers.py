"""Rows on their way from stage to stage: what is owed, and what it becomes."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.job import Outcome, abandoned
from orchestrator.core.lifecycle import State
from orchestrator.core.responses import Trouble
from orchestrator.ledger.doors import Noun
from orchestrator.ledger.flow_tables import flows
from orchestrator.ledger.handover_tables import handovers, lineage, owed, relays
from orchestrator.ledger.input_rows import Intake, PackedRow
from orchestrator.ledger.intakes import next_job, rows_insert
from orchestrator.ledger.records import fitting, job_of, select_jobs, unpack, values
from orchestrator.ledger.runs import Run
from orchestrator.ledger.sqlite.statements import IN_BATCH, Many, batch_of, insert_new, upsert
from orchestrator.ledger.steps import counts_add
from orchestrator.ledger.tables import events, intakes, jobs, outcomes, payloads, runs
from orchestrator.ledger.writer import Transaction
from orchestrator.units import MIB

PAGE_BYTES_MAX: Final = 8 * MIB
"""Outputs and inputs that are handed over at a time, but for a row that is larger by itself."""

KIN_MAX: Final = 1_000
"""So many relatives of a row are shown at most."""

NO_INPUT: Final = b"{}"
"""The input of a job that says why its step failed: it is never sent."""


class Relay(msgspec.Struct, frozen=True, array_like=True):
    """One run that hands its rows over to another."""

    from_run: int
    to_run: int
    flow: int
    stage: str
    """The one that is handed them."""

    definition: int
    """The number of the pipeline's version that its flow began with."""

    intake: int
    endpoint: int
    """The number of the endpoint of `to_run`."""


class Owed(msgspec.Struct, frozen=True, array_like=True):
    """A row that has ended, as its step is to be given it."""

    job: int
    custom_id: str
    line: int
    state: State
    stored_input: bytes
    packed_input: int
    stored: bytes | None
    packed: int | None

    @property
    def input(self) -> bytes:
        """As it came."""
        return unpack(self.stored_input, self.packed_input)

    @property
    def output(self) -> bytes | None:
        """As it came."""
        return None if self.stored is None else unpack(self.stored, self.packed or 0)


class Kin(msgspec.Struct, frozen=True, array_like=True):
    """A row that another was made of, or is made of it, directly or not; or that row itself."""

    job: int
    run: int
    custom_id: str
    line: int
    state: State
    trouble: str | None


class HandedOver(msgspec.Struct, frozen=True):
    """What a row has become."""

    of: Owed
    rows: Sequence[PackedRow] = ()
    """With ids of their own."""

    error: str | None = None
    """Why its step failed."""


_RELAYS: Final = (
    select(
        relays.c.from_run,
        relays.c.to_run,
        relays.c.flow_id,
        relays.c.stage,
        flows.c.definition_id,
        relays.c.intake_id,
        runs.c.endpoint_id,
    )
    .select_from(relays.join(flows, flows.c.id == relays.c.flow_id).join(runs, runs.c.id == relays.c.to_run))
    .where(relays.c.to_run.in_(IN_BATCH))
    .order_by(relays.c.to_run)
)
_OWED_RUNS: Final = select(owed.c.to_run).group_by(owed.c.to_run)
_OWED_SIZES: Final = (
    select(
        owed.c.job_id,
        func.length(payloads.c.input) + func.coalesce(func.length(outcomes.c.output), 0),
    )
    .select_from(
        owed.join(payloads, payloads.c.job_id == owed.c.job_id).outerjoin(outcomes, outcomes.c.job_id == owed.c.job_id)
    )
    .where(owed.c.to_run == bindparam("to_run"))
    .order_by(owed.c.job_id)
    .limit(bindparam("most"))
)
_OWED: Final = (
    select(
        jobs.c.id,
        jobs.c.custom_id,
        jobs.c.line,
        jobs.c.state,
        payloads.c.input,
        payloads.c.packed,
        outcomes.c.output,
        outcomes.c.packed,
    )
    .select_from(
        jobs.join(payloads, payloads.c.job_id == jobs.c.id).outerjoin(outcomes, outcomes.c.job_id == jobs.c.id)
    )
    .where(jobs.c.id.in_(IN_BATCH))
    .order_by(jobs.c.id)
)
_TAKE: Final = (
    delete(owed).where(owed.c.to_run == bindparam("to"), owed.c.job_id.in_(IN_BATCH)).returning(owed.c.job_id)
)
_OWE_ENDED: Final = insert_new(owed).from_select(
    ["to_run", "job_id"],
    select(bindparam("to_run", type_=owed.c.to_run.type), jobs.c.id).where(
        jobs.c.run_id == bindparam("from_run"), jobs.c.ended_at.is_not(None)
    ),
)
_HANDOVER: Final = upsert(handovers, lambda new: {"children": new.children, "failed_job": new.failed_job})
_LINEAGE: Final = Many(insert(lineage), "child", "parent")
_NAMES: Final = select(jobs.c.custom_id).where(jobs.c.run_id == bindparam("run"), jobs.c.custom_id.in_(IN_BATCH))
_FAILED_BEFORE: Final = (
    select(handovers.c.failed_job, jobs.c.state)
    .select_from(handovers.join(jobs, jobs.c.id == handovers.c.failed_job))
    .where(handovers.c.to_run == bindparam("to"), handovers.c.job_id.in_(IN_BATCH))
)
_OF_PARENTS: Final = select(lineage.c.child, lineage.c.parent).where(lineage.c.child.in_(IN_BATCH))

_CALLED: Final = select(jobs.c.id.label("job")).where(
    jobs.c.run_id.in_(IN_BATCH), jobs.c.custom_id == bindparam("custom_id")
)
_up = _CALLED.cte("up", recursive=True)
_UP: Final = _up.union(select(lineage.c.parent).select_from(lineage.join(_up, lineage.c.child == _up.c.job)))
_down = _CALLED.cte("down", recursive=True)
_DOWN: Final = _down.union(select(lineage.c.child).select_from(lineage.join(_down, lineage.c.parent == _down.c.job)))
_KIN: Final = (
    select(jobs.c.id, jobs.c.run_id, jobs.c.custom_id, jobs.c.line, jobs.c.state, outcomes.c.trouble)
    .select_from(jobs.outerjoin(outcomes, outcomes.c.job_id == jobs.c.id))
    .where(jobs.c.id.in_(select(_UP.c.job)) | jobs.c.id.in_(select(_DOWN.c.job)))
    .order_by(jobs.c.id)
    .limit(KIN_MAX)
)
_BECAME: Final = (
    select(handovers.c.job_id, func.sum(handovers.c.children))
    .where(handovers.c.job_id.in_(IN_BATCH))
    .group_by(handovers.c.job_id)
)


class Handovers(Noun):
    """What is handed over in a ledger."""

    async def follow(self, flow: int, stage: str, *, from_run: Run, to_run: Run) -> None:
        """Rows of `from_run` that end, and that have ended, are owed to `to_run`, which counts as taken in from now on
        and gets its rows by and by.
        """

        async def block(transaction: Transaction) -> None:
            connection = transaction.connection
            known = select(relays.c.to_run).where(relays.c.from_run == from_run.id, relays.c.to_run == to_run.id)
            if (await connection.execute(known)).first() is not None:
                return
            now = self._doors.now()
            first_job = await next_job(connection)
            begun = {"run_id": to_run.id, "started_at": now, "accepted_at": now, "first_job": first_job}
            made = await connection.execute(insert(intakes).returning(intakes.c.id), begun)
            intake = made.scalar_one()
            await connection.execute(update(runs).where(runs.c.id == to_run.id).values(intake_accepted=intake))
            row = {"from_run": from_run.id, "to_run": to_run.id, "flow_id": flow, "stage": stage, "intake_id": intake}
            await connection.execute(insert(relays), row)
            await connection.execute(_OWE_ENDED, {"from_run": from_run.id, "to_run": to_run.id})

        await self._doors.write(block)

    async def relays_owed(self) -> list[Relay]:
        """Those to which something is owed."""
        waiting = [row[0] for row in await self._doors.rows(_OWED_RUNS)]
        return values(Relay, await self._doors.rows(_RELAYS, batch_of(waiting))) if waiting else []

    async def is_handed_on(self, from_run: int) -> bool:
        """Whether rows of `from_run` become rows of another run."""
        return bool(await self._doors.rows(select(relays.c.to_run).where(relays.c.from_run == from_run).limit(1)))

    async def is_owed(self, to_run: int) -> bool:
        """Whether anything is owed to that run."""
        return bool(await self._doors.rows(select(owed.c.job_id).where(owed.c.to_run == to_run).limit(1)))

    async def owed(self, to_run: int, most: int) -> list[Owed]:
        """Rows that are owed to that run, `most` of them at most, and not too many bytes."""
        async with self._doors.reading() as connection:
            sizes = (await connection.execute(_OWED_SIZES, {"to_run": to_run, "most": most})).all()
            page = [job for job, _ in sizes[: fitting((size for _, size in sizes), PAGE_BYTES_MAX)]]
            return values(Owed, (await connection.execute(_OWED, batch_of(page))).all())

    async def hand_over(self, relay: Relay, done: Sequence[HandedOver]) -> int:
        """Rows become what they become, as far as that is still owed; returns how many rows there are now."""

        async def block(transaction: Transaction) -> int:
            connection = transaction.connection
            batch = batch_of([each.of.job for each in done])
            taken = set((await connection.execute(_TAKE, {"to": relay.to_run, **batch})).scalars())
            return await _hand_over(
                transaction, relay, [each for each in done if each.of.job in taken], now=self._doors.now()
            )

        return await self._doors.write(block)

    async def parents(self, jobs_: Collection[int]) -> Mapping[int, Sequence[int]]:
        """Of which rows these were made."""
        found: dict[int, list[int]] = {}
        for child, parent in await self._doors.rows(_OF_PARENTS, batch_of(jobs_)):
            found.setdefault(child, []).append(parent)
        return found

    async def kin(self, among: Collection[int], custom_id: str) -> list[Kin]:
        """The rows of that name in these runs, all that they were made of, and all that was made of them."""
        return values(Kin, await self._doors.rows(_KIN, {"custom_id": custom_id, **batch_of(among)}))

    async def became(self, jobs_: Collection[int]) -> Mapping[int, int]:
        """How many rows each of these has become in all stages behind it, of those that were handed over."""
        return {row[0]: row[1] for row in await self._doors.rows(_BECAME, batch_of(jobs_))}

    async def children(self, jobs_: Collection[int], to_run: int) -> Mapping[int, int]:
        """How many rows each of these has become there, of those that were handed over."""
        query = select(handovers.c.job_id, handovers.c.children).where(
            handovers.c.to_run == to_run, handovers.c.job_id.in_(IN_BATCH)
        )
        return {row[0]: row[1] for row in await self._doors.rows(query, batch_of(jobs_))}


async def _hand_over(transaction: Transaction, relay: Relay, done: Sequence[HandedOver], *, now: int) -> int:
    if not done:
        return 0
    connection = transaction.connection
    await _forget_failed(connection, relay, done)
    named = await _named(connection, relay, done)
    fresh = {custom_id: row for _, rows in named for custom_id, row in rows.items()}
    intake = Intake(id=relay.intake, run=relay.to_run, endpoint=relay.endpoint, first_job=0, as_they_come=True)
    number = await rows_insert(connection, intake, fresh)
    of_parent, failed, handed = [], {}, []
    for each, rows in named:
        children = range(number, number + len(rows))
        number += len(rows)
        of_parent += [{"child": child, "parent": each.of.job} for child in children]
        is_failed = each.error is not None
        if each.error is not None:
            failed[children[0]] = each.error
        handed.append(
            {
                "job_id": each.of.job,
                "to_run": relay.to_run,
                "children": 0 if is_failed else len(rows),
                "failed_job": children[0] if is_failed else None,
            }
        )
    if of_parent:
        await _LINEAGE.execute(connection, of_parent)
        await counts_add(connection, Counter({(relay.to_run, State.QUEUED.value): len(of_parent)}))
    await connection.execute(_HANDOVER, handed)
    await _fail(transaction, failed, now=now)
    return len(of_parent)


async def _named(
    connection: AsyncConnection, relay: Relay, done: Sequence[HandedOver]
) -> list[tuple[HandedOver, Mapping[str, PackedRow]]]:
    """What each has become, by ids that no row there has yet: `night-1` of one row and of another's first are two."""
    wanted = batch_of([row.custom_id for each in done for row in _rows_of(each)])
    used = set((await connection.execute(_NAMES, {"run": relay.to_run, **wanted})).scalars())
    named: list[tuple[HandedOver, Mapping[str, PackedRow]]] = []
    for each in done:
        rows: dict[str, PackedRow] = {}
        for row in _rows_of(each):
            custom_id, n = row.custom_id, 1
            while custom_id in used:
                n += 1
                custom_id = f"{row.custom_id}-{n}"
            used.add(custom_id)
            rows[custom_id] = row
        named.append((each, rows))
    return named


def _rows_of(each: HandedOver) -> Sequence[PackedRow]:
    if each.error is None:
        return each.rows
    nothing = PackedRow(
        line=each.of.line,
        custom_id=each.of.custom_id,
        derived=False,
        input=NO_INPUT,
        packed=0,
        digest=b"",
        policy=None,
        s3_config=None,
    )
    return (nothing,)


async def _fail(transaction: Transaction, failed: Mapping[int, str], *, now: int) -> None:
    """The jobs that say why a step failed end at once."""
    if not failed:
        return
    query = select_jobs().where(jobs.c.id.in_(IN_BATCH))
    found = (await transaction.connection.execute(query, batch_of(failed))).all()
    steps = []
    for job in map(job_of, found):
        outcome = Outcome(submission=None, remote_id=None, status=None, trouble=Trouble.STEP, message=failed[job.id])
        steps.append(abandoned(job, outcome, reason="its step failed", at=now))
    await transaction.apply(steps)


async def _forget_failed(connection: AsyncConnection, relay: Relay, done: Sequence[HandedOver]) -> None:
    """The jobs that said why a step had failed go, now that it was called anew."""
    asked = {"to": relay.to_run, **batch_of([each.of.job for each in done])}
    found = (await connection.execute(_FAILED_BEFORE, asked)).all()
    if not found:
        return
    gone = batch_of([job for job, _ in found])
    for table, key in ((payloads, payloads.c.job_id), (outcomes, outcomes.c.job_id), (lineage, lineage.c.child)):
        await connection.execute(delete(table).where(key.in_(IN_BATCH)), gone)
    await connection.execute(delete(events).where(events.c.job_id.in_(IN_BATCH)), gone)
    await connection.execute(delete(jobs).where(jobs.c.id.in_(IN_BATCH)), gone)
    await counts_add(
        connection, Counter({(relay.to_run, state): -n for state, n in Counter(s for _, s in found).items()})
    )
