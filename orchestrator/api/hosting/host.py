"""The one way in which a process works on a ledger: takes its lock or waits for it, starts an engine and stops it.

`run`, `serve`, `tick`, `trigger --wait` and programs (`orchestrator.Orchestrator`) all work by it.
"""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from orchestrator.api.flows.flow_files import LocalFiles
from orchestrator.api.hosting.follower import LOOK_S, check_place
from orchestrator.api.inspect.standstill import tell_standstills
from orchestrator.api.messages.ledger_alarm import LedgerAlarm
from orchestrator.api.runs import start_and_stop_texts
from orchestrator.api.runs.ledger_rescue import rescuing
from orchestrator.engine.engine import Engine, open_engine
from orchestrator.engine.flows.scheduler import Firing, Scheduler
from orchestrator.engine.maintenance.janitor import Recovered
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.process.engine_process import EngineProcess
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import LedgerBusyError, LedgerUnavailableError
from orchestrator.ledger import Ledger, is_ready, open_ledger, refuse_abandoned
from orchestrator.settings.addresses.ledger_address import LedgerAddress, LedgerUrl
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest

PATIENCE_S: Final = 600.0
"""How long who works to some end waits for a ledger that cannot be used just now: servers are begun anew in less."""

OPENED_S_MAX: Final = 30.0
"""How long to wait for another process to make the ledger that it works on, or to bring it to this program's schema."""


@dataclass(kw_only=True, eq=False)
class Host:
    """One process beside or on the ledger at `path`. What its engine says goes to `console`.

    The order of a whole life: `take_lock_or_find`, `take_place` where another process has the lock, `opened`,
    `working` and, inside of that, `begin`.
    """

    path: LedgerAddress
    connection: ConnectionSettings
    dependencies: Dependencies
    console: Console
    stop: anyio.Event
    """Once set, the engine stops in order, and nobody waits for the lock any more."""

    doing: str = ""
    """What those are told who find the lock taken."""

    is_stopped_by_others: bool = True
    """Whether people may end the engine from other processes (`orchestrator stop`), or by setting `stop`. Else it works
    to the end of the block `working`.
    """

    patience_s: float | None = None
    """How long the engine waits for a ledger that cannot be used just now. None: for a server until that is begun anew,
    and for a file, which people mend, not at all: they see the work end.
    """

    run: int | None = None
    """The run for which alone it is there, of a ledger that others may share. Whoever follows that run tells people how
    it and the ledger stand.
    """

    engine: Engine | None = None
    """The engine, once it is open."""

    @property
    def is_shared(self) -> bool:
        """Whether several processes may have parts of the ledger."""
        return isinstance(self.path, LedgerUrl)

    # --- the lock

    def lock(self) -> AbstractAsyncContextManager[None]:
        """The ledger's lock, for as long as the block lasts. Raises `LedgerBusyError` where another process has it."""
        return self.dependencies.lock(self.path, now=self.dependencies.clock.now(), doing=self.doing)

    async def take_lock_or_find(self, held: AsyncExitStack) -> bool:
        """Takes the ledger's lock into `held`. Where another process has it, returns False once the ledger of that one
        can be opened.

        Raises `LedgerBusyError` where that takes too long, or `stop` is set meanwhile.
        """
        until = anyio.current_time() + OPENED_S_MAX
        while True:
            try:
                await held.enter_async_context(self.lock())
            except LedgerBusyError:
                if await is_ready(self.path, connect=self.dependencies.connect_to(self.path)):
                    return False
                if self.stop.is_set() or anyio.current_time() > until:
                    raise
            else:
                return True
            await self._pause()

    async def make_ledger(self) -> None:
        """Makes the ledger, or brings it to this program's schema, where neither is done. Raises `LedgerBusyError`
        where another process works on it with an older program.
        """
        if await is_ready(self.path, connect=self.dependencies.connect_to(self.path)):
            return
        async with AsyncExitStack() as held:
            if await self.take_lock_or_find(held):
                given = self.dependencies
                connect, here = given.connect_to(self.path), given.here
                async with open_ledger(self.path, clock=given.clock, connect=connect, boot=given.boot, here=here):
                    pass

    async def take_place(self, held: AsyncExitStack, ledger: Ledger, is_left: Callable[[], bool]) -> bool:
        """Takes the lock into `held` as soon as nobody has it any more. Returns False once `is_left` holds before.

        `ledger` is open beside the process that works. Raises `StorageError` where it is lost, and `UsageError` where
        whoever has the lock can never let go.
        """
        while not is_left():
            if await ledger.holder() is None:
                check_place(ledger)  # that may be why whoever worked has ended
                try:
                    await held.enter_async_context(self.lock())
                except (LedgerBusyError, LedgerUnavailableError):  # somebody was faster, or the ledger is away again
                    pass
                else:
                    return True
            refuse_abandoned(self.path)
            await self._pause()
        return False

    async def _pause(self) -> None:
        with anyio.move_on_after(LOOK_S):
            await self.stop.wait()

    def wait_for(self, ledger: Ledger) -> None:
        """From now on `ledger`, which may be open beside another process, is waited for where it cannot be used."""
        usual_s = PATIENCE_S if self.is_shared else 0.0
        ledger.patience.seconds = usual_s if self.patience_s is None else self.patience_s
        if self.run is None:
            start_and_stop_texts.say_when_away(self.console, ledger)

    async def hurry_when_asked(self, ledger: Ledger) -> None:
        """Once `stop` is set it is waited for no longer than for requests in flight."""
        await self.stop.wait()
        ledger.patience.hurry()

    # --- the engine

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Engine]:
        """An engine on the ledger, whose lock is held, which `stop` ends, also while files are written after its work.

        Raises `UsageError` where its address cannot be had, and `StorageError` where the ledger was lost meanwhile:
        what could be saved of it is named.
        """
        async with anyio.create_task_group() as around:
            async with (
                open_engine(self.path, self.connection, self.dependencies, self.console) as engine,
                rescuing(engine.ledger),
            ):
                self.attend(engine.ledger, around)
                self.engine = engine
                if self.is_stopped_by_others:
                    engine.commands.stops_when_asked(self.stop)
                    around.start_soon(self.stop_when_asked, engine.process)
                yield engine
            around.cancel_scope.cancel()

    def attend(self, ledger: Ledger, around: TaskGroup) -> None:
        """Says what is not as usual with `ledger`, which was opened to work on it, and tells people once it is away."""
        start_and_stop_texts.say_opened(self.console, ledger)
        self.wait_for(ledger)
        alarm = LedgerAlarm(
            ledger=ledger, connection=self.connection, dependencies=self.dependencies, warn=self.console.warn
        )
        around.start_soon(alarm.serve)

    @asynccontextmanager
    async def working(self, engine: Engine) -> AsyncIterator[None]:
        """Listens, and lets the engine work inside of the block, which `stop` cuts short; see `Engine.working`."""
        await engine.runs.learn_settings()
        await engine.process.listen()
        async with engine.working():
            yield

    async def stop_when_asked(self, process: EngineProcess) -> None:
        """Once `stop` is set all engines of `process` stop."""
        await self.stop.wait()
        if self.run is None:
            self.console.info(start_and_stop_texts.STOPPING)
        process.stop()

    async def begin(self, engine: Engine, firing: Firing) -> tuple[Recovered, Scheduler]:
        """Begins to collect, to do what others ask for, and to carry out flows as `firing` says. Inside `working`.

        Returns what an earlier process left, which is to be told, and what carries out the flows.
        """
        recovered = await engine.collect()
        await engine.keep_up()
        files = LocalFiles(
            ledger=engine.ledger,
            connection=self.connection,
            dependencies=self.dependencies.with_clock(engine.ledger.clock),
            console=self.console,
            webhook_bytes=lambda: engine.process.listener.url_bytes,
            scrub=engine.endpoints.secrets.scrub,
        )
        return recovered, await engine.carry_out_flows(files, firing)

    def ready(self, engine: Engine) -> None:
        """Whoever waits for it is told that the work has begun, and from now on why runs stand still."""
        engine.groups.taking.start_soon(tell_standstills, engine)
        self.console.ready()


Alongside = Callable[[Host, Engine], Coroutine[Any, Any, None]]
"""What works with an engine for as long as it does."""


def host_of(
    request: RunRequest | ServeRequest,
    console: Console,
    dependencies: Dependencies,
    stop: anyio.Event | None,
    *,
    doing: str,
    patience_s: float | None = None,
) -> Host:
    """The host of the ledger that `request` names; without `stop` nothing but the end of its work ends it."""
    return Host(
        path=request.ledger,
        connection=request.connection,
        dependencies=dependencies,
        console=console,
        stop=stop or anyio.Event(),
        doing=doing,
        patience_s=patience_s,
    )
