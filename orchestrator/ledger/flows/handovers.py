"""Rows on their way from stage to stage: what is owed, and what it becomes."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

import msgspec
from sqlalchemy import bindparam, delete, func, insert, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.ledger.flows.handover_rows import Gathering, HandedOver, OwedRow, Relay
from orchestrator.ledger.flows.jobs_without_request import fail, forget_failed, nothing, states_of
from orchestrator.ledger.named_batches import found_by_name, named_in_batch
from orchestrator.ledger.runs.input_rows import JOB_NUMBERS, OpenIntake, PackedRow, rows_insert
from orchestrator.ledger.runs.runs import Run, TellCounts, write_counted
from orchestrator.ledger.schema.flow_tables import flows, stages
from orchestrator.ledger.schema.handover_tables import By, gathers, groups, handovers, lineage, owed, relays
from orchestrator.ledger.schema.job_tables import intakes, jobs, outcomes, payloads, row_metadata, runs
from orchestrator.ledger.schema.row_codec import columns, fitting, values
from orchestrator.ledger.statements import (
    IN_BATCH,
    Many,
    batch_of,
    insert_new,
    replace_into,
)
from orchestrator.ledger.transactions.repository import Repository, alone, asked_again
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.count_writes import counts_add
from orchestrator.ledger.transitions.group_counts import due_add, opens
from orchestrator.units import MIB

PAGE_BYTES_MAX: Final = 8 * MIB
"""Outputs and inputs that are handed over at a time, but for a row that is larger by itself."""


_RELAYS: Final = (
    select(
        *columns(
            Relay,
            relays,
            definition=flows.c.definition_id,
            is_gathering=relays.c.to_run.in_(select(gathers.c.to_run)),
        )
    )
    .select_from(relays.join(flows, flows.c.id == relays.c.flow_id))
    .where(relays.c.to_run.in_(IN_BATCH))
    .order_by(relays.c.to_run)
)
_OWED_RUNS: Final = select(owed.c.to_run).group_by(owed.c.to_run)
_CARRIES: Final = (row_metadata.c.run_id == jobs.c.run_id) & (row_metadata.c.job_id == jobs.c.id)
_OWED_SIZES: Final = (
    select(
        owed.c.job_id,
        func.length(payloads.c.input)
        + func.coalesce(func.length(outcomes.c.output), 0)
        + func.coalesce(func.length(row_metadata.c.metadata), 0),
    )
    .select_from(
        owed.join(jobs, jobs.c.id == owed.c.job_id)
        .join(payloads, payloads.c.job_id == jobs.c.id)
        .outerjoin(outcomes, outcomes.c.job_id == jobs.c.id)
        .outerjoin(row_metadata, _CARRIES)
    )
    .where(owed.c.to_run == bindparam("to_run"))
    .order_by(owed.c.job_id)
    .limit(bindparam("most"))
)
_OWED: Final = (
    select(
        *columns(
            OwedRow,
            jobs,
            job=jobs.c.id,
            stored_input=payloads.c.input,
            packed_input=payloads.c.packed,
            stored=outcomes.c.output,
            packed=outcomes.c.packed,
            metadata=row_metadata.c.metadata,
        )
    )
    .select_from(
        jobs.join(payloads, payloads.c.job_id == jobs.c.id)
        .outerjoin(outcomes, outcomes.c.job_id == jobs.c.id)
        .outerjoin(row_metadata, _CARRIES)
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
_OWE_WITHOUT_GROUP: Final = insert_new(owed).from_select(
    ["to_run", "job_id"],
    select(bindparam("to_run", type_=owed.c.to_run.type), jobs.c.id)
    .select_from(jobs.join(gathers, (gathers.c.run == jobs.c.run_id) & (gathers.c.to_run == bindparam("to_run"))))
    .where(
        gathers.c.begins == 1,
        gathers.c.hands_over == 1,
        jobs.c.ended_at.is_not(None),
        jobs.c.state != literal_column(f"'{State.SUCCEEDED}'"),
    ),
)
HANDOVER: Final = Many(replace_into(handovers), "job_id", "to_run", "children", "failed_job")
LINEAGE: Final = Many(insert(lineage), "child", "parent")
_GROUP: Final = Many(insert(groups), "to_run", "key", "line", "open")
_NAMES: Final = select(jobs.c.custom_id).where(
    named_in_batch(jobs.c.id, jobs.c.run_id, bindparam("run"), jobs.c.custom_id)
)
_FAILED_BEFORE: Final = select(handovers.c.job_id, handovers.c.failed_job).where(
    handovers.c.to_run == bindparam("to"),
    handovers.c.job_id.in_(IN_BATCH),
    handovers.c.failed_job.is_not(None),
)


class Handovers(Repository):
    """What is handed over in a ledger."""

    @alone
    async def follow(
        self,
        transaction: Transaction,
        flow: int,
        stage: str,
        *,
        sources: Sequence[Run],
        to_run: Run,
        gathering: Gathering | None = None,
    ) -> None:
        """Rows of `sources` that end, and that have ended, are owed to `to_run`, which counts as taken in from now on
        and gets its rows by and by: one by one, or gathered in groups.
        """
        connection = transaction.connection
        known = select(relays.c.to_run).where(relays.c.to_run == to_run.id)
        if (await connection.execute(known)).first() is not None:
            return
        now = self._access.now()
        first_job = await JOB_NUMBERS.following(connection)
        begun = {"run_id": to_run.id, "started_at": now, "accepted_at": now, "first_job": first_job}
        made = await connection.execute(insert(intakes).returning(intakes.c.id), begun)
        intake = made.scalar_one()
        await connection.execute(update(runs).where(runs.c.id == to_run.id).values(intake_accepted=intake))
        row = {"to_run": to_run.id, "flow_id": flow, "stage": stage, "intake_id": intake}
        await connection.execute(insert(relays), [{**row, "from_run": source.id} for source in sources])
        if gathering is None:
            for source in sources:
                await connection.execute(_OWE_ENDED, {"from_run": source.id, "to_run": to_run.id})
        else:
            await _gather(connection, gathering, sources=[source.id for source in sources], to_run=to_run.id)

    async def feeding(self) -> frozenset[int]:
        """The runs whose rows go on to other runs."""
        return frozenset(row[0] for row in await self._access.rows(select(relays.c.from_run).distinct()))

    async def relays_owed(self) -> list[Relay]:
        """Those to which rows are owed, one for each run that is handed them."""
        waiting = [row[0] for row in await self._access.rows(_OWED_RUNS)]
        return list((await self.relays_to(waiting)).values())

    async def relays_to(self, among: Collection[int]) -> Mapping[int, Relay]:
        """One to each of these runs, where it is handed rows."""
        found = await self._access.structs(Relay, _RELAYS, batch_of(among)) if among else []
        return {relay.to_run: relay for relay in found}

    async def stage_names(self, runs_: Collection[int]) -> Mapping[int, str]:
        """Which stage each of these runs carries out."""
        query = select(stages.c.run_id, stages.c.stage).where(stages.c.run_id.in_(IN_BATCH))
        return {row[0]: row[1] for row in await self._access.rows(query, batch_of(runs_))}

    async def is_handed_on(self, from_run: int) -> bool:
        """Whether rows of `from_run` become rows of another run."""
        return bool(await self._access.rows(select(relays.c.to_run).where(relays.c.from_run == from_run).limit(1)))

    async def is_owed(self, to_run: int) -> bool:
        """Whether rows, or groups of them, are owed to that run."""
        rows = select(owed.c.job_id).where(owed.c.to_run == to_run).limit(1)
        due = select(groups.c.id).where(groups.c.to_run == to_run, groups.c.is_due == 1).limit(1)
        return bool(await self._access.rows(rows)) or bool(await self._access.rows(due))

    @asked_again
    async def owed(self, to_run: int, most: int) -> list[OwedRow]:
        """Rows that are owed to that run, `most` of them at most, and not too many bytes."""
        async with self._access.reading() as connection:
            sizes = (await connection.execute(_OWED_SIZES, {"to_run": to_run, "most": most})).all()
            page = [job for job, _ in sizes[: fitting((size for _, size in sizes), PAGE_BYTES_MAX)]]
            return values(OwedRow, (await connection.execute(_OWED, batch_of(page))).all())

    async def rows(self, jobs_: Collection[int]) -> list[OwedRow]:
        """These rows, as a step is to be given them."""
        return await self._access.structs(OwedRow, _OWED, batch_of(jobs_))

    async def hand_over(self, relay: Relay, done: Sequence[HandedOver], tell: TellCounts | None = None) -> int:
        """Rows become what they become, as far as that is still owed; returns how many rows there are now, of which
        `tell` is given the counts as by `write_counted`.
        """

        async def block(transaction: Transaction) -> int:
            connection = transaction.connection
            states = await states_of(connection, [each.of.job for each in done])
            # What has ended otherwise meanwhile becomes something else.
            still = batch_of([each.of.job for each in done if states.get(each.of.job) == each.of.state])
            taken = set((await connection.execute(_TAKE, {"to": relay.to_run, **still})).scalars())
            return await _hand_over(
                transaction, relay, [each for each in done if each.of.job in taken], now=self._access.now()
            )

        return await write_counted(self._access, block, relay.to_run, tell, by=self._access.alone)


async def _gather(connection: AsyncConnection, how: Gathering, *, sources: Sequence[int], to_run: int) -> None:
    """From now on `to_run` is handed groups; what is open of those that are there already is counted once."""
    rows = [
        {
            "run": run,
            "to_run": to_run,
            "by": how.by.value,
            "begins": int(run in how.begins),
            "hands_over": int(run in sources),
        }
        for run in how.runs
    ]
    await connection.execute(insert(gathers), rows)
    found = await opens(connection, to_run, how.by)
    if found:
        await _GROUP.execute(
            connection, [{"to_run": to_run, "key": key, "line": line, "open": n} for key, line, n in found]
        )
    if how.by is By.STAGE:
        await connection.execute(_OWE_WITHOUT_GROUP, {"to_run": to_run})


async def _hand_over(transaction: Transaction, relay: Relay, done: Sequence[HandedOver], *, now: int) -> int:
    if not done:
        return 0
    connection = transaction.connection
    fewer = await _forget_failed_steps(connection, relay, done)
    named = await with_unused_ids(connection, relay.to_run, [(each, _rows_of(each)) for each in done])
    numbers = iter(await rows_put(connection, relay, [rows for _, rows in named]))
    changes: dict[int, int] = {}
    of_parent, failed, handed = [], {}, []
    for each, rows in named:
        children = list(islice(numbers, len(rows)))
        of_parent += [{"child": child, "parent": each.of.job} for child in children]
        changes[each.of.job] = len(rows) - 1 - fewer.get(each.of.job, 0)
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
        await LINEAGE.execute(connection, of_parent)
    await HANDOVER.execute(connection, handed)
    if not relay.is_gathering:
        await due_add(connection, relay.to_run, changes)
    await fail(transaction, failed, now=now)
    return len(of_parent)


async def rows_put(connection: AsyncConnection, relay: Relay, rows: Iterable[Mapping[str, PackedRow]]) -> Sequence[int]:
    """Makes jobs of rows, which have these ids, and counts them; returns their numbers in the order of the rows."""
    fresh = {custom_id: row for each in rows for custom_id, row in each.items()}
    intake = OpenIntake(id=relay.intake, run=relay.to_run, first_job=0, as_they_come=True)
    numbers = await rows_insert(connection, intake, fresh)
    if fresh:
        await counts_add(connection, Counter({(relay.to_run, State.QUEUED.value): len(fresh)}))
    return numbers


Of = TypeVar("Of")


async def with_unused_ids(
    connection: AsyncConnection, run: int, made: Sequence[tuple[Of, Sequence[PackedRow]]]
) -> list[tuple[Of, Mapping[str, PackedRow]]]:
    """What each has become, by ids that no row there has yet: `night-1` of one row and of another's first are two."""
    wanted = batch_of([row.custom_id for _, rows in made for row in rows])
    used = set((await found_by_name(connection, _NAMES, {"run": run, **wanted})).scalars())
    named: list[tuple[Of, Mapping[str, PackedRow]]] = []
    for of, given in made:
        rows: dict[str, PackedRow] = {}
        for row in given:
            custom_id, n = row.custom_id, 1
            while custom_id in used:
                n += 1
                custom_id = f"{row.custom_id}-{n}"
            used.add(custom_id)
            rows[custom_id] = row
        named.append((of, rows))
    return named


def _rows_of(each: HandedOver) -> Sequence[PackedRow]:
    """Each carries on what the one that it was made of carries, unless it says something of its own."""
    rows = each.rows if each.error is None else (nothing(each.of.custom_id, each.of.line),)
    if (inherited := each.of.metadata) is None:
        return rows
    return [row if row.metadata is not None else msgspec.structs.replace(row, metadata=inherited) for row in rows]


async def _forget_failed_steps(
    connection: AsyncConnection, relay: Relay, done: Sequence[HandedOver]
) -> Mapping[int, int]:
    """The jobs that said why a step had failed go, now that it was called anew; returns by row how many of them had
    no end any more.
    """
    asked = {"to": relay.to_run, **batch_of([each.of.job for each in done])}
    found: dict[int, int] = {row[0]: row[1] for row in await connection.execute(_FAILED_BEFORE, asked)}
    states = await forget_failed(connection, relay.to_run, list(found.values()))
    return {job: 1 for job, failed in found.items() if failed in states and states[failed] not in TERMINAL}
