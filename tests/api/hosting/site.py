"""Several machines that serve one ledger on a server, on virtual time."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx
from starlette.types import ASGIApp

from orchestrator.api.foreground.run import run
from orchestrator.api.foreground.serve import serve
from orchestrator.api.runs.process_commands import beside
from orchestrator.client import Service
from orchestrator.client.http.posts import post_notification
from orchestrator.clock import Clock
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.addresses import Address
from orchestrator.engine.ports.dependencies import Dependencies, is_folder
from orchestrator.errors import OrchestratorError
from orchestrator.ledger import IntakeRight, Ledger
from orchestrator.ledger.postgres.connection import LineBounds, Settings
from orchestrator.ledger.processes.owners_line import SETTINGS as OWNERS_LINE
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.sites.server_site import ServerSite
from orchestrator.settings.addresses.ledger_address import LedgerAddress, LedgerUrl, parse_ledger_url
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.views.status import Summary
from tests.engine.process import Heard, Listener
from tests.engine.rows import run_of_rows
from tests.postgres.ledgers import on_virtual_time, waited_for
from tests.simulation.clock import VirtualClock
from tests.simulation.world import URL, SimulatedService

ONE, OTHER, THIRD = "one", "other", "third"
JOBS = 12
PATIENCE_S = 600.0
SOON_S = 2.0
"""How soon a process has taken what nobody has, and its engine works."""


class Sent(NamedTuple):
    """A process has sent a request."""

    by: str
    endpoint: str
    operation: str
    at_s: float


class Machine:
    """One that serves."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard = Heard()
        self.stop = anyio.Event()
        self.ended = anyio.Event()


class Running(Machine):
    """One that runs something of its own."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.summary: Summary | None = None
        self.error: OrchestratorError | None = None


class Site:
    """A ledger at `url`, the service, and the machines that share them; inputs are in `folder`."""

    def __init__(self, url: str, service: SimulatedService, clock: VirtualClock, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.service = service
        self.clock = clock
        self.sent: list[Sent] = []
        self.told = list[Any]()
        """What was posted to whoever wants to hear of runs."""

        self.told_at = list[int]()
        """When whoever posted it said that it was (s)."""

        self.heard_s = 0.0
        """How long they take to answer."""

        self.is_failing = False
        self.cut_off = set[str]()
        """Machines that reach no service."""

        self.held_up = set[str]()
        """Endpoints that answer nothing for now."""

        self.are_lines_cut = False
        self.refusal: Exception = ConnectionRefusedError("no way there")
        """What is said then to whoever comes."""

        self.is_refusing = False
        self._lines = list[Any]()
        self._owners_lines = list[Any]()
        self.on_owners_line: Callable[[Any], None] = lambda _: None
        """What happens to one as soon as it is there."""

        self.clocks: dict[str, Clock] = {}
        """Clocks of machines, by their names, where they are not right."""

        self.folders_lacking: dict[str, set[str]] = defaultdict(set)
        """Folders that machines of these names have not."""

        self.environ: dict[str, Mapping[str, str]] = {}
        """What is set on machines, by their names."""

        self.listen: str | None = None
        """Where all machines take webhooks, as behind one address."""

        self.listeners = dict[str, ASGIApp]()
        """What takes them at which machine."""

    def dependencies(self, name: str) -> Dependencies:
        async def note(request: httpx.Request) -> None:
            if name in self.cut_off:
                raise httpx.ConnectError("no way there")
            endpoint, _, operation = request.url.path.partition("/v2/")[2].partition("/")
            while endpoint in self.held_up:  # noqa: ASYNC110  until it is none of them
                await anyio.sleep(0.1)
            self.sent.append(Sent(name, endpoint, operation.partition("/")[0], anyio.current_time()))

        def client(connection: ConnectionSettings, clock: Clock) -> Service:
            return Service(connection.serverless_url, connection.api_key, clock, transport=Noted(transport, note))

        @asynccontextmanager
        async def intake_lock(ledger: LedgerAddress, run: str, /, *, now: int) -> AsyncIterator[IntakeRight]:
            assert isinstance(ledger, LedgerUrl)
            async with ServerSite(ledger, connect=self._connect, here=here).holding_intake(run, now=now) as right:
                yield right

        @asynccontextmanager
        async def lock(ledger: LedgerAddress, /, *, now: int, doing: str = "") -> AsyncIterator[None]:
            assert isinstance(ledger, LedgerUrl)
            async with ServerSite(ledger, connect=self._connect, here=here).holding(now=now, doing=doing):
                yield

        async def hear(request: httpx.Request) -> httpx.Response:
            self.told.append(json.loads(request.content))
            self.told_at.append(int(request.headers["webhook-timestamp"]))
            await anyio.sleep(self.heard_s)
            return httpx.Response(204)

        def listener(application: ASGIApp, _address: Address) -> Listener:
            self.listeners[name] = application
            return Listener()

        transport, here = self.service.transport(), on_virtual_time(mark=f" #{name}")
        return Dependencies(
            clock=self.clocks.get(name, self.clock),
            environ=self.environ.get(name, {}),
            service=client,
            connect=lambda _: self._connect,
            here=here,
            machine=lambda: name,
            lock=lock,
            intake_lock=intake_lock,
            post_hook=partial(post_notification, transport=httpx.MockTransport(hear)),
            listener=listener,
            open_files=lambda: 4_096,
            is_folder=lambda path: path not in self.folders_lacking[name] and is_folder(path),
        )

    async def _connect(self, settings: Settings, bounds: LineBounds) -> Any:
        if not OWNERS_LINE.items() <= settings.items():
            if self.is_refusing:
                raise self.refusal
            self._lines.append(await waited_for(self.url)(settings, bounds))
            return self._lines[-1]
        if self.are_lines_cut or self.is_refusing:
            raise self.refusal
        self._owners_lines.append(await waited_for(self.url)(settings, bounds))
        self.on_owners_line(self._owners_lines[-1])
        return self._owners_lines[-1]

    def restart(self) -> None:
        """The server ends all connections, and lets in nobody until `is_refusing` is set back."""
        self.is_refusing = True
        for driver in (*self._lines, *self._owners_lines):
            driver.terminate()

    def cut_owners_lines(self, which: slice = slice(None)) -> None:
        """On those lines, numbered as they were made, nobody can ask any more who owns what, nor on a new one."""
        self.are_lines_cut = True
        for driver in self._owners_lines[which]:
            driver.terminate()

    def request(self, **asked: Any) -> ServeRequest:
        """To serve, as `asked`."""
        connection = ConnectionSettings(serverless_url=URL, api_key="key", listen=self.listen)
        return ServeRequest(ledger=parse_ledger_url(self.url), connection=connection, **asked)

    @asynccontextmanager
    async def serving(self, *names: str, **asked: Any) -> AsyncIterator[list[Machine]]:
        """Machines of these names, begun as `asked`, which are asked to stop at the end of the block, and end."""
        machines = [Machine(name) for name in names]

        async def run(machine: Machine) -> None:
            await serve(self.request(**asked), machine.heard, self.dependencies(machine.name), machine.stop)
            machine.ended.set()

        async with anyio.create_task_group() as tasks:
            for machine in machines:
                tasks.start_soon(run, machine)
            yield machines
            for machine in machines:
                machine.stop.set()
        assert [machine.heard.warnings for machine in machines] == [[] for _ in machines]

    @asynccontextmanager
    async def running(self, name: str, endpoint: str, *, jobs: int = JOBS, **asked: Any) -> AsyncIterator[Running]:
        """The verb `run` in a process of that name, which has so many jobs for `endpoint`; it ends with the block."""
        source = self.folder / f"{name}.jsonl"
        source.write_text("".join(f'{{"custom_id": "{name}-{n}", "input": {n}}}\n' for n in range(jobs)))
        connection = ConnectionSettings(serverless_url=URL, api_key="key")
        settings = RunSettings(**asked)
        request = RunRequest(
            name=f"run-{name}",
            source=str(source),
            endpoint=endpoint,
            ledger=parse_ledger_url(self.url),
            connection=connection,
            settings=settings,
        )
        running = Running(name)

        async def go() -> None:
            try:
                running.summary = await run(request, running.heard, self.dependencies(name), running.stop)
            except OrchestratorError as error:
                running.error = error
            running.ended.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go)
            yield running
            await running.ended.wait()

    @asynccontextmanager
    async def ledger(self) -> AsyncIterator[Ledger]:
        async with beside(parse_ledger_url(self.url), self.dependencies("people")) as ledger:
            yield ledger

    async def run_at(self, endpoint: str, settings: RunSettings = RunSettings(), *, jobs: int = JOBS) -> Run:  # noqa: B008
        async with self.ledger() as ledger:
            return await run_of_rows(
                ledger, f"at {endpoint}", service_url=URL, endpoint=endpoint, settings=settings, jobs=jobs
            )

    async def until(self, run: Run, state: State, number: int = JOBS, *, within_s: float = PATIENCE_S) -> None:
        async with self.ledger() as ledger:
            with anyio.fail_after(within_s):
                while (await ledger.runs.counts(run.id)).get(state.value, 0) < number:  # noqa: ASYNC110  nobody tells
                    await anyio.sleep(0.1)

    async def until_sent(self, jobs: int) -> None:
        with anyio.fail_after(PATIENCE_S):
            while len([each for each in self.sent if each.operation == "run"]) < jobs:  # noqa: ASYNC110  nobody tells
                await anyio.sleep(0.1)

    async def shards(self) -> dict[int, str | None]:
        """Who has which."""
        driver = await waited_for(self.url)({}, LineBounds())
        found = await driver.fetch(
            "SELECT shard, mark FROM leases LEFT JOIN processes ON processes.id = owner ORDER BY shard"
        )
        driver.terminate()
        return {shard: mark and mark.removeprefix(" #") for shard, mark in found}

    async def until_owned(self, shard: int, by: str, *, within_s: float = PATIENCE_S) -> None:
        with anyio.fail_after(within_s):
            while (await self.shards()).get(shard) != by:  # noqa: ASYNC110  nobody tells
                await anyio.sleep(0.25)

    def senders(self, endpoint: str) -> list[str]:
        """Who has sent there, one after the other."""
        found = [each.by for each in self.sent if each.endpoint == endpoint]
        return [by for number, by in enumerate(found) if number == 0 or found[number - 1] != by]


class Noted(httpx.AsyncBaseTransport):
    """Calls `note` with each request before `transport` has it."""

    def __init__(self, transport: httpx.AsyncBaseTransport, note: Callable[[httpx.Request], Awaitable[None]]) -> None:
        self._transport, self._note = transport, note

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self._note(request)
        return await self._transport.handle_async_request(request)
