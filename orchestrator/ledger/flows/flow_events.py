"""What happens to a flow: its next state, how it is held beside that, and what its runs and its schedule do then."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import bindparam, case, delete, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.pipelines.flow_lifecycle import ENDED, FlowEvent, FlowKind, FlowState, after, before
from orchestrator.core.pipelines.notifications import OF_EVENT
from orchestrator.ledger.schema.flow_tables import flow_ends, flows, schedules, stages
from orchestrator.ledger.schema.handover_tables import gathers, groups, owed, relays
from orchestrator.ledger.statements import IN_BATCH, batch_of, upsert
from orchestrator.ledger.transactions.run_controls import continue_write, control_set
from orchestrator.ledger.transitions.flow_messages_owed import flow_owe, pause_owe
from orchestrator.settings.command_requests import ControlAction


def _step(event: FlowEvent) -> Any:
    """The UPDATE by which `event` happens to the flow `of`, where it may."""
    state = after(event)
    change: dict[str, Any] = {"state": state.value, "why": bindparam("because"), "is_braked": 0}
    if state in ENDED:
        change["ended_at"] = bindparam("now")
    elif event is FlowEvent.CONTINUED:
        change["is_overruled"] = case((flows.c.is_braked == 1, flows.c.is_overruled), else_=1)
    elif event in (FlowEvent.STARTED, FlowEvent.REOPENED):
        change |= {"started_at": bindparam("now"), "ended_at": None, "is_cancelled": 0}
        if event is FlowEvent.REOPENED:
            change["due_at"] = bindparam("now")
    may = flows.c.state.in_([literal_column(f"'{before_it}'") for before_it in sorted(before(event))])
    return update(flows).where(flows.c.id == bindparam("of"), may).values(**change)


FLOW_STEPS: Final[Mapping[FlowEvent, Any]] = {event: _step(event) for event in FlowEvent}


_RUNS_OF: Final = select(stages.c.run_id).where(stages.c.flow_id == bindparam("flow"), stages.c.run_id.is_not(None))


_PIPELINE_OF: Final = select(flows.c.pipeline_id).where(flows.c.id == bindparam("flow"))
_COUNT_END: Final = upsert(flow_ends, lambda new: {"n": flow_ends.c.n + new.n})


async def flow_end_count(connection: AsyncConnection, pipeline: int, state: FlowState, n: int = 1) -> None:
    """So many more flows of a pipeline have ended so."""
    if n:
        await connection.execute(_COUNT_END, {"pipeline_id": pipeline, "state": state.value, "n": n})


async def flow_happens(connection: AsyncConnection, flow: int, event: FlowEvent, why: str, now: int) -> bool:
    found = await connection.execute(FLOW_STEPS[event], {"of": flow, "because": why, "now": now})
    if not found.rowcount:
        return False
    if (state := after(event)) in ENDED:
        pipeline = (await connection.execute(_PIPELINE_OF, {"flow": flow})).scalar_one()
        await flow_end_count(connection, pipeline, state)
    if (news := OF_EVENT.get(event)) is not None:
        await flow_owe(connection, flow, news, why, now)
    return True


async def flow_control_runs(
    connection: AsyncConnection, flow: int, action: ControlAction, *, at: int | None = None
) -> None:
    """Asks something of all of them; to continue `at` that time goes past their brakes, too."""
    for run in (await connection.execute(_RUNS_OF, {"flow": flow})).scalars().all():
        await control_set(connection, run, action)
        if action is ControlAction.CONTINUE and at is not None:
            await continue_write(connection, run, at=at)


# --- held by a brake of one of its runs, or paused as well

BRAKED: Final = update(flows).where(flows.c.id == bindparam("of")).values(is_braked=1, why=bindparam("because"))
WHY_BRAKED: Final = (
    update(flows).where(flows.c.id == bindparam("of"), flows.c.is_braked == 1).values(why=bindparam("because"))
)
PAUSED: Final = (
    update(flows)
    .where(flows.c.id == bindparam("of"), flows.c.state == FlowState.ON_HOLD.value, flows.c.is_braked == 1)
    .values(is_braked=0, why=bindparam("because"))
)
"""What a brake holds is paused as well; that it is held was told."""


# --- failed


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


# --- carried out anew


async def followers_leave(connection: AsyncConnection, flow: int, among: Sequence[str]) -> None:
    """The runs of these stages are handed nothing more: others take their places."""
    query = select(stages.c.run_id).where(
        stages.c.flow_id == flow, stages.c.stage.in_(among), stages.c.run_id.is_not(None)
    )
    old = batch_of((await connection.execute(query)).scalars())
    for table in (relays, owed, gathers):
        await connection.execute(delete(table).where(table.c.to_run.in_(IN_BATCH)), old)
    await connection.execute(update(groups).where(groups.c.to_run.in_(IN_BATCH)).values(is_due=0), old)
