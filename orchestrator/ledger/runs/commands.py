"""What people ask of whoever serves the ledger: rows, each acknowledged once, with who asked and what came of it.

Whoever asks writes a row and waits for its acknowledgement; whoever serves the ledger takes the rows in the order in
which they were asked. What a command changes in the ledger and its acknowledgement are one transaction, so neither a
crash nor a second process carries it out twice. A command only says what is to change: that a run is paused or
cancelled stands with the run.
"""

import getpass
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import anyio
import msgspec
from sqlalchemy import bindparam, delete, func, insert, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.job import Job, Transition
from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.core.limits.fair_share import PRIORITY_MAX, PRIORITY_MIN
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.text.wording import counted
from orchestrator.ledger.runs.endpoint_limits import limits_reset, limits_set
from orchestrator.ledger.runs.heartbeats import this_process
from orchestrator.ledger.schema.job_tables import commands, counts, runs
from orchestrator.ledger.schema.row_codec import values
from orchestrator.ledger.transactions.group_commit import Transaction
from orchestrator.ledger.transactions.repository import Repository
from orchestrator.ledger.transactions.run_controls import (
    continue_write,
    control_set,
    grace_set,
    lift_write,
    progress_add,
)
from orchestrator.ledger.transactions.run_removal import run_take_back
from orchestrator.ledger.transitions.error_kinds import Restated, failures_restate
from orchestrator.settings.brake_flags import BRAKES, check_brakes
from orchestrator.settings.structs import ControlAction, Pinned, RunSettings
from orchestrator.units import HOUR_US

ANSWER_S: Final = 5.0
"""How long whoever asks waits for an acknowledgement."""

LOOK_S: Final = 0.05
KEPT_US: Final = 30 * 24 * HOUR_US
"""How long an acknowledged command is kept."""

NO_RUN: Final = "there is no such run any more"
NOT_TAKEN_IN: Final = "it is not taken in yet; ask again once its input was read"
NAME_TAKEN: Final = "there is a run called {} already; choose another name"
JOBS_THERE: Final = "jobs of it are at the service, and their results would be lost"
MAY_BE_TAKEN: Final = "{} may have taken a job of it"


class ReplyCode(StrEnum):
    """What came of a command, where whoever asked goes on by it. The values stand in ledgers."""

    HAD_ENDED = "had_ended"
    """The run had ended, so there was nothing to be done."""

    ASKED_ANOTHER = "asked_another"
    """It concerned another process alone, which has ended."""


class Action(StrEnum):
    """What can be asked."""

    PAUSE = "pause"
    CONTINUE = "continue"
    CANCEL = "cancel"
    LIMITS_SET = "limits-set"
    LIMITS_RESET = "limits-reset"
    PRIORITY = "priority"
    BRAKES = "brakes"
    """To change the brakes of a run."""

    RETRY = "retry"
    """To queue failed and cancelled jobs again."""

    RECHECK = "recheck"
    """To judge outputs anew that were collected."""

    RESEND = "resend"
    """To send anew what is outstanding, since the service has it no more."""

    CANCEL_JOBS = "cancel-jobs"
    """To cancel some jobs of a run."""

    RENAME = "rename"
    DELETE = "delete"
    """To take back that a run was taken in; who asked removes what is left of it."""

    REBIND = "rebind"
    """To give a run another endpoint, where the former never took a job of it."""

    SERVE = "serve"
    """To serve a run that another process has taken in."""

    TICK = "tick"
    """To look at the schedules, and to carry out what is due."""

    RELEASE = "release"
    """To send no more of a run until somebody asks for that again."""

    STOP = "stop"
    """To end, in order: for whoever works on the ledger, and for those that wait to take its place."""


class Command(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One command. Times are microseconds UTC."""

    id: int
    asked_at: int
    asked_by: str
    action: str
    """An `Action`, or what a newer program knows."""

    run: int | None
    endpoint: int | None
    argument: bytes
    """JSON; what it holds depends on the action."""

    taken_at: int | None = None
    done_at: int | None = None
    outcome: str | None = None
    """What came of it, once it is done."""

    is_refused: bool = False
    progress: int = 0
    """How many jobs it has changed so far, whichever process did."""

    code: ReplyCode | None = None
    """Which outcome it is, where whoever asked has to know it."""


class NewLimits(msgspec.Struct, frozen=True):
    """The argument of LIMITS_SET."""

    limits: Mapping[Operation, Limit]


class ResetLimits(msgspec.Struct, frozen=True):
    """The argument of LIMITS_RESET."""

    operations: tuple[Operation, ...]


class NewPriority(msgspec.Struct, frozen=True):
    """The argument of PRIORITY."""

    priority: int


class NewBrakes(msgspec.Struct, frozen=True):
    """The argument of BRAKES: the settings that are changed, as texts by key."""

    settings: Mapping[str, str]


class Retried(msgspec.Struct, frozen=True, omit_defaults=True):
    """The argument of RETRY: which of the jobs that failed or were cancelled, as a filter, and with which settings."""

    where: str = ""
    execution_timeout_ms: int | None = None
    ttl_ms: int | None = None
    max_attempts: int | None = None
    endpoint: str | None = None
    """Another endpoint of the run's service; None for the run's own."""


class NewValidator(msgspec.Struct, frozen=True):
    """The argument of RECHECK: what the run takes for a result from now on."""

    schema: Pinned | None
    check: Pinned | None
    output_required: bool


class CancelledJobs(msgspec.Struct, frozen=True):
    """The argument of CANCEL_JOBS: which of the unfinished jobs, as a filter."""

    where: str


class CancelledRun(msgspec.Struct, frozen=True):
    """The argument of CANCEL."""

    grace_us: int = 0
    """So long each of its resumable jobs at the service may take to its next checkpoint."""


class NewName(msgspec.Struct, frozen=True):
    """The argument of RENAME."""

    name: str


class NewEndpoint(msgspec.Struct, frozen=True):
    """The argument of REBIND."""

    service_url: str
    endpoint: str


Argument = (
    NewLimits
    | ResetLimits
    | NewPriority
    | NewBrakes
    | NewValidator
    | Retried
    | CancelledRun
    | CancelledJobs
    | NewName
    | NewEndpoint
)


class Reply(msgspec.Struct, frozen=True):
    """What came of a command: a sentence, and a code where whoever asked goes on by it."""

    text: str
    is_refused: bool = False
    code: ReplyCode | None = None


ENDED: Final = Reply("all of its jobs have their outcomes already", code=ReplyCode.HAD_ENDED)
OF_ANOTHER: Final = Reply("the process that this was asked of has ended", is_refused=True, code=ReplyCode.ASKED_ANOTHER)


_WAIT_FOR_THEM: Final = "delete it once they have ended (orchestrator cancel gives them up)"
_FINISH: Final = (
    update(commands)
    .where(commands.c.id == bindparam("of"), commands.c.done_at.is_(None))
    .values(
        taken_at=func.coalesce(commands.c.taken_at, bindparam("now")),
        done_at=bindparam("now"),
        outcome=bindparam("text"),
        is_refused=bindparam("refused"),
        outcome_code=bindparam("code"),
    )
)
_UNFINISHED: Final = tuple(state.value for state in State if state not in TERMINAL)
_LEFT: Final = select(func.coalesce(func.sum(counts.c.n), 0)).where(
    counts.c.run_id == bindparam("run"), counts.c.name.in_([literal_column(f"'{name}'") for name in _UNFINISHED])
)


class Commands(Repository):
    """The commands of a ledger."""

    async def ask(
        self, action: str, *, run: int | None = None, endpoint: int | None = None, argument: Argument | None = None
    ) -> int:
        """Asks for something; returns the number of the command. Raises `StorageError`."""
        now = self._access.now()
        row = {
            "asked_at": now,
            "asked_by": this_user(),
            "action": action,
            "run_id": run,
            "endpoint_id": endpoint,
            "argument": b"{}" if argument is None else msgspec.json.encode(argument),
        }

        async def block(transaction: Transaction) -> int:
            await transaction.connection.execute(delete(commands).where(commands.c.done_at < now - KEPT_US))
            made = await transaction.connection.execute(insert(commands).returning(commands.c.id), row)
            return int(made.scalar_one())

        return await self._access.write(block)

    async def latest(self) -> int:
        """The number of the one that was asked last; 0 where there is none."""
        return int(await self._access.value(select(func.coalesce(func.max(commands.c.id), 0))))

    async def is_stop_asked(self, *, after: int) -> bool:
        """Whether somebody has asked for the end of what works here since command number `after`."""
        query = select(commands.c.id).where(commands.c.id > after, commands.c.action == Action.STOP.value).limit(1)
        return bool(await self._access.rows(query))

    async def pending(self) -> list[Command]:
        """Those that are not done, in the order in which they were asked."""
        query = select(commands).where(literal_column("done_at IS NULL")).order_by(commands.c.id)
        return values(Command, await self._access.rows(query))

    async def one(self, number: int) -> Command:
        """The command of that number, which is there."""
        [found] = values(Command, await self._access.rows(select(commands).where(commands.c.id == number)))
        return found

    async def answer(self, number: int, *, within_s: float = ANSWER_S) -> Command:
        """The command once it is acknowledged, or as it stands after `within_s` seconds."""
        until = anyio.current_time() + within_s
        while True:
            found = await self.one(number)
            if found.done_at is not None or anyio.current_time() >= until:
                return found
            await anyio.sleep(LOOK_S)

    async def take(self, number: int) -> None:
        """Somebody has begun to carry it out: for those who look."""
        taken = func.coalesce(commands.c.taken_at, self._access.now())
        await self._access.execute(update(commands).where(commands.c.id == number).values(taken_at=taken))

    async def finish(self, number: int, reply: Reply) -> None:
        """Acknowledges it, unless somebody has."""

        async def block(transaction: Transaction) -> None:
            await self._acknowledge(transaction.connection, number, reply)

        await self._access.write(block)

    async def apply(
        self,
        number: int,
        steps: Sequence[Transition],
        then: Callable[[Job], Transition | None] = lambda _: None,
        *,
        restated: Sequence[Restated] = (),
    ) -> frozenset[int]:
        """Takes steps that the command asks for, and counts them as its progress in the same transaction; returns the
        jobs whose step was not stale. What a job is after it may take the step that `then` says at once. Other jobs
        are `restated`.
        """

        async def block(transaction: Transaction) -> frozenset[int]:
            taken = await transaction.apply(steps)
            done = frozenset(step.after.id for step in taken)
            await transaction.apply([more for step in taken if (more := then(step.after)) is not None])
            if restated:
                await failures_restate(transaction.connection, restated, at=self._access.now())
            await progress_add(transaction.connection, number, len(done))
            return done

        return await self._access.write(block)

    async def _acknowledge(self, connection: AsyncConnection, number: int, reply: Reply) -> bool:
        values = {"of": number, "now": self._access.now(), "text": reply.text, "refused": int(reply.is_refused)}
        values["code"] = reply.code
        return (await connection.execute(_FINISH, values)).rowcount == 1

    async def obey(self, command: Command) -> None:
        """Carries out and acknowledges what only changes the ledger (`OBEYED`), in one transaction.

        What somebody has acknowledged meanwhile is not carried out again.
        """

        async def block(transaction: Transaction) -> None:
            connection = transaction.connection
            if await self._acknowledge(connection, command.id, Reply("")):
                reply = await _obey(connection, command, self._access.now())
                await connection.execute(
                    update(commands)
                    .where(commands.c.id == command.id)
                    .values(outcome=reply.text, is_refused=int(reply.is_refused), outcome_code=reply.code)
                )

        await self._access.write(block)


async def _obey(connection: AsyncConnection, command: Command, now: int) -> Reply:
    """Carries `command` out; says what came of it."""
    try:
        return await OBEYED[Action(command.action)](connection, command, now)
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
    await limits_set(connection, command.endpoint, chosen, at=now)
    return Reply("they are in force")


async def _reset_limits(connection: AsyncConnection, command: Command, _now: int) -> Reply:
    operations = msgspec.json.decode(command.argument, type=ResetLimits).operations
    assert command.endpoint is not None
    await limits_reset(connection, command.endpoint, operations)
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
        changed = {each.name: each.form.read((given[each.key],)) for each in BRAKES if each.key in given}
        settings = msgspec.structs.replace(before, **changed)
        check_brakes(settings)
    except ValueError as error:
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
    return Reply(NO_RUN if known is None else f"{JOBS_THERE}; {_WAIT_FOR_THEM}", is_refused=True)


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

OBEYED: Final[Mapping[Action, Callable[[AsyncConnection, Command, int], Awaitable[Reply]]]] = {
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

LENGTHY: Final = frozenset({Action.RETRY, Action.RECHECK, Action.RESEND, Action.CANCEL_JOBS, Action.REBIND})
"""What goes through many jobs, or waits for requests under way: seconds, or more. Nothing else waits for it."""


def this_user() -> str:
    """Who asks: user, host and process id, for people."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in containers
        user = str(os.getuid())
    return f"{user}@{this_process()}"
