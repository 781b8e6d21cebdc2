"""What flows that fail one after the other do to their schedule."""

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.pipelines.flow_lifecycle import FlowKind, FlowState
from orchestrator.ledger.flows.outbox import pause_owe
from orchestrator.ledger.schema.flow_tables import flows, schedules


async def schedule_pause(connection: AsyncConnection, flow: int, after_failures: int, now: int) -> bool:
    """Pauses the schedule of the flow's pipeline where its last flows have all failed; whether it did."""
    of = select(flows.c.pipeline_id).where(flows.c.id == flow).scalar_subquery()
    ended = flows.c.kind == FlowKind.SCHEDULED.value, flows.c.ended_at.is_not(None)
    last = (
        select(flows.c.state)
        .join(schedules, schedules.c.pipeline_id == flows.c.pipeline_id)
        .where(flows.c.pipeline_id == of, *ended, flows.c.ended_at > schedules.c.continued_at)
        .where(flows.c.state != FlowState.CANCELLED.value)
        .order_by(flows.c.ended_at.desc(), flows.c.id.desc())
        .limit(after_failures)
    )
    states = (await connection.execute(last)).scalars().all()
    if len(states) < after_failures or set(states) != {FlowState.FAILED.value}:
        return False
    note = f"{after_failures} failed flows in a row"
    paused = (
        update(schedules)
        .where(schedules.c.pipeline_id == of, schedules.c.paused_at.is_(None))
        .values(paused_at=now, note=note)
        .returning(schedules.c.pipeline_id)
    )
    pipeline = (await connection.execute(paused)).scalar()
    if pipeline is not None:
        await pause_owe(connection, pipeline, note, None, now)
    return pipeline is not None
