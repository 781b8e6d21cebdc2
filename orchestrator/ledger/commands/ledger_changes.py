"""Commands that only change the ledger: anybody can carry them out, in the transaction that acknowledges them."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec
from sqlalchemy import bindparam, func, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import UNFINISHED
from orchestrator.core.limits.fair_share import PRIORITY_MAX, PRIORITY_MIN
from orchestrator.core.text.wording import counted
from orchestrator.errors import UsageError
from orchestrator.ledger.commands.command_types import (
    ENDED,
    JOBS_THERE,
    NAME_TAKEN,
    NO_RUN,
    NOT_TAKEN_IN,
    PODS_THERE,
    Action,
    CancelledRun,
    Command,
    NewBrakes,
    NewLimits,
    NewName,
    NewPriority,
    Reply,
    ReplyCode,
    ResetLimits,
)
from orchestrator.ledger.runs.endpoints import chosen_limits_delete, chosen_limits_write
from orchestrator.ledger.schema.job_tables import counts, runs
from orchestrator.ledger.transactions.run_controls import continue_write, control_set, grace_set, lift_write
from orchestrator.ledger.transactions.run_removal import run_has_pods, run_take_back
from orchestrator.settings.command_requests import ControlAction
from orchestrator.settings.run_checks import check_brakes
from orchestrator.settings.run_settings import BRAKES, RunSettings

_LEFT: Final = select(func.coalesce(func.sum(counts.c.n), 0)).where(
    counts.c.run_id == bindparam("run"), counts.c.name.in_([literal_column(f"'{name}'") for name in UNFINISHED])
)


async def apply_change(connection: AsyncConnection, command: Command, now: int) -> Reply:
    """Carries `command` out; says what came of it."""
    try:
        return await LEDGER_CHANGES[Action(command.action)](connection, command, now)
    except msgspec.MsgspecError as error:
        return Reply(f"{command.action} cannot be understood here: {error}", is_refused=True)


async def _control(connection: AsyncConnection, command: Command, now: int) -> Reply:
    action = _ACTIONS[Action(command.action)]
    is_accepted = (
        await connection.execute(select(runs.c.intake_accepted > 0).where(runs.c.id == command.run))
    ).scalar()
    if not is_accepted:
        return Reply(NO_RUN if is_accepted is None else NOT_TAKEN_IN, is_refused=True)
    assert command.run is not None
    left: int = (await connection.execute(_LEFT, {"run": command.run})).scalar_one()
    if left or action is ControlAction.CONTINUE:  # rows that are added later are not meant
        await control_set(connection, command.run, action)
    if action is ControlAction.CONTINUE:
        await continue_write(connection, command.run, at=now)
    if left and action is ControlAction.CANCEL:
        grace_us = msgspec.json.decode(command.argument, type=CancelledRun).grace_us
        await grace_set(connection, command.run, until=now + grace_us, is_given=grace_us > 0)
    return Reply(_BEGUN[action].format(counted(left, "unfinished job"))) if left else ENDED


async def _set_limits(connection: AsyncConnection, command: Command, now: int) -> Reply:
    chosen = msgspec.json.decode(command.argument, type=NewLimits).limits
    assert command.endpoint is not None
    await chosen_limits_write(connection, command.endpoint, chosen, at=now)
    return Reply("they are in force")


async def _reset_limits(connection: AsyncConnection, command: Command, _now: int) -> Reply:
    operations = msgspec.json.decode(command.argument, type=ResetLimits).operations
    assert command.endpoint is not None
    await chosen_limits_delete(connection, command.endpoint, operations)
    return Reply("the former ones are in force")


async def _set_priority(connection: AsyncConnection, command: Command, _now: int) -> Reply:
    priority = msgspec.json.decode(command.argument, type=NewPriority).priority
    if not PRIORITY_MIN <= priority <= PRIORITY_MAX:
        return Reply(f"priority {priority} is not from {PRIORITY_MIN} to {PRIORITY_MAX}", is_refused=True)
    stored = (await connection.execute(select(runs.c.settings).where(runs.c.id == command.run))).scalar()
    if stored is None:
        return Reply(NO_RUN, is_refused=True)
    settings = msgspec.structs.replace(msgspec.json.decode(stored, type=RunSettings), priority=priority)
    change = update(runs).where(runs.c.id == command.run).values(settings=msgspec.json.encode(settings))
    await connection.execute(change)
    return Reply(f"it takes its turns with priority {priority}")


async def _set_brakes(connection: AsyncConnection, command: Command, _now: int) -> Reply:
    given = msgspec.json.decode(command.argument, type=NewBrakes).settings
    stored = (await connection.execute(select(runs.c.settings).where(runs.c.id == command.run))).scalar()
    if stored is None:
        return Reply(NO_RUN, is_refused=True)
    before = msgspec.json.decode(stored, type=RunSettings)
    try:
        changed = {each.name: each.value_type.read((given[each.key],)) for each in BRAKES if each.key in given}
        settings = msgspec.structs.replace(before, **changed)
        check_brakes(settings)
    except (ValueError, UsageError) as error:
        return Reply(str(error), is_refused=True)
    change = update(runs).where(runs.c.id == command.run).values(settings=msgspec.json.encode(settings))
    await connection.execute(change)
    assert command.run is not None
    await lift_write(connection, command.run)
    return Reply("they are in force")


async def _rename(connection: AsyncConnection, command: Command, _now: int) -> Reply:
    name = msgspec.json.decode(command.argument, type=NewName).name
    if (await connection.execute(select(runs.c.id).where(runs.c.name == name, runs.c.id != command.run))).first():
        return Reply(NAME_TAKEN.format(repr(name)), is_refused=True)
    done = await connection.execute(update(runs).where(runs.c.id == command.run).values(name=name))
    return Reply(f"it is called {name}") if done.rowcount else Reply(NO_RUN, is_refused=True)


async def _delete(connection: AsyncConnection, command: Command, _now: int) -> Reply:
    assert command.run is not None
    if await run_take_back(connection, command.run, even_if_cancelling=False):
        return Reply("it is deleted")
    known = (await connection.execute(select(runs.c.id).where(runs.c.id == command.run))).first()
    if known is None:
        return Reply(NO_RUN, is_refused=True)
    if await run_has_pods(connection, command.run):
        return Reply(PODS_THERE, is_refused=True, code=ReplyCode.PODS_PAID)
    return Reply(JOBS_THERE, is_refused=True, code=ReplyCode.JOBS_AT_SERVICE)


_ACTIONS: Final[Mapping[Action, ControlAction]] = {
    Action.PAUSE: ControlAction.PAUSE,
    Action.CONTINUE: ControlAction.CONTINUE,
    Action.CANCEL: ControlAction.CANCEL,
}


_BEGUN: Final[Mapping[ControlAction, str]] = {
    ControlAction.PAUSE: "nothing more of it is sent",
    ControlAction.CONTINUE: "it goes on",
    ControlAction.CANCEL: "nothing more of it is sent; {} to be cancelled",
}


LEDGER_CHANGES: Final[Mapping[Action, Callable[[AsyncConnection, Command, int], Awaitable[Reply]]]] = {
    Action.PAUSE: _control,
    Action.CONTINUE: _control,
    Action.CANCEL: _control,
    Action.LIMITS_SET: _set_limits,
    Action.LIMITS_RESET: _reset_limits,
    Action.PRIORITY: _set_priority,
    Action.BRAKES: _set_brakes,
    Action.RENAME: _rename,
    Action.DELETE: _delete,
}
"""What only changes the ledger: anybody can carry it out, and whoever works follows."""
