"""One process at work on a ledger: what all of its engines share, and what it says of itself.

Where a ledger has one process, that has one engine, whose scope is everything. Where there are several, each has an
engine for each part of the ledger that it serves; they come and go while the others work, and know nothing of each
other.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import reduce
from typing import Protocol

import anyio
import msgspec
from anyio.abc import TaskGroup

from orchestrator.engine.collecting.notice_desk import NoticeDesk
from orchestrator.engine.collecting.webhook_inbox import WebhookInbox
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.service_registry import ServiceRegistry
from orchestrator.engine.process.heartbeat import HeartbeatWriter
from orchestrator.engine.process.ledger_watch import LedgerWatch
from orchestrator.engine.process.process_meter import ProcessMeter
from orchestrator.engine.process.webhook_listener import WebhookListener
from orchestrator.engine.runtime.console import Console
from orchestrator.engine.runtime.secret_scrubber import SecretScrubber
from orchestrator.engine.runtime.subscribers import StepSubscribers, Subscribers
from orchestrator.engine.runtime.work_groups import writing_until_left
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.ledger.runs.heartbeats import ProcessReport, of_engines
from orchestrator.settings.addresses.ledger_address import LedgerAddress, LedgerUrl
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.user_code import absolute


class EngineAtWork(Protocol):
    """An engine, to the process that it works in."""

    steps: StepSubscribers
    news: Subscribers
    commits: Subscribers
    inbox: WebhookInbox

    @property
    def serves(self) -> int:
        """How many runs it serves."""
        ...

    def report(self, *, lately: bool = False) -> ProcessReport:
        """What there is to say of what it does; `lately`: but for runs that ended long ago."""
        ...

    async def room(self) -> None:
        """Returns once so little waits to be saved that more may come."""
        ...

    def stop(self) -> None:
        """Ends its work, also if that is still to begin."""
        ...


class EngineProcess:
    """What is of one process on its `ledger`; made by `open_process`. Its tasks live in `outer`."""

    def __init__(
        self,
        ledger: Ledger,
        connection: ConnectionSettings,
        dependencies: Dependencies,
        console: Console,
        outer: TaskGroup,
        webhook_key: bytes | None,
    ) -> None:
        self.ledger = ledger
        self.dependencies = dependencies
        self.console = console
        self._outer = outer
        self.engines: list[EngineAtWork] = []
        """Those that are at work now, the one that came first at the head."""

        self.services = ServiceRegistry(connection, dependencies, console, outer, ownership=ledger.ownership)
        own = connection.key_variables
        self.secrets = SecretScrubber(
            lambda: ledger.jobs.claims.secret_names | own | self.services.secret_variables,
            dependencies.environ,
            api_keys=self.services.api_keys,
            warn=console.warn,
        )
        self.desk = NoticeDesk(ledger)
        self.listener = WebhookListener(
            connection, dependencies, desk=self.desk, scrub=self.secrets.scrub, key=webhook_key
        )
        self.watch = LedgerWatch(ledger.signals_of_others, place=ledger.place, every_s=dependencies.watch_every_s)
        self.heart = HeartbeatWriter(
            ledger=ledger,
            clock=dependencies.clock,
            said=lambda: self.report(lately=True),
            look_every_s=dependencies.say_every_s,
        )
        self.meter = ProcessMeter(
            ledger=ledger, usage=dependencies.usage, lag=self.watch.lag, webhooks=self.listener.received
        )
        ledger.runs.intakes.pace.is_beside = lambda: sum(engine.serves for engine in self.engines) > 1
        self.lacks: Mapping[int, str] = {}
        """What it lacks to serve shards of a ledger that others work on, too, by their numbers."""

        self.lack_counts: Mapping[int, int] = {}
        """How many things those are."""

        self._has_begun = False

    @contextmanager
    def joined(self, engine: EngineAtWork) -> Iterator[None]:
        """`engine` is at work inside of the block: it hears of steps, of webhooks, and of what others commit."""
        self.engines.append(engine)
        self.ledger.writer.subscribe(engine.steps.tell)
        self.watch.subscribers.add(engine.news.wake)
        self.watch.inboxes.add(engine.inbox.look)
        self.watch.followers.add(engine.commits.wake)
        self.desk.add(engine.inbox)
        try:
            yield
        finally:
            self.engines.remove(engine)
            self.ledger.writer.subscribers.remove(engine.steps.tell)
            self.watch.subscribers.remove(engine.news.wake)
            self.watch.inboxes.remove(engine.inbox.look)
            self.watch.followers.remove(engine.commits.wake)
            self.desk.remove(engine.inbox)

    def wake_others(self, engine: EngineAtWork) -> None:
        """`engine` has committed something that may be news for the others; those elsewhere notice the commit."""
        for each in self.engines:
            if each is not engine:
                each.news.wake()

    async def begin(self) -> None:
        """An engine has begun to work: what others commit is watched from now on, and how this process stands is said
        now and then.
        """
        if self._has_begun:
            self.watch.subscribers.wake()  # whoever has come hears that there may be news
            return
        self._has_begun = True
        self._outer.start_soon(self._stop_when_lost)
        await self._outer.start(self.watch.serve)
        await self._outer.start(self.heart.serve)

    async def listen(self) -> None:
        """Takes webhooks from now on, until the very end, so that as few as possible are missed."""
        await self.listener.serve(self._outer)

    async def room(self) -> None:
        """Returns once so little waits to be written and saved that more may come."""
        await self.ledger.writer.room()
        for engine in tuple(self.engines):
            await engine.room()

    def stop(self) -> None:
        """Ends the work of all engines: the process is to end."""
        self.heart.is_asked_to_stop = True
        for engine in self.engines:
            engine.stop()
        self.ledger.patience.hurry()

    async def _stop_when_lost(self) -> None:
        await self.watch.lost.wait()
        self.stop()

    def report(self, *, lately: bool = False) -> ProcessReport:
        """What there is to say of this process; `lately`: but for runs that ended long ago."""
        told = reduce(of_engines, (engine.report(lately=lately) for engine in self.engines), ProcessReport())
        return msgspec.structs.replace(
            told,
            webhook_url=self.listener.base_url,
            webhook_bytes=self.listener.url_bytes,
            lacks=self.lacks,
            lack_counts=self.lack_counts,
        )


@asynccontextmanager
async def open_process(
    path: LedgerAddress, connection: ConnectionSettings, dependencies: Dependencies, console: Console
) -> AsyncIterator[EngineProcess]:
    """This process at work on the ledger at `path`, which is made where there is none.

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
        process = EngineProcess(ledger, connection, dependencies, console, outer, key)
        try:
            async with process.heart.last_word():
                yield process
        finally:
            await process.services.aclose()
        outer.cancel_scope.cancel()
