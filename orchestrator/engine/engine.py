"""The engine: builds what works on a ledger, starts it, and stops it in order.

It knows no files, signals or screens.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from orchestrator.engine.collecting.notice_queue import NoticeQueue
from orchestrator.engine.collecting.webhook_inbox import WebhookInbox
from orchestrator.engine.flows.flow_executor import FlowFiles
from orchestrator.engine.flows.flow_work import FlowWork, run_episodes
from orchestrator.engine.flows.scheduler import Firing, Scheduler
from orchestrator.engine.hosting.command_desk import CommandDesk
from orchestrator.engine.hosting.endpoint_registry import EndpointRegistry
from orchestrator.engine.hosting.run_host import RunHost
from orchestrator.engine.hosting.run_registry import RunRegistry
from orchestrator.engine.hosting.run_reports import run_reports
from orchestrator.engine.maintenance.janitor import Recovered
from orchestrator.engine.maintenance.maintenance import Maintenance
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.process.engine_process import EngineProcess, open_process
from orchestrator.engine.runtime.console import Console
from orchestrator.engine.runtime.scope import Scope
from orchestrator.engine.runtime.subscribers import StepSubscribers, Subscribers
from orchestrator.engine.runtime.work_groups import WorkGroups
from orchestrator.errors import DeposedError, StorageError, UsageError
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.connection_settings import ConnectionSettings


class Engine:
    """What works on the `scope` of a ledger, in a `process`, beside other engines or alone. Made by `engine_in`; works
    inside `working`, on the runs that its `host` takes on.

    It sends their jobs, and collects for all runs in its scope whose services it can reach: results do not wait for a
    run's turn.
    """

    def __init__(self, process: EngineProcess, scope: Scope) -> None:
        self.process = process
        self.ledger = process.ledger
        self.scope = scope
        self.groups = WorkGroups()
        self.steps = StepSubscribers(scope)
        """Who hears of the steps of each transaction that are in the scope."""

        self.news = Subscribers()
        """Who is woken when another process has signalled to look."""

        self.commits = Subscribers()
        """Who is woken when another process has committed anything."""

        self.endpoints = EndpointRegistry(process, scope, self.groups, self.steps)
        self.inbox = WebhookInbox(
            ledger=self.ledger,
            endpoints=self.endpoints.endpoints,
            validators=self.endpoints.validators,
            launch=self.groups.launch,
            progress=self.endpoints.retries.progress,
            owed=self.endpoints.owed,
            queue=NoticeQueue(self.ledger, self.endpoints.endpoints, is_keeper=scope.is_keeper),
        )
        self.runs = RunRegistry(process, self.endpoints)
        self.host = RunHost(
            self.ledger,
            process.dependencies,
            process.console,
            runs=self.runs,
            endpoints=self.endpoints,
            groups=self.groups,
            reach=self.reach,
            said=self.report,
        )
        self.commands = CommandDesk(
            ledger=self.ledger,
            host=self.host,
            learn=self.learn,
            beat=process.heart.beat,
            news=self.news,
            wake_others=lambda: process.wake_others(self),
        )
        self.maintenance = Maintenance(
            process, self.host, self.steps, said=lambda: self.report(lately=True), speaks=self._is_first
        )
        self._is_collecting = False
        self._flow_work: FlowWork | None = None

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Works inside the block, which `stop` and a ledger that is taken away cut short.

        On leaving no more work is taken, and requests in flight get a while to end; other engines go on. Raises
        `StorageError` where what is known by then could not be written.
        """
        try:
            async with self.groups.working(lambda: self.runs.has_unfinished, self.process.console.info):
                yield
        except BaseException:  # which ends the process, too
            self.ledger.patience.hurry()
            raise
        finally:
            is_deposed = self.ledger.ownership is not None and self.ledger.place.lost() is not None
            if not (self.groups.are_succeeded or is_deposed):
                await self.host.workers.end()
                await self.host.pods.end()
        await self.endpoints.write_down()
        await self.runs.brakes.write_down(is_last=True)
        if self._is_collecting:
            await self.maintenance.sampler.take()
        if self._flow_work is not None:
            await self._flow_work.run_notifier.leave()
        await self.ledger.writer.flush()
        self.groups.task_pool.check()
        if (lost := self.ledger.place.lost()) is not None:
            raise DeposedError(lost) if self.ledger.ownership is not None else StorageError(lost)

    def stop(self, *, is_succeeded: bool = False) -> None:
        """Ends `working`, also if that is still to begin: of this engine alone; see `EngineProcess.stop`. If another
        one goes on in its place (`is_succeeded`), that has its pods and its raised workers.
        """
        self.groups.are_succeeded = is_succeeded
        self.groups.stop()

    async def reach(self, run: Run) -> None:
        """Works at the endpoint where `run` is from now on. Raises `UsageError` where it cannot be used.

        Another engine may have worked there, and left what is of runs that are new to this one.
        """
        await self.endpoints.reach(run)
        if self._is_collecting and self.endpoints.fresh:
            await (self._begin_endpoints() if self.scope.is_everything else self.learn())

    async def collect(self) -> Recovered:
        """Begins to collect for what was taken on, and for every other run whose service can be reached: with the first
        page of what an earlier process left, since results may be about to expire. Returns what it left.

        Inside `working`, once.
        """
        taking = self.groups.taking
        await self.maintenance.sampler.begin()
        await taking.start(self.endpoints.limits.serve)
        self._is_collecting = True
        recovered = await self.learn()
        await taking.start(self.inbox.serve)
        await self.inbox.catch_up()
        await self.process.begin()
        return recovered

    async def learn(self) -> Recovered:
        """Learns which runs there are, and begins to collect for those whose service can be reached."""
        for run in await self.runs.learn_all():
            try:
                await self.endpoints.reach(run)
            except UsageError as error:  # another engine may have that endpoint
                if run.id not in self.runs.sessions:  # else it is served where it was
                    self.host.hold(run, error)
        return await self._begin_endpoints()

    async def _begin_endpoints(self) -> Recovered:
        """Begins to collect at the endpoints that were added last; returns what an earlier process left there."""
        fresh = await self.endpoints.begin()
        recovered = await self.maintenance.janitor.recover(fresh)
        self.inbox.look()
        return recovered

    async def keep_up(self) -> None:
        """Begins to settle, to cancel, to look after things and to do what is asked of runs. Inside `working`."""
        for part in (self.maintenance.janitor, self.maintenance.canceller, self.host.control, self.commands):
            await self.groups.taking.start(part.serve)
        if not self.scope.is_everything:
            self.news.add(self.host.scope_watch.on_change)
            await self.groups.taking.start(self.host.scope_watch.serve)
        if not self.scope.is_keeper:  # whose own are found by what sends them
            found = run_episodes(self.host, self.process.dependencies.clock, lambda: self.process.wake_others(self))
            await self.groups.taking.start(found.serve)

    async def carry_out_flows(self, files: FlowFiles, firing: Firing) -> Scheduler:
        """Begins to carry out flows, with `files`. Inside `working`, after `keep_up`."""
        work = self._flow_work = FlowWork(
            ledger=self.ledger,
            clock=self.process.dependencies.clock,
            host=self.host,
            steps=self.steps,
            news=self.news,
            commits=self.commits,
            wake_others=lambda: self.process.wake_others(self),
            commands=self.commands,
            files=files,
            firing=firing,
            scrub=self.endpoints.secrets.scrub,
            hold=self.process.dependencies.holding_intakes(self.ledger.address),
            console=self.process.console,
            word=self.process.dependencies.word,
            written_at=lambda: self.process.heart.beaten_at,
        )
        await work.begin()
        return work.scheduler

    async def finish(self) -> None:
        """Takes up what was noted last and cancels what is one too many, for a while. Inside `working`."""
        await self.maintenance.finish(self.inbox)
        await self.tell()

    async def tell(self) -> None:
        """Sends what is owed of runs by now to those who want to hear of them, for a while. Inside `working`."""
        if self._flow_work is not None:
            await self._flow_work.run_notifier.finish()

    @property
    def serves(self) -> int:
        """How many runs it serves."""
        return len(self.runs.sessions)

    async def room(self) -> None:
        """Returns once so little waits to be saved that more may come."""
        await self.endpoints.validators.room()

    def report(self, *, lately: bool = False, only: int | None = None) -> ProcessReport:
        """What there is to say of it; `lately`: but for runs that ended long ago; `only`: of that run alone."""
        stuck, now = self.maintenance.stuck, self.ledger.now()
        return ProcessReport(
            runs=run_reports(self.runs, self.endpoints, stuck, now, lately=lately, only=only),
            meters=self.endpoints.limits.meters(),
            janitor=self.maintenance.janitor.summary,
        )

    def _is_first(self) -> bool:
        return self.process.engines[:1] == [self]


@asynccontextmanager
async def engine_in(process: EngineProcess, scope: Scope) -> AsyncIterator[Engine]:
    """An engine for that `scope`, of which no other one has any part, in `process`, which may have others."""
    engine = Engine(process, scope)
    if scope.is_everything:  # one beside others does so once it works: an input of millions of rows takes minutes
        await process.ledger.runs.intakes.clear_dead(process.dependencies.holding_intakes(process.ledger.address))
        engine.commands.asked_before = await process.ledger.commands.asked()
    with process.joined(engine):
        try:
            yield engine
        finally:
            engine.endpoints.leave()


@asynccontextmanager
async def open_engine(
    path: LedgerAddress, connection: ConnectionSettings, dependencies: Dependencies, console: Console
) -> AsyncIterator[Engine]:
    """The one engine on the ledger at `path`, which is made where there is none.

    Raises `UsageError` where somebody else works on it, or the address to listen on cannot be had.
    """
    async with open_process(path, connection, dependencies, console) as process:
        ownership = process.ledger.ownership
        scope = Scope.everything(is_successor=ownership is not None and ownership.is_successor)
        async with engine_in(process, scope) as engine:
            yield engine
