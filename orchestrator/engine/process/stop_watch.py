"""Sees that somebody asks from elsewhere for the end of this process, which is one of several on a ledger on a server.

Each of them looks by itself: it may have no part of the ledger just now, and so no engine that carries out commands.
"""

import logging
from dataclasses import dataclass, field
from typing import Final

import anyio

from orchestrator.engine.runtime.console import Console
from orchestrator.engine.runtime.poll_loop import POLL_S_MAX, SELDOM_S, Wakeup, keep_polling
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import ENDS, OF_ANOTHER, AskedCommands, Command, Reply

log = logging.getLogger(__name__)

STOPS: Final = Reply("it stops")


@dataclass(kw_only=True, eq=False)
class StopWatch:
    """Of the process that is `number` among those of `ledger`; sets `stop`. It looks when `on_change` was called."""

    ledger: Ledger
    number: int
    stop: anyio.Event
    console: Console
    _wakeup: Wakeup = field(init=False, default_factory=Wakeup)
    _before: AskedCommands | None = field(init=False, default=None)
    """The commands that were asked before this process watched."""

    def on_change(self) -> None:
        """Somebody may have asked for something."""
        self._wakeup.wake()

    async def serve(self) -> None:
        """Goes on until cancelled. What was asked before does not concern this process."""
        await keep_polling(self._poll, self._wakeup, at_least_every_s=SELDOM_S)

    async def _poll(self) -> float:
        if self.stop.is_set():
            return SELDOM_S
        try:
            if self._before is None:
                self._before = await self.ledger.commands.asked()
                await self._finish_old(self._before)
            command = await self.ledger.commands.end_asked(self.number, since=self._before)
            if command is not None:
                await self._stop(command)
        except StorageError as error:
            log.info("whether this process is to stop is unknown: %s", error)
            return POLL_S_MAX
        return SELDOM_S

    async def _finish_old(self, before: AskedCommands) -> None:
        """What was asked of processes that have ended since is done: nobody comes who would do it."""
        for command in await self.ledger.commands.pending():
            if command.action in ENDS and before.has(command.id):
                await self.ledger.commands.finish(command.id, OF_ANOTHER)

    async def _stop(self, command: Command) -> None:
        await self.ledger.commands.finish(command.id, STOPS)
        if not self.stop.is_set():
            self.console.info(f"{command.asked_by} asks this process to stop")
            self.stop.set()
