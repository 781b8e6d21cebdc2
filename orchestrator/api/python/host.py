"""Who works on a ledger for a program: an engine of its own, or, while another process has one, that process.

A program's runs are *attached*: served by the one or followed at the other, and when that one ends this program's
engine takes them over. The engine lives in a shielded scope, so that whoever is cancelled stops it in order: requests
in flight get their while, and what is in the ledger is all that the next one needs.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup, TaskStatus

from orchestrator.api.flows.flow_files import files_of
from orchestrator.api.hosting.follower import LOOK_S, Followed, as_it_is, check_place
from orchestrator.api.hosting.host import OPENED_S_MAX
from orchestrator.api.inspect.standstill import tell_standstills
from orchestrator.api.runs import messages
from orchestrator.api.runs.commands import asked, beside, rebind
from orchestrator.api.runs.ledger_rescue import rescuing
from orchestrator.api.runs.run_identity import check_not_local
from orchestrator.core.text.durations import format_duration
from orchestrator.engine.engine import Engine, open_engine
from orchestrator.engine.flows.scheduler import Firing, Scheduler
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.engine.hosting.served_run import ServedRun
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.view import Silent
from orchestrator.errors import LedgerBusyError, UsageError, keyword_name, with_settings_named
from orchestrator.ledger import Ledger, holder, is_held_here, is_ready, refuse_abandoned
from orchestrator.ledger.runs.commands import ANSWER_S, Action, Argument
from orchestrator.ledger.runs.heartbeats import this_process
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.structs import ConnectionSettings
from orchestrator.units import SECOND_US
from orchestrator.views.status import Acknowledged

log: Final = logging.getLogger("orchestrator")

NEWS_S_MAX: Final = 30.0
"""How long to wait for news of a flow before it is looked at all the same."""

ASK_AGAIN_US: Final = SECOND_US
"""How often another process is told of rows that come one after the other."""


class Logged(Silent):
    """What a program's user is told: by the log, of which warnings are seen where nobody has set it up."""

    def say(self, line: str) -> None:
        """A line of information."""
        log.info("%s", with_settings_named(line, keyword_name))

    def warn(self, line: str) -> None:
        """A warning."""
        log.warning("%s", with_settings_named(line, keyword_name))


class Attached:
    """A run of this program's: how it stands, wherever it is served."""

    def __init__(self, standing: ServedRun) -> None:
        self.standing = standing
        self.readers = 0
        """How many inputs are being read for it."""

        self.told_at = 0
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


class Host:
    """Serves or follows the attached runs of the ledger at `path`, from `serve` to `stop`."""

    def __init__(self, path: Path, connection: ConnectionSettings, dependencies: Dependencies) -> None:
        self.path = path
        self.connection = connection
        self.dependencies = dependencies
        self.view = Logged()
        self.functions: dict[str, Callable[[dict[str, object]], object]] = {}
        """Functions of the program's, by the endpoints that stand for them."""

        self.ledger: Ledger  # once it serves: the engine's, or one that is open beside another process
        self.ended = anyio.Event()
        self._engine: Engine | None = None
        self._scheduler: Scheduler | None = None
        self._firing = Firing.HANDED_OVER
        self._has_told_still = False
        self._asked_of: str | None = None
        """Who was asked last to carry out flows."""

        self._attached: dict[int, Attached] = {}
        self._attaching = anyio.Lock()
        self._followers: dict[int, anyio.CancelScope] = {}
        self._tasks: TaskGroup
        self._beside_tasks: set[anyio.CancelScope] = set()
        self._beside_ended = anyio.Event()
        self._stopped = anyio.Event()

    # --- from its beginning to its end

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Works or follows until `stop`. Raises `OrchestratorError` where that cannot be."""
        try:
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as self._tasks, AsyncExitStack() as opened:
                    await self._serve(opened, task_status)
                    await self._end_beside()
        finally:
            self.ended.set()

    async def _serve(self, opened: AsyncExitStack, task_status: TaskStatus[None]) -> None:
        until, is_open = anyio.current_time() + OPENED_S_MAX, False
        while not self._stopped.is_set():
            if is_open:
                check_place(self.ledger)  # that may be why whoever worked has ended
            with ExitStack() as held:
                try:
                    held.enter_context(self.dependencies.lock(self.path, now=self.dependencies.clock.now()))
                except LedgerBusyError:
                    if not is_open and anyio.current_time() > until:
                        raise
                else:
                    await self._work(task_status, is_first=not is_open)
                    return
            if not is_open and is_ready(self.path):
                self.ledger = await opened.enter_async_context(beside(self.path, self.dependencies))
                is_open = True
                task_status.started()
            await self._wait(for_holder=is_open)

    async def _wait(self, *, for_holder: bool) -> None:
        """A while, and then, if wanted, until nobody works on the ledger any more; no longer than until stopped."""
        while True:
            with anyio.move_on_after(LOOK_S):
                await self._stopped.wait()
            if self._stopped.is_set() or not for_holder or holder(self.path) is None:
                return
            refuse_abandoned(self.path)
            await self._tell_if_still()

    async def _tell_if_still(self) -> None:
        """Once, where another part of this very program holds the ledger and gives no sign of life."""
        if self._has_told_still or not is_held_here(self.path):
            return
        now = self.ledger.now()
        beats = [beat for beat in await self.ledger.heartbeats.all() if beat.process == this_process()]
        if beats and not any(beat.is_fresh(now) for beat in beats):
            self._has_told_still = True
            since = format_duration(now - max(beat.beaten_at for beat in beats))
            self.view.warn(
                f"{self.path}: another Orchestrator of this program works on it, and has given no sign of life for"
                f" {since}: its event loop stands still, and nothing is sent or collected until it goes on"
            )

    async def _work(self, task_status: TaskStatus[None], *, is_first: bool) -> None:
        """Works on the ledger, whose lock is held, until stopped."""
        async with (
            open_engine(self.path, self.connection, self.dependencies, self.view) as engine,
            rescuing(engine.ledger),
        ):
            engine.services.functions.update(self.functions)
            await self._with_engine(engine, task_status, is_first=is_first)

    async def _with_engine(self, engine: Engine, task_status: TaskStatus[None], *, is_first: bool) -> None:
        messages.say_opened(self.view, engine.ledger)
        await engine.runs.learn_settings()
        await engine.listen()
        async with engine.working():
            messages.say_recovered(self.view, await engine.collect())
            await engine.keep_up()
            engine.taking.start_soon(tell_standstills, engine)
            files = files_of(engine, self.connection, self.dependencies, self.view)
            self._scheduler = await engine.carry_out_flows(files, self._firing)
            if self._firing is Firing.ALWAYS:
                await engine.serving.serve_all()
            async with self._attaching:
                self._engine, self.ledger = engine, engine.ledger
                for attached in self._attached.values():
                    await self._take_over(engine, attached)
            if is_first:
                task_status.started()
            await self._stopped.wait()
            await self._end_beside()
            if not engine.runs.has_unfinished:
                await engine.finish()

    def stop(self) -> None:
        """Ends `serve`: inputs that are read beside are left off first, and requests in flight get a while."""
        self._stopped.set()
        if self._scheduler is not None:
            self._scheduler.settled()
        for scope in self._beside_tasks:
            scope.cancel()

    def hurry(self) -> None:
        """Once stopped: nobody waits for requests in flight any more."""
        if self._engine is not None:
            self._engine.in_flight.cancel_scope.cancel()

    # --- what is read beside

    def start(self, work: Callable[[], Awaitable[None]]) -> anyio.CancelScope:
        """Does `work` beside everything else, which ends where that raises. Returns how to leave it off."""
        scope = anyio.CancelScope()
        self._beside_tasks.add(scope)
        self._tasks.start_soon(self._do, work, scope)
        return scope

    async def _do(self, work: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
        with scope:
            await work()
        self._beside_tasks.discard(scope)
        if not self._beside_tasks:
            self._beside_ended.set()
            self._beside_ended = anyio.Event()

    async def _end_beside(self) -> None:
        while self._beside_tasks:
            await self._beside_ended.wait()

    # --- runs

    @property
    def is_open(self) -> bool:
        """Whether there is still a ledger to look into."""
        return not self._stopped.is_set() and not self.ended.is_set()

    def check_open(self) -> None:
        """Raises `UsageError` where there is none."""
        if not self.is_open:
            raise UsageError("this Orchestrator is closed; what it gives is used inside of its `async with`")

    async def rebind(self, run: Run, service_url: str, endpoint: str) -> None:
        """Gives `run` another endpoint. Raises `UsageError` where the former may have taken a job of it, and
        `LedgerBusyError` where whoever works does not answer.
        """
        await rebind(self.ledger, run, service_url, endpoint, wake=self._wake)

    async def webhook_bytes(self) -> int:
        """How many bytes a webhook URL adds to a request of whoever works, at most."""
        if self._engine is not None:
            return self._engine.listener.url_bytes
        beats = await self.ledger.heartbeats.all()
        return max((beat.said.webhook_bytes for beat in beats if beat.is_fresh(self.ledger.now())), default=0)

    def know(self, endpoint: str, function: Callable[[dict[str, object]], object]) -> None:
        """`endpoint` stands for `function`."""
        self.functions[endpoint] = function
        if self._engine is not None:
            self._engine.services.functions[endpoint] = function

    async def attach(self, run: Run) -> Attached:
        """Has `run` served from now on, by its settings in the ledger. Raises `UsageError` where nobody can."""
        async with self._attaching:
            found = self._attached.get(run.id)
            if self._engine is not None:
                found = found or Attached(await self._session(self._engine, run))
                await self._take_over(self._engine, found)
            else:
                check_not_local(run, self.path)
                if found is None:
                    followed = Followed(self.ledger, run, self.dependencies.clock, self.view)
                    found = Attached(followed)
                    self._followers[run.id] = self.start(followed.serve)
                assert isinstance(found.standing, Followed)
                acknowledged = await found.standing.ask()
                await found.standing.look()
                messages.say_joined(self.view, run.name, acknowledged)
            self._attached[run.id] = found
            return found

    async def _take_over(self, engine: Engine, attached: Attached) -> None:
        """The engine serves the run."""
        if (follower := self._followers.pop(attached.run.id, None)) is not None:
            follower.cancel()
        session = await self._session(engine, attached.run)
        if attached.standing is not session:
            attached.move(session)
        await session.count_anew()
        await session.send()

    async def _session(self, engine: Engine, run: Run) -> RunSession:
        run = await as_it_is(engine.ledger, run)
        runs = engine.runs
        runs.settings_of[run.id] = run.settings
        runs.held.pop(run.id, None)
        return runs.sessions.get(run.id) or await engine.take_on(run)

    async def look(self, attached: Attached, *, at_once: bool = False) -> None:
        """Rows have come for the run: whoever serves it is told, though another process now and then or `at_once`."""
        if self._engine is not None:
            await self._engine.runs.sessions[attached.run.id].count_anew()
        elif at_once or self.ledger.now() - attached.told_at > ASK_AGAIN_US:
            attached.told_at = self.ledger.now()
            await self.ledger.commands.ask(Action.SERVE, run=attached.run.id)
            assert isinstance(attached.standing, Followed)
            await attached.standing.look()

    def _wake(self) -> None:
        """An engine of this program's notices only by itself what others ask."""
        if self._engine is not None:
            self._engine.commands.on_change()

    async def ask(
        self, attached: Attached, action: Action, argument: Argument | None = None, *, within_s: float = ANSWER_S
    ) -> Acknowledged:
        """Asks something of whoever serves the run, as `asked`. Raises `UsageError` where that is refused."""
        self.check_open()
        acknowledged = await asked(
            self.ledger, action, run=attached.run.id, argument=argument, wake=self._wake, within_s=within_s
        )
        if isinstance(attached.standing, Followed):
            await attached.standing.look()
        return acknowledged

    # --- flows

    async def carry_out_flows(self) -> None:
        """Flows are carried out from now on: here, or by whoever works on the ledger."""
        if self._firing is Firing.HANDED_OVER:
            self._firing = Firing.ASKED
        if self._scheduler is not None:
            self._scheduler.take_up(Firing.ASKED)
        else:
            self._asked_of = (await asked(self.ledger, Action.TICK)).by

    async def fire(self) -> None:
        """Fires, and serves every run of the ledger, until cancelled: as soon as nobody else works on it."""
        self.check_open()
        if self._firing is Firing.ALWAYS:
            raise UsageError("this Orchestrator serves already")
        self._firing = Firing.ALWAYS
        try:
            if self._engine is not None and self._scheduler is not None:
                await self._engine.serving.serve_all()
                self._scheduler.take_up(Firing.ALWAYS)
            else:
                self.view.say(f"{holder(self.path)} works on this ledger; this program serves it once that has ended")
            await self._stopped.wait()
        finally:
            self._firing = Firing.ASKED
            if self._scheduler is not None:
                self._scheduler.fire_no_more()

    def why_stuck(self, flow: str) -> str | None:
        """Why nothing comes of a flow before somebody does something, as far as this program carries it out."""
        stuck = [] if self._scheduler is None else self._scheduler.stuck
        return next((work.why_stuck for work in stuck if work.flow.name == flow), None)

    async def seen(self, run: int | None = None) -> tuple[int, ...]:
        """What `news_of_flows` compares with: to be taken before it is looked how flows stand, or jobs of `run`."""
        if self._engine is None or self._scheduler is None:
            return (await self.ledger.commits_of_others(),)
        session = None if run is None else self._engine.runs.sessions.get(run)
        return self._scheduler.changes, 0 if session is None else session.progress.changes

    async def news_of_flows(self, seen: tuple[int, ...], run: int | None = None) -> None:
        """Waits until flows may stand otherwise, or jobs of `run`, than when that was `seen`; no longer than
        `NEWS_S_MAX`.
        """
        with anyio.move_on_after(NEWS_S_MAX):
            while self.is_open and await self.seen(run) == seen:
                if self._engine is None or self._scheduler is None:
                    await self._look_at_holder()
                    continue
                session = None if run is None else self._engine.runs.sessions.get(run)
                changes: list[Callable[[], Awaitable[None]]] = [partial(self._scheduler.change, seen[0])]
                changes += [session.progress.change] if session else []
                async with anyio.create_task_group() as group:
                    for change in changes:
                        group.start_soon(_first_of, change, group.cancel_scope)
        self.check_open()

    async def _look_at_holder(self) -> None:
        """After a while; who has come into the place of who was asked is asked, too."""
        if holder(self.path) not in (None, self._asked_of):
            await self.carry_out_flows()
        with anyio.move_on_after(LOOK_S):
            await self._stopped.wait()

    def flows_changed(self) -> None:
        """An engine of this program's notices only by itself what it has written."""
        if self._engine is not None and self._scheduler is not None:
            self._engine.control.on_change()
            self._scheduler.on_change()


async def _first_of(change: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
    await change()
    scope.cancel()
