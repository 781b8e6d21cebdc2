"""What people ask of flows, as actions: in the transaction that does it."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.pipelines.pipeline import flow_name
from orchestrator.core.text.wording import counted
from orchestrator.ledger.actions.action_rows import Act, Ended, SubjectKind, Verb, action_add
from orchestrator.ledger.actions.asker import Asker
from orchestrator.ledger.schema.flow_tables import flows
from orchestrator.settings.command_requests import ControlAction

CONTROLLED: Final = {
    ControlAction.PAUSE: "nothing more of it is sent",
    ControlAction.CONTINUE: "it goes on",
    ControlAction.CANCEL: "nothing more of it is sent; it ends once its runs have",
}
"""What comes of asking this of a flow."""


async def flow_action_add(
    connection: AsyncConnection,
    asked: Asker | None,
    flow: int,
    verb: Verb,
    *,
    now: int,
    outcome: str,
    options: Mapping[str, str] | None = None,
) -> None:
    """Writes what was asked of a flow, and came of it, where somebody `asked`. Raises `AskedBefore`."""
    if asked is not None:
        name = (await connection.execute(select(flows.c.name).where(flows.c.id == flow))).scalar_one()
        act = Act(verb=verb, subject=SubjectKind.FLOW, number=flow, name=name, options=options or {})
        await action_add(connection, asked, act, now=now, ended=Ended(outcome))


class MadeUp(NamedTuple):
    """How past fires are made up for."""

    parallel: int = 1
    """So many of these flows run at once."""

    again: bool = False
    """A fire that has a flow gets a further one."""


AT_ONCE: Final = MadeUp()


def fire_options(name: str, fire_times: Sequence[int], made_up: MadeUp) -> dict[str, str]:
    """Which fires were asked for, by the names of their flows: those show their times."""
    if len(fire_times) == 1:
        return {"fire": flow_name(name, fire_times[0])}
    ends = {"first": flow_name(name, fire_times[0]), "last": flow_name(name, fire_times[-1])} if fire_times else {}
    return ends | {"at once": str(made_up.parallel)} | ({"again": "yes"} if made_up.again else {})


def made_sentence(made: Sequence[str]) -> str:
    """Which flows were made."""
    if len(made) == 1:
        return f"{made[0]} was made"
    return f"{counted(len(made), 'flow')} were made" if made else "there was a flow already, and none was made"
