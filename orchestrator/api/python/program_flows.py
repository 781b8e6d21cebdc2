"""Flows as a program sees them: carried out by its own engine, or by the process that works on the ledger."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio

from orchestrator.api.hosting.follower import LOOK_S
from orchestrator.api.hosting.host import Host
from orchestrator.api.runs.process_commands import ask_process
from orchestrator.engine.engine import Engine
from orchestrator.engine.flows.scheduler import Firing, Scheduler
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import Action

NEWS_S_MAX: Final = 30.0
"""How long to wait for news of a flow before it is looked at all the same."""


class ProgramFlows:
    """The flows of the ledger that `host` works on, once `engine` has begun, or that is open beside another process."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.firing = Firing.HANDED_OVER
        self._engine: Engine | None = None
        self._scheduler: Scheduler | None = None
        self._asked_of: str | None = None
        """Who was asked last to carry out flows."""

    async def taken_up(self, engine: Engine, scheduler: Scheduler) -> None:
        """The program's engine carries them out from now on."""
        self._engine, self._scheduler = engine, scheduler
        if self.firing is not Firing.HANDED_OVER:
            scheduler.take_up(self.firing)
        if self.firing is Firing.ALWAYS:
            await engine.host.serve_all()

    async def carry_out(self, ledger: Ledger) -> None:
        """Flows are carried out from now on: here, or by whoever works on the ledger."""
        if self.firing is Firing.HANDED_OVER:
            self.firing = Firing.ASKED
        if self._scheduler is not None:
            self._scheduler.take_up(Firing.ASKED)
        else:
            self._asked_of = (await ask_process(ledger, Action.TICK)).by

    async def fire(self, ledger: Ledger) -> None:
        """Fires, and serves every run of the ledger, until cancelled: as soon as nobody else works on it.

        Raises `UsageError` where the program does so already.
        """
        if self.firing is Firing.ALWAYS:
            raise UsageError("this Orchestrator serves already")
        self.firing = Firing.ALWAYS
        host = self._host
        try:
            if self._engine is not None and self._scheduler is not None:
                await self._engine.host.serve_all()
                self._scheduler.take_up(Firing.ALWAYS)
            else:
                held_by = await ledger.holder()
                host.console.info(f"{held_by} works on this ledger; this program serves it once that has ended")
            await host.stop.wait()
        finally:
            self.firing = Firing.ASKED
            if self._scheduler is not None:
                self._scheduler.fire_no_more()

    def why_stuck(self, flow: str) -> str | None:
        """Why nothing comes of a flow before somebody does something, as far as this program carries it out."""
        stuck = [] if self._scheduler is None else self._scheduler.stuck
        return next((work.why_stuck for work in stuck if work.flow.name == flow), None)

    async def version(self, ledger: Ledger, run: int | None = None) -> tuple[int, ...]:
        """Another value once there is any news of flows, or of jobs of `run`: to be taken before it is looked how they
        stand.
        """
        if self._engine is None or self._scheduler is None:
            return (await ledger.commits_of_others(),)
        session = None if run is None else self._engine.runs.sessions.get(run)
        return self._scheduler.changes, 0 if session is None else session.progress.changes

    async def news(self, ledger: Ledger, version: tuple[int, ...], run: int | None = None) -> None:
        """Waits until that is another one, or the program leaves; no longer than `NEWS_S_MAX`."""
        with anyio.move_on_after(NEWS_S_MAX):
            while not self._host.stop.is_set() and await self.version(ledger, run) == version:
                if self._engine is None or self._scheduler is None:
                    await self._look_at_holder(ledger)
                    continue
                session = None if run is None else self._engine.runs.sessions.get(run)
                changes: list[Callable[[], Awaitable[None]]] = [partial(self._scheduler.change, version[0])]
                changes += [session.progress.change] if session else []
                async with anyio.create_task_group() as group:
                    for change in changes:
                        group.start_soon(_first_of, change, group.cancel_scope)

    async def _look_at_holder(self, ledger: Ledger) -> None:
        """After a while; who has come into the place of who was asked is asked, too."""
        if await ledger.holder() not in (None, self._asked_of):
            await self.carry_out(ledger)
        with anyio.move_on_after(LOOK_S):
            await self._host.stop.wait()

    def changed(self) -> None:
        """An engine of this program's notices only by itself what it has written."""
        if self._engine is not None and self._scheduler is not None:
            self._engine.host.control.on_change()
            self._scheduler.on_change()

    def settled(self) -> None:
        """Has whoever waits for news look again."""
        if self._scheduler is not None:
            self._scheduler.settled()


async def _first_of(change: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
    await change()
    scope.cancel()
