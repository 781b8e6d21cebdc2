"""One action: what was asked of what, and its row, which is written in the transaction that does what was asked."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from sqlalchemy import Column, bindparam, case, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.errors import OrchestratorError
from orchestrator.ledger.actions.asker import ActionWay, Asker
from orchestrator.ledger.schema.action_tables import actions
from orchestrator.ledger.schema.job_tables import commands
from orchestrator.ledger.statements import insert_new
from orchestrator.units import HOUR_US

KEPT_US: Final = 400 * 24 * HOUR_US
"""How long what came of an action is kept."""


class SubjectKind(StrEnum):
    """Of what something is asked. The values stand in ledgers."""

    RUN = "run"
    ENDPOINT = "endpoint"
    FLOW = "flow"
    PIPELINE = "pipeline"
    MESSAGE = "message"
    LEDGER = "ledger"


class Verb(StrEnum):
    """What is asked of flows, pipelines and messages; of runs and endpoints it is the command. The values stand in
    ledgers.
    """

    PAUSE = "pause"
    CONTINUE = "continue"
    CANCEL = "cancel"
    RERUN = "rerun"
    """A flow goes on with new runs, from a stage on."""

    FIRE = "fire"
    BACKFILL = "backfill"
    SCHEDULE_PAUSE = "schedule-pause"
    SCHEDULE_CONTINUE = "schedule-continue"
    SCHEDULE_REMOVE = "schedule-remove"
    APPLY = "apply"
    """A new version of a pipeline."""

    SEND_AGAIN = "send-again"
    """A message that nobody took."""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, and of what."""

    verb: str
    subject: SubjectKind
    number: int | None = None
    """Of the subject, in the ledger; None where there is none, as of a run that was mistyped."""

    name: str
    """What the subject is called."""

    where: str = ""
    """A filter of its jobs."""

    options: Mapping[str, str] = {}
    """What else was asked for, by names that people know."""

    count: int | None = None
    """How many it concerns, where whoever asks was not told another number."""


class Ended(msgspec.Struct, frozen=True):
    """What came of an action."""

    outcome: str
    is_refused: bool = False
    done: int | None = None
    """How many it did."""


class ActionRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An action as it stands. Times are microseconds UTC."""

    id: int
    form: str | None
    asked_at: int
    asked_by: str
    way: ActionWay
    verb: str
    kind: SubjectKind
    number: int | None
    subject: str
    where: str
    options: bytes
    """JSON: texts by names."""

    asked_n: int | None
    done_n: int | None
    """How many jobs, fires or messages it has changed; while it is carried out: so far."""

    command: int | None
    taken_at: int | None
    """When somebody has begun to carry the command out."""

    done_at: int | None
    outcome: str | None
    is_refused: bool


ACTIONS: Final = select(
    actions.c.id,
    actions.c.form,
    actions.c.asked_at,
    actions.c.asked_by,
    actions.c.way,
    actions.c.verb,
    actions.c.kind,
    actions.c.subject_id,
    actions.c.subject,
    actions.c.chosen,
    actions.c.options,
    actions.c.asked_n,
    case((actions.c.done_at.is_(None), func.nullif(commands.c.progress, 0)), else_=actions.c.done_n),
    actions.c.command_id,
    commands.c.taken_at,
    actions.c.done_at,
    actions.c.outcome,
    actions.c.is_refused,
).select_from(actions.outerjoin(commands, commands.c.id == actions.c.command_id))
"""Those that become an `ActionRow`."""


class AskedBefore(OrchestratorError):
    """A form has acted already, and acts once."""

    def __init__(self, action: int) -> None:
        super().__init__(f"this was asked already: see action {action}")
        self.action = action


def _of_command(column: Column[Any]) -> Any:
    return select(column).where(commands.c.id == bindparam("of")).scalar_subquery()


_ADD: Final = insert_new(actions).returning(actions.c.id)
_OF_FORM: Final = select(actions.c.id).where(actions.c.form == bindparam("of"))
_CARRIED_OUT: Final = (
    update(actions)
    .where(actions.c.command_id == bindparam("of"), actions.c.done_at.is_(None))
    .values(
        done_at=_of_command(commands.c.done_at),
        outcome=_of_command(commands.c.outcome),
        is_refused=_of_command(commands.c.is_refused),
        done_n=case(
            (actions.c.asked_n.is_(None), func.nullif(_of_command(commands.c.progress), 0)),
            else_=_of_command(commands.c.progress),
        ),
    )
)


async def action_add(
    connection: AsyncConnection,
    asked: Asker | None,
    act: Act,
    *,
    now: int,
    ended: Ended | None = None,
    command: int | None = None,
) -> int | None:
    """Writes that `act` was asked, and what came of it where that is known. Returns its number; None where nobody
    asked: the program did it by itself.

    Raises `AskedBefore` where the form has acted already: then nothing of the transaction may stay.
    """
    if asked is None:
        return None
    row: dict[str, Any] = {
        "form": asked.form,
        "asked_at": now,
        "asked_by": asked.name,
        "way": asked.way.value,
        "verb": act.verb,
        "kind": act.subject.value,
        "subject_id": act.number,
        "subject": act.name,
        "chosen": act.where or asked.where,
        "options": msgspec.json.encode(act.options),
        "asked_n": act.count if asked.count is None else asked.count,
        "done_n": ended and ended.done,
        "command_id": command,
        "done_at": now if ended else None,
        "outcome": ended and ended.outcome,
        "is_refused": int(ended is not None and ended.is_refused),
    }
    await connection.execute(delete(actions).where(actions.c.done_at < now - KEPT_US))
    number = (await connection.execute(_ADD, row)).scalar()
    if number is None:  # also where another transaction has just added it, for which this one has waited
        raise AskedBefore((await connection.execute(_OF_FORM, {"of": asked.form})).scalar_one())
    return int(number)


async def actions_carried_out(connection: AsyncConnection, command: int) -> None:
    """The command was acknowledged; what came of it is what came of the action that asked for it."""
    await connection.execute(_CARRIED_OUT, {"of": command})
