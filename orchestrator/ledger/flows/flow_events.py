"""What happens to a flow: its next state, and what is asked of its runs with it."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import bindparam, case, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.pipelines.flow_lifecycle import ENDED, FlowEvent, after, before
from orchestrator.core.pipelines.notifications import OF_EVENT
from orchestrator.ledger.flows.outbox import flow_owe
from orchestrator.ledger.schema.flow_tables import flows, stages
from orchestrator.ledger.transactions.run_controls import continue_write, control_set
from orchestrator.settings.requests import ControlAction


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


async def flow_happens(connection: AsyncConnection, flow: int, event: FlowEvent, why: str, now: int) -> bool:
    found = await connection.execute(FLOW_STEPS[event], {"of": flow, "because": why, "now": now})
    if not found.rowcount:
        return False
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
