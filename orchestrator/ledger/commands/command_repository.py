"""What people ask of whoever serves the ledger: rows (a mailbox), each acknowledged once, with who asked and what came
of it.

Whoever asks writes a row and waits for its acknowledgement; whoever serves the ledger takes the rows in the order in
which they were asked. What a command changes in the ledger and its acknowledgement are one transaction, so neither a
crash nor a second process carries it out twice. A command only says what is to change: that a run is paused or
cancelled stands with the run.
"""

from collections.abc import Callable, Sequence
from typing import Final

import anyio
import msgspec
from sqlalchemy import bindparam, delete, func, insert, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.ledger.actions.action_rows import action_add, actions_carried_out
from orchestrator.ledger.actions.asker import Asker, this_user
from orchestrator.ledger.commands.command_as_action import command_act
from orchestrator.ledger.commands.command_types import ENDS, Action, Argument, AskedCommands, Command, Reply
from orchestrator.ledger.commands.ledger_changes import apply_change
from orchestrator.ledger.expressions import nobody_has
from orchestrator.ledger.schema.job_tables import commands, runs
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.ledger.transactions.repository import Repository, alone, shared, signalling
from orchestrator.ledger.transactions.run_controls import progress_add
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.error_kinds import Restated, failures_restate
from orchestrator.units import HOUR_US

ANSWER_S: Final = 5.0
"""How long whoever asks waits for an acknowledgement."""

LOOK_S: Final = 0.05
KEPT_US: Final = 30 * 24 * HOUR_US
"""How long an acknowledged command is kept."""

OVERTAKING_MAX: Final = 100
"""So many commands are asked at most while one that has its number already is being committed: people ask."""

_LAST: Final = select(commands.c.id).order_by(commands.c.id.desc()).limit(OVERTAKING_MAX)

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
_ARE_ACCEPTED: Final = select(runs.c.id).where(runs.c.id.in_(IN_BATCH), runs.c.intake_accepted > 0)
_AT_ENDPOINT: Final = func.coalesce(runs.c.endpoint_id, commands.c.endpoint_id)
_COMMANDS: Final = select(
    commands, _AT_ENDPOINT.label("at_endpoint"), nobody_has(_AT_ENDPOINT).label("is_left")
).select_from(commands.outerjoin(runs, runs.c.id == commands.c.run_id))
_PENDING: Final = _COMMANDS.where(literal_column("done_at IS NULL")).order_by(commands.c.id)


class Commands(Repository):
    """The commands of a ledger."""

    @signalling
    async def ask(
        self,
        transaction: Transaction,
        action: str,
        *,
        run: int | None = None,
        endpoint: int | None = None,
        argument: Argument | None = None,
        asked: Asker | None = None,
    ) -> int:
        """Asks for something; returns the number of the command. Where it is somebody's wish (`asked`), it is written
        as an action in the same transaction. Raises `StorageError`, and `AskedBefore` where a form acts again.
        """
        now = self._access.now()
        row = {
            "asked_at": now,
            "asked_by": this_user() if asked is None else asked.name,
            "action": action,
            "run_id": run,
            "endpoint_id": endpoint,
            "argument": b"{}" if argument is None else msgspec.json.encode(argument),
        }
        await transaction.connection.execute(delete(commands).where(commands.c.done_at < now - KEPT_US))
        made = await transaction.connection.execute(insert(commands).returning(commands.c.id), row)
        number = int(made.scalar_one())
        if asked is not None:
            act = await command_act(transaction.connection, action, run, endpoint, argument)
            await action_add(transaction.connection, asked, act, now=now, command=number)
        return number

    async def asked(self) -> AskedCommands:
        """Those that are there."""
        last = [row[0] for row in await self._access.rows(_LAST)]
        return AskedCommands(last[-1] if len(last) == OVERTAKING_MAX else 0, frozenset(last))

    async def is_stop_asked(self, *, since: AskedCommands) -> bool:
        """Whether somebody has asked for the end of what works here, by another command than these."""
        query = select(commands.c.id).where(commands.c.id > since.before, commands.c.action == Action.STOP.value)
        return any(not since.has(row[0]) for row in await self._access.rows(query))

    async def end_asked(self, process: int, *, since: AskedCommands) -> Command | None:
        """The first command but these that asks for the end of the process of that number, if any does."""
        asked = commands.c.action.in_(sorted(ENDS))
        query = _COMMANDS.where(commands.c.id > since.before, asked).order_by(commands.c.id)
        found = await self._access.structs(Command, query)
        return next((each for each in found if each.ends(process) and not since.has(each.id)), None)

    async def pending(self) -> list[Command]:
        """Those that are not done, in the order in which they were asked."""
        return await self._access.structs(Command, _PENDING)

    async def one(self, number: int) -> Command:
        """The command of that number, which is there."""
        [found] = await self._access.structs(Command, _COMMANDS.where(commands.c.id == number))
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
        await self._access.shared.execute(update(commands).where(commands.c.id == number).values(taken_at=taken))

    @shared
    async def finish(self, transaction: Transaction, number: int, reply: Reply) -> None:
        """Acknowledges it, unless somebody has."""
        await self._acknowledge(transaction.connection, number, reply)
        await actions_carried_out(transaction.connection, number)

    @shared
    async def apply(
        self,
        transaction: Transaction,
        number: int,
        steps: Sequence[Transition],
        then: Callable[[Job], Transition | None] = lambda _: None,
        *,
        restated: Sequence[Restated] = (),
    ) -> frozenset[int]:
        """Takes steps that the command asks for, and counts them as its progress in the same transaction; returns the
        jobs whose step was not stale, nor of a run that was taken back meanwhile. What a job is after it may take the
        step that `then` says at once. Other jobs are `restated`.
        """
        runs_of = batch_of({step.before.run for step in steps})
        there = frozenset((await transaction.connection.execute(_ARE_ACCEPTED, runs_of)).scalars())
        taken = await transaction.apply([step for step in steps if step.before.run in there])
        done = frozenset(step.after.id for step in taken)
        await transaction.apply([more for step in taken if (more := then(step.after)) is not None])
        if restated:
            await failures_restate(transaction.connection, restated, at=self._access.now())
        await progress_add(transaction.connection, number, len(done))
        return done

    async def _acknowledge(self, connection: AsyncConnection, number: int, reply: Reply) -> bool:
        values = {"of": number, "now": self._access.now(), "text": reply.text, "refused": int(reply.is_refused)}
        values["code"] = reply.code
        return (await connection.execute(_FINISH, values)).rowcount == 1

    @alone
    async def change_ledger(self, transaction: Transaction, command: Command) -> None:
        """Carries out and acknowledges what only changes the ledger (`LEDGER_CHANGES`), in one transaction.

        What somebody has acknowledged meanwhile is not carried out again.
        """
        connection = transaction.connection
        if await self._acknowledge(connection, command.id, Reply("")):
            reply = await apply_change(connection, command, self._access.now())
            await connection.execute(
                update(commands)
                .where(commands.c.id == command.id)
                .values(outcome=reply.text, is_refused=int(reply.is_refused), outcome_code=reply.code)
            )
            await actions_carried_out(connection, command.id)
