"""The engine: builds what works on a ledger, starts it, and stops it in order. It knows no files, signals or screens.

Stopping is nesting. The innermost group takes new work; the one around it holds requests in flight and gets a deadline;
the outermost writes and listens, and ends last.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from orchestrator.core.jobs.run_counters import PAID_TWICE
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.engine.collecting.webhook_inbox import WebhookInbox
from orchestrator.engine.commands.inbox import CommandInbox
from orchestrator.engine.commands.resend import resent
from orchestrator.engine.commands.revalidate import Revalidator
from orchestrator.engine.endpoint.limits import LimitKeeper
from orchestrator.engine.flows.flow_executor import FlowFiles
from orchestrator.engine.flows.notifier import Notifier
from orchestrator.engine.flows.row_handover import RowHandover
from orchestrator.engine.flows.run_notifier import RunNotifier
from orchestrator.engine.flows.scheduler import LOOKS, Firing, Scheduler
from orchestrator.engine.hosting.endpoint_registry import EndpointRegistry
from orchestrator.engine.hosting.run_control import RunController
from orchestrator.engine.hosting.run_host import RunHost
from orchestrator.engine.hosting.run_registry import RunRegistry
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.engine.hosting.stuck_jobs import StuckJobs
from orchestrator.engine.hosting.webhook_listener import WebhookListener
from orchestrator.engine.hosting.worker_scaling import LOOK_EVERY_S, WorkerScaling
from orchestrator.engine.maintenance.canceller import Canceller
from orchestrator.engine.maintenance.flow_retention import FlowRetention
from orchestrator.engine.maintenance.janitor import Duty, Janitor, Recovered
from orchestrator.engine.maintenance.pruning import Pruner
from orchestrator.engine.maintenance.reconciler import Reconciler
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.service_registry import ServiceRegistry
from orchestrator.engine.runtime.heartbeat import LOOK_S, HeartbeatWriter
from orchestrator.engine.runtime.ledger_watch import LedgerWatch
from orchestrator.engine.runtime.retry_budget import RetryBudgets
from orchestrator.engine.runtime.secret_scrubber import SecretScrubber
from orchestrator.engine.runtime.task_pool import Request, TaskPool
from orchestrator.engine.runtime.view import View
from orchestrator.engine.sending.brakes import ServedBrakes
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.ledger.commands.command import OF_ANOTHER, Action, Command, Reply
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.values import IN_FLIGHT_S_MAX
from orchestrator.user_code import absolute

RECONCILE_EVERY_S: Final = 30.0
"""Between two comparisons of the ledger with what is done, looks for stuck jobs, and trials of unservable runs."""

PRUNE_EVERY_S: Final = 3_600.0
"""How often old events are looked for."""

FINISHED_S_MAX: Final = 1.0
"""How long they may go on when every job of the runs that are served has its outcome."""

CANCELS_S_MAX: Final = 30.0
"""How long an engine whose runs are over may take to cancel what is one too many; the rest is owed until the next."""

OF_A_PROGRAM: Final = "a program of somebody's works on this ledger, and ends where it was begun"


class Engine:
    """What works on one ledger. Made by `open_engine`; works inside `working`, on the runs that it has taken on.

    It sends their jobs, and collects for all runs whose services it can reach: results do not wait for a run's turn.
    """

    def __init__(
        self,
        ledger: Ledger,
        connection: ConnectionSettings,
        dependencies: Dependencies,
        view: View,
        outer: TaskGroup,
    ) -> None:
        clock = dependencies.clock
        self.ledger = ledger
        self.clock = clock
        self._connection = connection
        self._dependencies = dependencies
        self._view = view
        self._outer = outer
        self.in_flight: TaskGroup
        """Where requests in flight live; once it works, as the next two."""

        self.task_pool: TaskPool
        self.taking: TaskGroup
        """Where whatever takes new work lives."""

        self._is_working = self._is_collecting = False
        self._tells_of_runs: RunNotifier | None = None
        settings_of: dict[int, RunSettings] = {}
        self.services = ServiceRegistry(connection, dependencies, view, outer)
        self._secrets = SecretScrubber(
            lambda: ledger.jobs.claims.secret_names,
            dependencies.environ,
            api_keys=self.services.api_keys,
            warn=view.warn,
        )
        self.limits = LimitKeeper(ledger=ledger, say=view.say, word=dependencies.word)
        self.validators = ValidationPool(settings_of, view.warn, make_code=dependencies.user_code)
        retries = RetryBudgets(settings_of)
        ledger.writer.subscribe(retries.on_steps)
        self.endpoints = EndpointRegistry(
            ledger=ledger,
            clock=clock,
            settings_of=settings_of,
            limits=self.limits,
            validators=self.validators,
            retries=retries,
            warn=view.warn,
            word=dependencies.word,
            scrub=self._secrets.scrub,
        )
        self.canceller = Canceller(ledger, self.endpoints)
        self.inbox = self._made_inbox()
        self.listener = WebhookListener(
            ledger.path, connection, dependencies, sink=self.inbox, scrub=self._secrets.scrub
        )
        self.runs = RunRegistry(
            ledger=ledger,
            clock=clock,
            environ=dependencies.environ,
            services=self.services,
            endpoints=self.endpoints,
            settings_of=settings_of,
            retries=retries,
            listener=self.listener,
            brakes=ServedBrakes(ledger, clock, settings_of, view=view, word=dependencies.word),
        )
        ledger.runs.intakes.pace.is_beside = lambda: len(self.runs.sessions) > 1
        self.heart = HeartbeatWriter(
            ledger=ledger, clock=clock, said=self.recent_report, look_every_s=dependencies.say_every_s
        )
        self._hears_people()
        self.janitor = self._looks_after()

    def _made_inbox(self) -> WebhookInbox:
        """Builds whoever deals with what webhooks tell."""
        return WebhookInbox(
            ledger=self.ledger,
            clock=self.clock,
            endpoint_of=self.endpoints.get,
            hint=self.endpoints.hint,
            validators=self.validators,
            launch=self._judge,
            paid_twice=self._paid_twice,
            owed=self.canceller.wake,
        )

    def _raises_workers(self) -> WorkerScaling:
        """Whoever gives runs the workers that they want."""
        return WorkerScaling(
            ledger=self.ledger,
            runs=self.runs,
            services=self.services,
            account=self._dependencies.account,
            rest_url=self._connection.rest_url,
            say=self._view.say,
            warn=self._view.warn,
            word=self._dependencies.word,
        )

    def _looks_after(self) -> Janitor:
        """Whoever keeps things in order, with what has to be done for that now and then."""
        ledger, clock = self.ledger, self.clock
        self.stuck = StuckJobs(ledger=ledger, endpoints=self.endpoints, warn=self._view.warn, owed=self.canceller.wake)
        self.reconciler = Reconciler(ledger=ledger, endpoints=self.endpoints)
        self.pruner = Pruner(ledger=ledger, clock=clock, settings_of=self.runs.settings_of)
        duties = (
            Duty("keep what was learned", LOOK_S, self.endpoints.write_down),
            Duty("keep how the brakes stand", LOOK_S, self.runs.brakes.write_down),
            Duty("reconcile", RECONCILE_EVERY_S, self.reconciler.run_once),
            Duty("look for stuck jobs", RECONCILE_EVERY_S, self.stuck.run_once),
            Duty("put workers back", LOOK_EVERY_S, self.workers.look),
            Duty("serve what was held", RECONCILE_EVERY_S, self.serving.retry_unservable),
            Duty("prune", PRUNE_EVERY_S, self.pruner.run_once),
        )
        return Janitor(ledger, self.endpoints, self.runs.settings_of, duties)

    def _judge(self, request: Request) -> None:
        self.task_pool.launch(request)

    def _paid_twice(self, run: int, n: int) -> None:
        if (session := self.runs.sessions.get(run)) is not None:
            session.progress.tally(run, PAID_TWICE, n)

    # --- what people ask for

    def _hears_people(self) -> None:
        """Whoever carries out what people ask for in other processes, and notices that they do."""
        ledger = self.ledger
        self.workers = self._raises_workers()
        self.watch = LedgerWatch(
            ledger.commits_of_others, missing=ledger.place.missing, every_s=self._dependencies.watch_every_s
        )
        self.watch.subscribe(self._on_change)
        self.control = RunController(
            ledger=ledger,
            brakes=self.runs.brakes,
            is_served=self.runs.is_collected_for,
            say=self._say_of_run,
            changed=self.runs.on_change,
            owed=self.canceller.wake,
        )
        self.serving = RunHost(
            ledger=ledger,
            runs=self.runs,
            services=self.services,
            workers=self.workers,
            take_on=self.take_on,
            reach=self.reach,
            say=self._view.say,
            beat=self.heart.beat,
        )
        self.commands = CommandInbox(ledger=ledger, obeyed=self._obeyed)
        self.commands.register(Action.RETRY, self.serving.retry_asked)
        self.commands.register(Action.RESEND, partial(resent, ledger))
        rechecker = Revalidator(ledger=ledger, validators=self.validators, settings_of=self.runs.settings_of)
        self.commands.register(Action.RECHECK, rechecker.recheck_asked)
        self.commands.register(Action.CANCEL_JOBS, self.canceller.carry_out)
        self.commands.register(Action.SERVE, self.serving.serve_asked)
        self.commands.register(Action.RELEASE, self.serving.release_asked)
        self.commands.register(Action.REBIND, self.serving.rebind_asked)
        self._is_tick_asked = False
        self.commands.register(Action.TICK, self._tick_asked)
        self.commands.register(Action.STOP, self._stop_refused)
        self.watch.subscribe(self.commands.on_change)

    def stops_when_asked(self, stop: anyio.Event) -> None:
        """`stop` is set once somebody asks in another process for the end of this one. Else that is refused."""
        self.commands.register(Action.STOP, partial(self._stop_asked, stop))

    async def _stop_asked(self, stop: anyio.Event, command: Command) -> Reply:
        if command.id <= self.serving.asked_before:
            return OF_ANOTHER
        reply = Reply("it stops")
        await self.ledger.commands.finish(command.id, reply)  # first: what follows ends whoever writes that down
        self._view.say(f"{command.asked_by} asks this process to stop")
        stop.set()
        return reply

    async def _stop_refused(self, command: Command) -> Reply:
        return OF_ANOTHER if command.id <= self.serving.asked_before else Reply(OF_A_PROGRAM, is_refused=True)

    async def _tick_asked(self, _command: Command) -> Reply:
        """Flows may be asked for before this process carries out any: it begins with them then."""
        self._is_tick_asked = True
        return LOOKS

    def _on_change(self) -> None:
        """The ledger may say something else of what people want."""
        self.limits.on_change()
        self.control.on_change()

    async def _obeyed(self, command: Command) -> None:
        """A command has changed something in the ledger."""
        if command.run is not None and command.run not in self.runs.settings_of:  # another process has made it
            await self.runs.learn_all(self.task_pool)
            await self._begin_endpoints()
        match command.action:
            case Action.PRIORITY | Action.BRAKES:
                await self.runs.learn_changed()
            case Action.RENAME | Action.DELETE if command.run is not None:
                await self.serving.look_again(command.run)
            case _:
                pass
        await self.control.follow()  # what is asked for next may begin to send
        self._on_change()

    def _say_of_run(self, run: int, name: str, what: str) -> None:
        """Tells the person what is asked of a run, unless another process will."""
        if self.runs.is_collected_for(run):
            self._view.warn(f"{name} {what}")

    # --- working

    def use_key_for(self, run: Run) -> None:
        """The API key is the one for the service of `run`, which this process was begun for."""
        self.services.use_key_for(run.service_url)

    async def listen(self) -> None:
        """Begins to take webhooks, where that is wanted: until the very end, so that as few as possible are missed."""
        await self.listener.serve(self._outer)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Works inside the block, which `stop` and a ledger that is taken away cut short.

        On leaving no more work is taken, and requests in flight get a while to end. Raises `StorageError` where what is
        known by then could not be written.
        """
        try:
            async with anyio.create_task_group() as self.in_flight:
                self.task_pool = TaskPool(self.in_flight)
                try:
                    async with anyio.create_task_group() as self.taking:
                        self._is_working = True
                        if self.heart.is_asked_to_stop:
                            self.taking.cancel_scope.cancel()
                        yield
                        self._say_in_flight()
                        self.taking.cancel_scope.cancel()
                finally:
                    self.task_pool.close()  # also where an error ends it: what could not be written may be told later
                self.in_flight.cancel_scope.deadline = anyio.current_time() + self._grace_s()
        finally:
            await self.workers.end()
        await self.endpoints.write_down()
        await self.runs.brakes.write_down(is_last=True)
        await self.ledger.writer.flush()
        self.task_pool.check()
        if (missing := self.ledger.place.missing()) is not None:
            raise StorageError(f"{missing} is not in its place any more")

    def _say_in_flight(self) -> None:
        """Why it takes a while, where the run has finished that this process was begun for."""
        if self._grace_s() > FINISHED_S_MAX and (flying := self.task_pool.flying):
            self._view.say(f"in flight for other runs: {flying:,}; they have up to {IN_FLIGHT_S_MAX:.0f} s to end")

    def stop(self) -> None:
        """Ends `working`, also if that is still to begin."""
        self.heart.is_asked_to_stop = True
        if self._is_working:
            self.taking.cancel_scope.cancel()

    async def _stop_when_lost(self) -> None:
        await self.watch.lost.wait()
        self.stop()

    def _grace_s(self) -> float:
        """How long to wait for requests in flight: once every job has its outcome, no answer matters any more."""
        return IN_FLIGHT_S_MAX if self.runs.has_unfinished else FINISHED_S_MAX

    async def take_on(self, run: Run) -> RunSession:
        """Serves `run` from now on; nothing of it is sent before its session's `send`. Inside `working`.

        Raises `UsageError` where its endpoint cannot be used, or its validator.
        """
        self.validators.load(self.runs.settings_of.get(run.id, run.settings))
        with anyio.CancelScope(shield=True):  # whoever stops it as it begins is told how it stands
            await self.reach(run)
            session = await self.runs.open_session(run, control=self.control, taking=self.taking, said=self.report)
        for there in await self.ledger.runs.elsewhere(run.id):
            await self.reach(there)
            await self.runs.extend(session, there)
        await self.serving.reach_escalation(run)
        return session

    async def reach(self, run: Run) -> None:
        """Works at the endpoint where `run` is from now on. Raises `UsageError` where it cannot be used."""
        await self.runs.add_endpoint(run, self.task_pool)
        if self._is_collecting and self.runs.fresh:
            await self._begin_endpoints()

    async def collect(self) -> Recovered:
        """Begins to collect for what was taken on, and for every other run whose service can be reached: with the first
        page of what an earlier process left, since results may be about to expire. Returns what it left.

        Inside `working`, once.
        """
        await self.runs.learn_all(self.task_pool)
        await self.taking.start(self.limits.serve)
        self._is_collecting = True
        recovered = await self._begin_endpoints()
        await self.taking.start(self.inbox.serve)
        await self.inbox.catch_up()
        self.taking.start_soon(self._stop_when_lost)
        await self.taking.start(self.watch.serve)
        await self.taking.start(self.heart.serve)
        return recovered

    async def _begin_endpoints(self) -> Recovered:
        """Begins to collect at the endpoints that were added last; returns what an earlier process left there."""
        fresh, self.runs.fresh = self.runs.fresh, []
        await self.limits.read()
        if await self.ledger.jobs.submissions.latest():
            for number in fresh:
                await self.endpoints.remember(number)
        for number in fresh:
            served = self.endpoints.served(number)
            self.taking.start_soon(served.limits.follow_workers)
            await self.taking.start(served.collector.serve)
            await self.taking.start(served.endpoint.probe.serve)
        recovered = await self.janitor.recover(self.endpoints.adopt, endpoints=fresh)
        await self.inbox.recover()
        return recovered

    async def keep_up(self) -> None:
        """Begins to settle, to cancel, to look after things and to do what is asked of runs. Inside `working`."""
        await self.taking.start(self.janitor.serve)
        await self.taking.start(self.canceller.serve)
        await self.taking.start(self.control.serve)
        await self.taking.start(self.commands.serve)

    async def carry_out_flows(self, files: FlowFiles, firing: Firing) -> Scheduler:
        """Begins to carry out flows, with `files`. Inside `working`, after `keep_up`."""
        notifier = Notifier(
            ledger=self.ledger,
            clock=self.clock,
            files=files,
            scrub=self._secrets.scrub,
            warn=self._view.warn,
            is_at_work=firing is not Firing.HANDED_OVER,
        )
        self._tells_of_runs = RunNotifier(
            ledger=self.ledger,
            clock=self.clock,
            sessions=self.runs.sessions,
            settings_of=self.runs.settings_of,
            tell=files.tell_of_run,
            scrub=self._secrets.scrub,
            warn=self._view.warn,
        )
        self.ledger.writer.subscribe(self._tells_of_runs.on_steps)
        relay = RowHandover(ledger=self.ledger, files=files, session_of=self.runs.sessions.get, warn=self._view.warn)
        scheduler = Scheduler(
            ledger=self.ledger,
            clock=self.clock,
            files=files,
            serving=self.serving,
            relay=relay,
            notifier=notifier,
            asked=self.control.on_change,
            say=self._view.say,
            warn=self._view.warn,
            word=self._dependencies.word,
            firing=firing,
        )
        self.commands.register(Action.TICK, scheduler.tick_asked)
        if self._is_tick_asked:
            scheduler.tick()
        self.watch.subscribe(scheduler.on_change)
        await self.taking.start(relay.serve)
        await self.taking.start(notifier.serve)
        await self.taking.start(self._tells_of_runs.serve)
        hold = self._dependencies.holding_intakes(self.ledger.path)
        await self.taking.start(FlowRetention(ledger=self.ledger, serving=self.serving, hold=hold).serve)
        await self.taking.start(scheduler.serve)
        return scheduler

    async def finish(self) -> None:
        """Takes up what was noted last and cancels what is one too many, for a while. Inside `working`."""
        with anyio.move_on_after(CANCELS_S_MAX):
            await self.inbox.catch_up()
            if await self.ledger.jobs.cancels.due(now=self.clock.now(), after=(0, 0), most=1):
                self._view.say(f"cancelling what is one too many at the service, for {CANCELS_S_MAX:.0f} s at most")
            await self.canceller.finish()
        if self._tells_of_runs is not None:
            await self._tells_of_runs.finish()

    def recent_report(self) -> ProcessReport:
        """The same as `said`, but for runs that ended long ago."""
        return self.report(lately=True)

    def report(self, *, lately: bool = False) -> ProcessReport:
        """What there is to say of this process."""
        return ProcessReport(
            runs=self.runs.reports(self.stuck, lately=lately),
            meters=self.limits.meters(),
            janitor=self.janitor.summary,
            webhook_url=self.listener.base_url,
            webhook_bytes=self.listener.url_bytes,
        )


@asynccontextmanager
async def open_engine(
    path: Path, connection: ConnectionSettings, dependencies: Dependencies, view: View
) -> AsyncIterator[Engine]:
    """An engine on the ledger at `path`, which is made where there is none.

    Raises `UsageError` where somebody else works on it, or the address to listen on cannot be had.
    """
    path = absolute(path)
    async with (
        open_ledger(
            path, clock=dependencies.clock, connect=dependencies.connect_to(path), boot=dependencies.boot
        ) as ledger,
        anyio.create_task_group() as outer,
    ):
        await outer.start(ledger.writer.serve)
        engine = Engine(ledger, connection, dependencies, view, outer)
        try:
            await ledger.runs.intakes.clear_dead(dependencies.holding_intakes(path))
            engine.serving.asked_before = await ledger.commands.latest()
            async with engine.heart.last_word():
                yield engine
        finally:
            await engine.services.aclose()
        outer.cancel_scope.cancel()
