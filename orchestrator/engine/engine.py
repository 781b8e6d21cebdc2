"""The engine: builds what works on a ledger, starts it, and stops it in order.

It knows no files, signals or screens.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from orchestrator.engine.flows.flow_executor import FlowFiles
from orchestrator.engine.flows.flow_work import FlowWork
from orchestrator.engine.flows.scheduler import Firing, Scheduler
from orchestrator.engine.hosting.command_desk import CommandDesk
from orchestrator.engine.hosting.endpoint_registry import EndpointRegistry
from orchestrator.engine.hosting.run_host import RunHost
from orchestrator.engine.hosting.run_registry import RunRegistry
from orchestrator.engine.hosting.run_reports import run_reports
from orchestrator.engine.hosting.webhook_listener import WebhookListener
from orchestrator.engine.maintenance.janitor import Recovered
from orchestrator.engine.maintenance.maintenance import Maintenance
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console
from orchestrator.engine.runtime.heartbeat import HeartbeatWriter
from orchestrator.engine.runtime.work_groups import WorkGroups, writing_until_left
from orchestrator.errors import DeposedError, StorageError
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.addresses.ledger_address import LedgerAddress, LedgerUrl
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.user_code import absolute


class Engine:
    """What works on one ledger. Made by `open_engine`; works inside `working`, on the runs that its `host` takes on.

    It sends their jobs, and collects for all runs whose services it can reach: results do not wait for a run's turn.
    """

    def __init__(
        self,
        ledger: Ledger,
        connection: ConnectionSettings,
        dependencies: Dependencies,
        console: Console,
        groups: WorkGroups,
        webhook_key: bytes | None,
    ) -> None:
        self.ledger = ledger
        self._dependencies = dependencies
        self._console = console
        self.groups = groups
        self.endpoints = EndpointRegistry(ledger, connection, dependencies, console, groups)
        self.listener = WebhookListener(
            ledger, connection, dependencies, endpoints=self.endpoints, groups=groups, key=webhook_key
        )
        self.runs = RunRegistry(ledger, dependencies, console, endpoints=self.endpoints, webhook=self.listener.webhook)
        ledger.runs.intakes.pace.is_beside = lambda: len(self.runs.sessions) > 1
        self.host = RunHost(
            ledger,
            dependencies,
            console,
            runs=self.runs,
            endpoints=self.endpoints,
            groups=groups,
            reach=self.reach,
            said=self.report,
        )
        self.heart = HeartbeatWriter(
            ledger=ledger, clock=dependencies.clock, said=self.recent_report, look_every_s=dependencies.say_every_s
        )
        self.commands = CommandDesk(
            ledger=ledger,
            host=self.host,
            learn=self._learn,
            beat=self.heart.beat,
            watch_every_s=dependencies.watch_every_s,
        )
        self.commands.watch.subscribe(self.listener.inbox.look)
        self.maintenance = Maintenance(
            ledger,
            dependencies,
            console,
            host=self.host,
            said=self.recent_report,
            webhooks=self.listener.received,
            lag=self.commands.watch.lag,
        )
        self._is_collecting = False
        self._flow_work: FlowWork | None = None

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Works inside the block, which `stop` and a ledger that is taken away cut short.

        On leaving no more work is taken, and requests in flight get a while to end. Raises `StorageError` where what is
        known by then could not be written.
        """
        try:
            async with self.groups.working(lambda: self.runs.has_unfinished, self._console.info):
                yield
        except BaseException:
            self.ledger.patience.hurry()
            raise
        finally:
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

    def stop(self) -> None:
        """Ends `working`, also if that is still to begin."""
        self.heart.is_asked_to_stop = True
        self.groups.stop()
        self.ledger.patience.hurry()

    async def _stop_when_lost(self) -> None:
        await self.commands.watch.lost.wait()
        self.stop()

    async def reach(self, run: Run) -> None:
        """Works at the endpoint where `run` is from now on. Raises `UsageError` where it cannot be used."""
        await self.endpoints.reach(run, self.listener.webhooks)
        if self._is_collecting and self.endpoints.fresh:
            await self._begin_endpoints()

    async def collect(self) -> Recovered:
        """Begins to collect for what was taken on, and for every other run whose service can be reached: with the first
        page of what an earlier process left, since results may be about to expire. Returns what it left.

        Inside `working`, once.
        """
        taking = self.groups.taking
        await self.maintenance.sampler.begin()
        await taking.start(self.endpoints.limits.serve)
        self._is_collecting = True
        recovered = await self._learn()
        await taking.start(self.listener.inbox.serve)
        await self.listener.inbox.catch_up()
        taking.start_soon(self._stop_when_lost)
        await taking.start(self.commands.watch.serve)
        await taking.start(self.heart.serve)
        return recovered

    async def _learn(self) -> Recovered:
        """Learns which runs there are, and begins to collect for those whose service can be reached."""
        for run in await self.runs.learn_all():
            await self.endpoints.reach(run, self.listener.webhooks)
        return await self._begin_endpoints()

    async def _begin_endpoints(self) -> Recovered:
        """Begins to collect at the endpoints that were added last; returns what an earlier process left there."""
        fresh = await self.endpoints.begin()
        recovered = await self.maintenance.janitor.recover(fresh)
        self.listener.inbox.look()
        return recovered

    async def keep_up(self) -> None:
        """Begins to settle, to cancel, to look after things and to do what is asked of runs. Inside `working`."""
        for part in (self.maintenance.janitor, self.maintenance.canceller, self.host.control, self.commands):
            await self.groups.taking.start(part.serve)

    async def carry_out_flows(self, files: FlowFiles, firing: Firing) -> Scheduler:
        """Begins to carry out flows, with `files`. Inside `working`, after `keep_up`."""
        work = self._flow_work = FlowWork(
            ledger=self.ledger,
            clock=self._dependencies.clock,
            host=self.host,
            commands=self.commands,
            files=files,
            firing=firing,
            scrub=self.endpoints.secrets.scrub,
            hold=self._dependencies.holding_intakes(self.ledger.address),
            console=self._console,
            word=self._dependencies.word,
            written_at=lambda: self.heart.beaten_at,
        )
        await work.begin()
        return work.scheduler

    async def finish(self) -> None:
        """Takes up what was noted last and cancels what is one too many, for a while. Inside `working`."""
        await self.maintenance.finish(self.listener.inbox)
        if self._flow_work is not None:
            await self._flow_work.run_notifier.finish()

    def recent_report(self) -> ProcessReport:
        """The same as `report`, but for runs that ended long ago."""
        return self.report(lately=True)

    def report(self, *, lately: bool = False) -> ProcessReport:
        """What there is to say of this process."""
        stuck, now = self.maintenance.stuck, self.ledger.now()
        return ProcessReport(
            runs=run_reports(self.runs, self.endpoints, stuck, now, lately=lately),
            meters=self.endpoints.limits.meters(),
            janitor=self.maintenance.janitor.summary,
            webhook_url=self.listener.base_url,
            webhook_bytes=self.listener.url_bytes,
        )


@asynccontextmanager
async def open_engine(
    path: LedgerAddress, connection: ConnectionSettings, dependencies: Dependencies, console: Console
) -> AsyncIterator[Engine]:
    """An engine on the ledger at `path`, which is made where there is none.

    Raises `UsageError` where somebody else works on it, or the address to listen on cannot be had.
    """
    path = path if isinstance(path, LedgerUrl) else absolute(path)
    async with (
        open_ledger(
            path,
            clock=dependencies.clock,
            connect=dependencies.connect_to(path),
            boot=dependencies.boot,
            here=dependencies.here,
        ) as ledger,
        writing_until_left(ledger),
        anyio.create_task_group() as outer,
    ):
        dependencies = dependencies.with_clock(ledger.clock)
        key = None if connection.listen is None else await ledger.webhook_key(dependencies.environ)
        engine = Engine(ledger, connection, dependencies, console, WorkGroups(outer), key)
        try:
            await ledger.runs.intakes.clear_dead(dependencies.holding_intakes(path))
            engine.commands.asked_before = await ledger.commands.latest()
            async with engine.heart.last_word():
                yield engine
        finally:
            await engine.endpoints.services.aclose()
        outer.cancel_scope.cancel()
