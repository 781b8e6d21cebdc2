"""Carries out the commands of other processes, each once, in the order in which they were asked.

What only changes the ledger is carried out and acknowledged by one transaction, and whoever it concerns is woken. What
takes longer has a handler, registered by its action: it must be harmless to carry out twice, since the process may end
before it is acknowledged. A command that nobody here knows is refused: it is a newer program's.

What goes through many jobs (`LENGTHY`) has a line of its own: a pause must not wait until 50,000 jobs are queued again.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio
import msgspec
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from orchestrator.engine.runtime.poll_loop import POLL_S_MAX, SELDOM_S, Wakeup, keep_polling
from orchestrator.engine.runtime.scope import Scope
from orchestrator.errors import OrchestratorError, StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import ENDS, LENGTHY, Action, Command, Reply
from orchestrator.ledger.commands.ledger_changes import LEDGER_CHANGES

log = logging.getLogger(__name__)

Handler = Callable[[Command], Awaitable[Reply]]
"""Carries a command out, harmlessly so if that was done before. An `OrchestratorError` refuses it with its message."""

UNKNOWN: Final = "the process that works on this ledger does not know {}: it may be of an older version"


class CommandInbox:
    """The commands of one ledger that the engine of a `scope` carries out: those of its runs and endpoints, and where
    it is the keeper, those of none, and, where no process has the endpoint, what only changes the ledger.
    """

    def __init__(self, ledger: Ledger, scope: Scope) -> None:
        self._ledger = ledger
        self._scope = scope
        self._handlers: dict[str, Handler] = {}
        self._wakeup, self._lengthy_wakeup = Wakeup(), Wakeup()

    def register(self, action: Action, handler: Handler) -> None:
        """From now on `handler` carries out commands of this action."""
        self._handlers[action.value] = handler

    def on_change(self) -> None:
        """Another process may have asked for something (`engine.process.ledger_watch` sees that)."""
        self._wakeup.wake()
        self._lengthy_wakeup.wake()

    async def serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Goes on until cancelled. What was asked before has been carried out once it has started."""
        await self._poll(self.run_once)
        task_status.started()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_polling, self._carry_out_lengthy, self._lengthy_wakeup)
            await self._keep_polling(self._carry_out_others, self._wakeup)

    async def _keep_polling(self, carry_out: Callable[[], Awaitable[None]], wakeup: Wakeup) -> None:
        await keep_polling(partial(self._poll, carry_out), wakeup, at_least_every_s=SELDOM_S)

    async def _poll(self, carry_out: Callable[[], Awaitable[None]]) -> float:
        try:
            await carry_out()
        except StorageError as error:
            log.warning("commands could not be carried out: %s", error)
            return POLL_S_MAX
        return SELDOM_S  # whoever asks commits it, and `on_change` is called

    async def _on_changed(self, command: Command) -> None:
        """`command` has changed something in the ledger."""

    async def run_once(self) -> None:
        """Carries out what is pending."""
        await self._carry_out_others()
        await self._carry_out_lengthy()

    async def _pending(self) -> list[Command]:
        """Those that are ours."""
        return [each for each in await self._ledger.commands.pending() if self._is_ours(each)]

    def _is_ours(self, command: Command) -> bool:
        if command.action in ENDS:  # of several processes each sees to its own end (`engine.process.stop_watch`)
            return self._scope.is_everything and command.ends(self._ledger.runs.heartbeats.epoch)
        if command.at_endpoint is None or (command.is_left and command.action in LEDGER_CHANGES):
            return self._scope.is_keeper
        return self._scope.has(command.at_endpoint)

    async def _carry_out_others(self) -> None:
        for command in await self._pending():
            if command.action in LEDGER_CHANGES:
                await self._ledger.commands.change_ledger(command)
                await self._on_changed(command)
            elif command.action not in LENGTHY:
                await self._handle(command)

    async def _carry_out_lengthy(self) -> None:
        for command in await self._pending():
            if command.action in LENGTHY:
                await self._handle(command)

    async def _handle(self, command: Command) -> None:
        await self._ledger.commands.take(command.id)
        await self._ledger.commands.finish(command.id, await self._handled(command))

    async def _handled(self, command: Command) -> Reply:
        handler = self._handlers.get(command.action)
        if handler is None:
            return Reply(UNKNOWN.format(command.action), is_refused=True)
        try:
            return await handler(command)
        except StorageError:
            raise  # tried again
        except OrchestratorError as error:
            return Reply(error.message, is_refused=True)
        except msgspec.MsgspecError as error:  # a newer program's
            return Reply(f"{command.action} cannot be understood here: {error}", is_refused=True)
