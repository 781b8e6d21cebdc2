"""Stages that are carried out anew, and flows that go on after their end."""

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.pipelines.flow_lifecycle import FlowEvent, FlowState, after
from orchestrator.ledger.schema.flow_tables import flows, stages
from orchestrator.ledger.schema.handover_tables import gathers, groups, owed, relays
from orchestrator.ledger.sqlite.statements import IN_BATCH, batch_of

_AGAIN_BY_JOBS: Final = (
    update(flows)
    .where(
        flows.c.id.in_(select(stages.c.flow_id).where(stages.c.run_id.in_(IN_BATCH))),
        flows.c.state.in_([FlowState.SUCCEEDED.value, FlowState.PARTIAL.value, FlowState.FAILED.value]),
    )
    .values(
        state=after(FlowEvent.REOPENED).value,
        started_at=bindparam("now"),
        due_at=bindparam("now"),
        ended_at=None,
        why="",
        is_cancelled=0,
    )
)


async def followers_leave(connection: AsyncConnection, flow: int, among: Sequence[str]) -> None:
    """The runs of these stages are handed nothing more: others take their places."""
    query = select(stages.c.run_id).where(
        stages.c.flow_id == flow, stages.c.stage.in_(among), stages.c.run_id.is_not(None)
    )
    old = batch_of((await connection.execute(query)).scalars())
    for table in (relays, owed, gathers):
        await connection.execute(delete(table).where(table.c.to_run.in_(IN_BATCH)), old)
    await connection.execute(update(groups).where(groups.c.to_run.in_(IN_BATCH)).values(is_due=0), old)


async def flows_go_on(connection: AsyncConnection, of_runs: Collection[int], *, now: int) -> None:
    """Flows that have ended go on, since jobs of these runs were queued again, or have succeeded after all."""
    await connection.execute(_AGAIN_BY_JOBS, {"now": now, **batch_of(of_runs)})
