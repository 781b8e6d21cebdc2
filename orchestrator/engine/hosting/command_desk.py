"""What people ask of the process that works on a ledger: which command is carried out by what, and who hears of it."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio

from orchestrator.engine.commands.cancel_jobs import cancel_chosen
from orchestrator.engine.commands.inbox import CommandInbox, Handler
from orchestrator.engine.commands.resend import resent
from orchestrator.engine.commands.revalidate import Revalidator
from orchestrator.engine.hosting.run_host import RunHost
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import OF_ANOTHER, Action, AskedCommands, Command, Reply

OF_A_PROGRAM: Final = "a program of somebody's works on this ledger, and ends where it was begun"
CHANGES_RUN: Final = frozenset((Action.PRIORITY, Action.BRAKES, Action.RENAME, Action.DELETE))
ASIDE_S: Final = 0.5
"""So long who asks for what may take its time waits for how that ends: a command is to be seen within a second."""

SERVED_LATER: Final = Reply("it is about to be served")
LOOKS: Final = Reply("it looks at the schedules, and carries out what is due")


class CommandDesk(CommandInbox):
    """Of one engine. `learn` has it learn of runs that another process has made, `beat` writes down how this process
    stands, `news` comes of what others commit, and `wake_others` tells other engines of this process what was changed
    here.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        host: RunHost,
        learn: Callable[[], Awaitable[object]],
        beat: Callable[[], Awaitable[None]],
        news: Subscribers,
        wake_others: Callable[[], None],
    ) -> None:
        super().__init__(ledger, host.endpoints.scope)
        self._host = host
        self._learn = learn
        self._beat = beat
        self._wake_others = wake_others
        self.asked_before = AskedCommands()
        """The commands that were asked before this engine was there."""

        self._is_tick_asked = False
        news.add(self._look)
        news.add(self.on_change)
        endpoints = host.endpoints
        self.register(Action.RETRY, host.retry_asked)
        self.register(Action.RESEND, partial(resent, ledger))
        rechecker = Revalidator(ledger=ledger, validators=endpoints.validators, settings_of=endpoints.settings_of)
        self.register(Action.RECHECK, rechecker.recheck_asked)
        self.register(Action.CANCEL_JOBS, partial(cancel_chosen, ledger, endpoints.owed.wake))
        self.register(Action.SERVE, self._of_now(self._told(self._aside(host.serve_asked))))
        self.register(Action.RELEASE, self._of_now(self._told(host.release_asked)))
        self.register(Action.REBIND, self._of_now(host.rebind_asked))
        self.register(Action.TICK, self._tick_asked)
        self.register(Action.STOP, self._of_now(self._stop_refused))
        self.register(Action.STOP_PROCESS, self._of_now(self._stop_refused))

    def _of_now(self, handler: Handler) -> Handler:
        """Who asked another process asks again: what nobody asks for any more is not paid for."""

        async def carry_out(command: Command) -> Reply:
            return OF_ANOTHER if self.asked_before.has(command.id) else await handler(command)

        return carry_out

    def _aside(self, handler: Handler) -> Handler:
        """An account may answer after half a minute: no other command waits for it, least of all a pause."""

        async def carry_out(command: Command) -> Reply:
            ended: list[Reply | StorageError] = []
            has_ended = anyio.Event()

            async def go() -> None:
                try:
                    ended.append(await handler(command))
                except StorageError as error:
                    ended.append(error)
                has_ended.set()

            self._host.groups.taking.start_soon(go)
            with anyio.move_on_after(ASIDE_S):
                await has_ended.wait()
            [reply] = ended or [SERVED_LATER]
            if isinstance(reply, StorageError):
                raise reply
            return reply

        return carry_out

    def _told(self, handler: Handler) -> Handler:
        """Who asked looks next at how this process stands."""

        async def carry_out(command: Command) -> Reply:
            reply = await handler(command)
            if not reply.is_refused:
                await self._beat()
            return reply

        return carry_out

    def stops_when_asked(self, stop: anyio.Event) -> None:
        """`stop` is set once somebody asks in another process for the end of this one. Else that is refused."""

        async def stop_asked(command: Command) -> Reply:
            reply = Reply("it stops")
            await self._ledger.commands.finish(command.id, reply)  # first: what follows ends whoever writes that down
            self._host.say(f"{command.asked_by} asks this process to stop")
            stop.set()
            return reply

        self.register(Action.STOP, self._of_now(stop_asked))
        self.register(Action.STOP_PROCESS, self._of_now(stop_asked))

    async def _stop_refused(self, _command: Command) -> Reply:
        return Reply(OF_A_PROGRAM, is_refused=True)

    async def _tick_asked(self, _command: Command) -> Reply:
        self._is_tick_asked = True
        return LOOKS

    def ticks(self, tick: Callable[[], None]) -> None:
        """`tick` has the schedules looked at when that is asked for: at once where it was, before this process carried
        out any flows.
        """

        async def tick_asked(_command: Command) -> Reply:
            tick()
            return LOOKS

        self.register(Action.TICK, tick_asked)
        if self._is_tick_asked:
            tick()

    def _look(self) -> None:
        """The ledger may say something else of what people want."""
        self._host.endpoints.limits.on_change()
        self._host.control.on_change()

    async def _on_changed(self, command: Command) -> None:
        runs = self._host.runs
        if command.run is not None and command.run not in runs.settings_of:  # another process has made it
            await self._learn()
        if command.run in runs.settings_of and command.action in CHANGES_RUN:  # else nobody has it
            await self._host.look_again(command.run)
        await self._host.control.follow()  # what is asked for next may begin to send
        self._look()
        self._wake_others()
