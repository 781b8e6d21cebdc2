"""What fired, and what did not: each fire up to a schedule's watermark, in one place of the two."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.pipelines.due_fires import Gap, GapKind, Look, Watermark
from orchestrator.core.pipelines.flow_lifecycle import FlowEvent, FlowKind, FlowState, after
from orchestrator.core.pipelines.overlap_policy import Ruled
from orchestrator.core.pipelines.pipeline import flow_name
from orchestrator.ledger.flows.flow_events import flow_end_count
from orchestrator.ledger.schema.flow_tables import fires, flows, gaps, pipelines, schedules
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.statements import IN_BATCH, batch_of, insert_new
from orchestrator.ledger.transactions.repository import Repository, alone
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.flow_messages_owed import missed_owe


class FoundFires(NamedTuple):
    """What a look at one schedule has found, and what the rules make of it."""

    pipeline: int
    name: str
    definition: int
    watermark: Watermark
    """As it was when it was looked at: where it is another one by now, nothing of this counts."""

    look: Look
    ruled: Ruled


class FireRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A fire as it was recorded. Times are microseconds UTC."""

    fire_at: int
    recorded_at: int
    skipped: str | None
    """Why there is no flow of it."""

    flow: str | None
    state: FlowState | None
    why: str | None


class GapRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A stretch of fires for which nothing was done. Times are microseconds UTC."""

    kind: GapKind
    after_at: int
    until_at: int
    first_at: int
    n: int
    recorded_at: int


_STANDING: Final = (
    select(
        schedules.c.pipeline_id,
        pipelines.c.definition_id,
        schedules.c.watermark,
        schedules.c.paused_at,
        schedules.c.paused_until,
    )
    .select_from(schedules.join(pipelines, pipelines.c.id == schedules.c.pipeline_id))
    .where(schedules.c.pipeline_id.in_(IN_BATCH))
)
_MOVE: Final = update(schedules).where(schedules.c.pipeline_id == bindparam("of")).values(watermark=bindparam("until"))
_UNPAUSE: Final = (
    update(schedules)
    .where(schedules.c.pipeline_id == bindparam("of"))
    .values(paused_at=None, paused_until=None, note="")
)
_DROP: Final = (
    update(flows)
    .where(flows.c.id == bindparam("of"), flows.c.state == FlowState.WAITING.value)
    .values(state=after(FlowEvent.SKIPPED).value, why=bindparam("because"), ended_at=bindparam("now"))
)
_CANCEL: Final = (
    update(flows)
    .where(flows.c.id == bindparam("of"), flows.c.ended_at.is_(None))
    .values(is_cancelled=1, why=bindparam("because"))
)
_ADD_FIRE: Final = insert(fires)
_ADD_FLOW: Final = insert_new(flows)
"""One that somebody has asked for before is the flow of its fire."""


class Fires(Repository):
    """The fires of a ledger."""

    @alone
    async def record(self, transaction: Transaction, found: Sequence[FoundFires]) -> frozenset[int]:
        """Records what looks have found, of different pipelines: fires, their flows, gaps, and the watermarks, in one
        transaction. Returns the pipelines of which that was done: where somebody was faster, nothing is.
        """
        now = self._access.now()
        connection = transaction.connection
        standing = await connection.execute(_STANDING, batch_of(each.pipeline for each in found))
        as_now = {row[0]: (row[1], Watermark(*row[2:])) for row in standing}
        right = [each for each in found if as_now.get(each.pipeline) == (each.definition, each.watermark)]
        await _record(connection, right, now)
        return frozenset(each.pipeline for each in right)

    async def latest(self, pipeline: int, most: int) -> list[FireRow]:
        """The latest fires of a pipeline, newest first."""
        its_flow = (flows.c.pipeline_id == fires.c.pipeline_id) & (flows.c.fire_at == fires.c.fire_at)
        first = its_flow & (flows.c.again == 1) & fires.c.skipped.is_(None)
        query = (
            select(*columns(FireRow, fires, flow=flows.c.name, state=flows.c.state, why=flows.c.why))
            .select_from(fires.outerjoin(flows, first))
            .where(fires.c.pipeline_id == pipeline)
            .order_by(fires.c.fire_at.desc())
            .limit(most)
        )
        return await self._access.structs(FireRow, query)

    async def with_flow(self, pipeline: int, fire_times: Sequence[int]) -> int:
        """How many of these fires have a flow."""
        query = select(func.count(flows.c.fire_at.distinct())).where(flows.c.fire_at.in_(IN_BATCH))
        return int(await self._access.value(query.where(flows.c.pipeline_id == pipeline), batch_of(fire_times)))

    async def gaps(self, pipeline: int, most: int) -> list[GapRow]:
        """The latest gaps of a pipeline, newest first."""
        query = select(*columns(GapRow, gaps)).where(gaps.c.pipeline_id == pipeline)
        return await self._access.structs(GapRow, query.order_by(gaps.c.until_at.desc()).limit(most))


async def _record(connection: AsyncConnection, found: Sequence[FoundFires], now: int) -> None:
    recorded = [_rows_of(each, now) for each in found]
    for statement, position in ((_ADD_FIRE, 0), (_ADD_FLOW, 1), (_CANCEL, 3)):
        if rows := [row for rows_of in recorded for row in rows_of[position]]:
            await connection.execute(statement, rows)
    for each, rows_of in zip(found, recorded, strict=True):
        await _drop(connection, each.pipeline, rows_of[2])
    for each in found:
        for gap in each.look.gaps:
            if await gap_add(connection, each.pipeline, gap, now) and gap.kind is GapKind.MISSED:
                await missed_owe(connection, each.pipeline, gap, now)
    if found:
        await connection.execute(_MOVE, [{"of": each.pipeline, "until": each.look.until_us} for each in found])
    if over := [{"of": each.pipeline} for each in found if each.watermark.paused_at is not None]:
        await connection.execute(_UNPAUSE, over)


async def _drop(connection: AsyncConnection, pipeline: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """These flows of a pipeline end without having begun, as far as they still wait."""
    dropped = [(await connection.execute(_DROP, row)).rowcount for row in rows]
    await flow_end_count(connection, pipeline, after(FlowEvent.SKIPPED), sum(dropped))


def _rows_of(found: FoundFires, now: int) -> tuple[list[dict[str, Any]], ...]:
    """What is written for one look: fires, flows, flows that shall not begin, flows that shall end."""
    skipped = found.ruled.skipped
    common = {"pipeline_id": found.pipeline, "definition_id": found.definition, "recorded_at": now}
    at = [fire.at_us for fire in found.look.fires]
    return (
        [{**common, "fire_at": fire, "skipped": skipped.get(fire)} for fire in at],
        [
            {
                **common,
                "fire_at": fire.at_us,
                "due_at": fire.due_us,
                "name": flow_name(found.name, fire.at_us),
                "kind": FlowKind.SCHEDULED.value,
            }
            for fire in found.look.fires
            if fire.at_us not in skipped
        ],
        [{"of": flow, "because": why, "now": now} for flow, why in found.ruled.dropped.items()],
        [{"of": flow, "because": why} for flow, why in found.ruled.cancelled.items()],
    )


async def gap_add(connection: AsyncConnection, pipeline: int, gap: Gap, now: int) -> bool:
    """Records a gap. One that begins where the last one of its kind ends is the same stretch: then False."""
    longer = (
        update(gaps)
        .where(gaps.c.pipeline_id == pipeline, gaps.c.kind == gap.kind.value, gaps.c.until_at == gap.after_us)
        .values(until_at=gap.until_us, n=gaps.c.n + gap.fires, recorded_at=now)
    )
    if (await connection.execute(longer)).rowcount:
        return False
    row = {
        "pipeline_id": pipeline,
        "kind": gap.kind.value,
        "after_at": gap.after_us,
        "until_at": gap.until_us,
        "first_at": gap.first_us,
        "n": gap.fires,
        "recorded_at": now,
    }
    await connection.execute(insert(gaps), row)
    return True
