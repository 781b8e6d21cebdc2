"""Who works on a ledger for a program: an engine of its own, or, while another process has one, that process.

A program's runs are *attached*: served by the one or followed at the other, and when that one ends this program's
engine takes them over. The engine lives in a shielded scope, so that whoever is cancelled stops it in order: requests
in flight get their while, and what is in the ledger is all that the next one needs.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.api.hosting.follower import FollowedRun, followed_run, warn_if_still
from orchestrator.api.hosting.host import Host
from orchestrator.api.python.background import Background
from orchestrator.api.python.log_console import LogConsole
from orchestrator.api.python.program_flows import ProgramFlows
from orchestrator.api.runs import start_and_stop_texts
from orchestrator.api.runs.process_commands import Acknowledged, ask_process, beside, rebind
from orchestrator.api.runs.run_identity import check_not_local
from orchestrator.engine.engine import Engine
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.engine.observers.served_run import ServedRun, as_it_is
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import LedgerBusyError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_repository import ANSWER_S
from orchestrator.ledger.commands.command_types import Action, Argument
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.units import SECOND_US

ASK_AGAIN_US: Final = SECOND_US
"""How often another process is told of rows that come one after the other."""


class AttachedRun:
    """A run that the program's own engine serves, or that is followed at another process, and may go between them."""

    def __init__(self, standing: ServedRun) -> None:
        self.standing = standing
        self.readers = 0
        """How many inputs are being read for it."""

        self.announced_at = 0
        """When another process was told last that rows have come (microseconds UTC)."""

        self.error: BaseException | None = None
        """What has ended an input that is read beside."""

    @property
    def run(self) -> Run:
        """What it is by now."""
        return self.standing.run

    def move(self, standing: ServedRun) -> None:
        """It is served elsewhere from now on."""
        before, self.standing = self.standing, standing
        before.progress.nudge()

    def nudge(self) -> None:
        """Makes whoever waits look again."""
        self.standing.progress.nudge()

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.error is not None or (self.readers == 0 and self.standing.is_over)

    @property
    def version(self) -> tuple[int, int]:
        """Another value once there is any news of it."""
        return id(self.standing), self.standing.progress.changes

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until `condition` holds, which only news of the run can make true."""
        while not condition():
            await self.standing.progress.change()


class LedgerSession:
    """What a program has of the ledger at `path`, from `serve` to `stop`: it serves or follows the attached runs."""

    def __init__(self, path: LedgerAddress, connection: ConnectionSettings, dependencies: Dependencies) -> None:
        self.path = path
        self.connection = connection
        self.dependencies = dependencies
        self.console = LogConsole()
        self.host = Host(
            path=path,
            connection=connection,
            dependencies=dependencies,
            console=self.console,
            stop=anyio.Event(),
            is_stopped_by_others=False,
        )
        self.functions: dict[str, Callable[[dict[str, object]], object]] = {}
        """Functions of the program's, by the endpoints that stand for them."""

        self.ledger: Ledger  # once it serves: the engine's, or one that is open beside another process
        self.ended = anyio.Event()
        self.background = Background()
        self.flows = ProgramFlows(self.host)
        self._engine: Engine | None = None
        self._attached: dict[int, AttachedRun] = {}
        self._attaching = anyio.Lock()
        self._followers: dict[int, anyio.CancelScope] = {}

    # --- from its beginning to its end

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Works or follows until `stop`. Raises `OrchestratorError` where that cannot be."""
        try:
            with anyio.CancelScope(shield=True):
                async with self.background.working(), AsyncExitStack() as opened:
                    await self._serve(opened, task_status)
        finally:
            self.host.stop.set()
            self.ended.set()

    async def _serve(self, opened: AsyncExitStack, task_status: TaskStatus[None]) -> None:
        async with AsyncExitStack() as held:
            try:
                is_first = await self.host.take_lock_or_find(held)
            except LedgerBusyError:
                if self.is_open:
                    raise
                return
            if not is_first:
                self.ledger = await opened.enter_async_context(beside(self.path, self.dependencies))
                task_status.started()
                async with anyio.create_task_group() as waiting:
                    waiting.start_soon(warn_if_still, self.ledger, self.console)
                    takes_place = await self.host.take_place(held, self.ledger, self.host.stop.is_set)
                    waiting.cancel_scope.cancel()
                if not takes_place:
                    return
            await self._work(task_status, is_first=is_first)

    async def _work(self, task_status: TaskStatus[None], *, is_first: bool) -> None:
        """Works on the ledger, whose lock is held, until stopped."""
        async with self.host.opened() as engine:
            engine.endpoints.services.functions.update(self.functions)
            async with self.host.working(engine):
                recovered, scheduler = await self.host.begin(engine, self.flows.firing)
                start_and_stop_texts.say_recovered(self.console, recovered)
                self.host.ready(engine)
                await self.flows.taken_up(engine, scheduler)
                async with self._attaching:
                    self._engine, self.ledger = engine, engine.ledger
                    for attached in self._attached.values():
                        await self._take_over(engine, attached)
                if is_first:
                    task_status.started()
                await self.host.stop.wait()
                await self.background.ended()
                if not engine.runs.has_unfinished:
                    await engine.finish()

    def stop(self) -> None:
        """Ends `serve`: what is done beside is left off first, and requests in flight get a while."""
        self.host.stop.set()
        self.flows.settled()
        self.background.stop()

    def hurry(self) -> None:
        """Once stopped: nobody waits for requests in flight any more."""
        if self._engine is not None:
            self._engine.groups.in_flight.cancel_scope.cancel()

    @property
    def is_open(self) -> bool:
        """Whether there is still a ledger to look into."""
        return not self.host.stop.is_set()

    def check_open(self) -> None:
        """Raises `UsageError` where there is none."""
        if not self.is_open:
            raise UsageError("this Orchestrator is closed; what it gives is used inside of its `async with`")

    # --- runs

    async def rebind(self, run: Run, service_url: str, endpoint: str) -> None:
        """Gives `run` another endpoint. Raises `UsageError` where the former may have taken a job of it, and
        `LedgerBusyError` where whoever works does not answer.
        """
        await rebind(self.ledger, run, service_url, endpoint, wake=self._wake)

    async def webhook_bytes(self) -> int:
        """How many bytes a webhook URL adds to a request of whoever works, at most."""
        if self._engine is not None:
            return self._engine.process.listener.url_bytes
        beats = await self.ledger.runs.heartbeats.all()
        return max((beat.report.webhook_bytes for beat in beats if beat.is_fresh(self.ledger.now())), default=0)

    def know(self, endpoint: str, function: Callable[[dict[str, object]], object]) -> None:
        """`endpoint` stands for `function`."""
        self.functions[endpoint] = function
        if self._engine is not None:
            self._engine.endpoints.services.functions[endpoint] = function

    async def attach(self, run: Run) -> AttachedRun:
        """Has `run` served from now on, by its settings in the ledger. Raises `UsageError` where nobody can."""
        async with self._attaching:
            found = self._attached.get(run.id)
            if self._engine is not None:
                found = found or AttachedRun(await self._session(self._engine, run))
                await self._take_over(self._engine, found)
            else:
                await check_not_local(run, self.ledger)
                if found is None:
                    followed = await followed_run(self.ledger, run, self.console)
                    found = AttachedRun(followed)
                    self._followers[run.id] = self.background.start(followed.serve)
                assert isinstance(found.standing, FollowedRun)
                acknowledged = await found.standing.ask()
                await found.standing.look()
                start_and_stop_texts.say_joined(self.console, run.name, acknowledged)
            self._attached[run.id] = found
            return found

    async def _take_over(self, engine: Engine, attached: AttachedRun) -> None:
        """The engine serves the run."""
        if (follower := self._followers.pop(attached.run.id, None)) is not None:
            follower.cancel()
        session = await self._session(engine, attached.run)
        if attached.standing is not session:
            attached.move(session)
        await session.recount()
        if session.progress.to_be_saved:
            engine.host.save_aside(session, RunSession.send)
        else:
            await session.send()

    async def _session(self, engine: Engine, run: Run) -> RunSession:
        run = await as_it_is(engine.ledger, run)
        runs = engine.runs
        runs.settings_of[run.id] = run.settings
        runs.unservable.pop(run.id, None)
        return runs.sessions.get(run.id) or await engine.host.take_on(run)

    async def look(self, attached: AttachedRun, *, at_once: bool = False) -> None:
        """Rows have come for the run: whoever serves it is told, though another process now and then or `at_once`."""
        if self._engine is not None:
            await self._engine.runs.sessions[attached.run.id].recount()
        elif at_once or self.ledger.now() - attached.announced_at > ASK_AGAIN_US:
            attached.announced_at = self.ledger.now()
            await self.ledger.commands.ask(Action.SERVE, run=attached.run.id)
            assert isinstance(attached.standing, FollowedRun)
            await attached.standing.look()

    def _wake(self) -> None:
        """An engine of this program's notices only by itself what others ask."""
        if self._engine is not None:
            self._engine.commands.on_change()

    async def ask(
        self, attached: AttachedRun, action: Action, argument: Argument | None = None, *, within_s: float = ANSWER_S
    ) -> Acknowledged:
        """Asks something of whoever serves the run, as `ask_process`. Raises `UsageError` where that is refused."""
        self.check_open()
        acknowledged = await ask_process(
            self.ledger,
            action,
            run=attached.run.id,
            argument=argument,
            asked=self.dependencies.asked,
            wake=self._wake,
            within_s=within_s,
        )
        if isinstance(attached.standing, FollowedRun):
            await attached.standing.look()
        return acknowledged
