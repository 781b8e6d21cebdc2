"""A process that has several engines on one ledger, each with a scope of its own, and the service that they know."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path

import anyio
import httpx

from orchestrator.client import Service
from orchestrator.client.http.posts import post_notification
from orchestrator.clock import Clock
from orchestrator.core.jobs.lifecycle import State
from orchestrator.emulator.contract.limits import JobOperation
from orchestrator.engine.engine import Engine, engine_in
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.process.engine_process import EngineProcess, open_process
from orchestrator.engine.runtime.scope import Scope
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claims import SLOTS
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.web.application import listener_application
from tests.engine.process import KEY, Heard, Listener
from tests.engine.rows import empty_ledger, run_of_rows
from tests.postgres.ledgers import waited_for
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.transport import SimulatedTransport
from tests.simulation.world import URL, SimulatedService

JOBS = 40
ONE, OTHER = "one", "other"
PATIENCE_S = 3_600.0
HOOK = "https://hooks.example/T0/path"
"""Where people are told, as `env:HOOK` says."""

_SLOTS = itertools.cycle(range(SLOTS))


class Workplace:
    """A process that has no engine yet, the service that it knows, and what it has said."""

    def __init__(self, process: EngineProcess, service: SimulatedService, clock: VirtualClock, heard: Heard) -> None:
        self.process, self.service, self.clock, self.heard = process, service, clock, heard
        self.ledger = process.ledger

    async def a_run(
        self,
        endpoint: str,
        settings: RunSettings = RunSettings(),  # noqa: B008  it is frozen
        *,
        name: str = "",
        ledger: Ledger | None = None,
    ) -> Run:
        """A run of some jobs, taken in by this process, or by that which has the `ledger`."""
        ledger, name = ledger or self.ledger, name or f"at {endpoint}"
        hold = self.process.dependencies.holding_intakes(ledger.address)
        async with hold(name) if isinstance(ledger.address, Path) else nullcontext():
            return await run_of_rows(ledger, name, service_url=URL, endpoint=endpoint, settings=settings, jobs=JOBS)

    @asynccontextmanager
    async def at_work(self, *runs: Run, is_keeper: bool = False) -> AsyncIterator[Engine]:
        """An engine for these runs, which serves them; on leaving it ends as one does that was asked to."""
        scope = Scope((run.endpoint_id for run in runs), is_keeper=is_keeper)
        async with engine_in(self.process, scope) as engine:
            await engine.runs.learn_settings()
            async with engine.working():
                await engine.collect()
                await engine.keep_up()
                await engine.host.serve_all()
                yield engine

    async def count(self, run: Run, state: State) -> int:
        return (await self.ledger.runs.counts(run.id)).get(state.value, 0)

    async def until(self, run: Run, state: State, number: int) -> None:
        """Waits until so many jobs of `run` are in `state`."""
        with anyio.fail_after(PATIENCE_S):
            while await self.count(run, state) < number:  # noqa: ASYNC110  no engine is asked
                await anyio.sleep(0.5)

    @property
    def heard_by(self) -> tuple[int, ...]:
        """How many are told of anything that happens in the process."""
        return len(self.ledger.writer.subscribers), self.process.watch.subscribers.number, len(self.process.engines)

    @property
    def refused(self) -> int:
        """Requests that came too fast."""
        figures = self.service.gate.meters.figures
        return sum(figures(endpoint, operation).refused for endpoint in (ONE, OTHER) for operation in JobOperation)


@asynccontextmanager
async def workplace(
    path: Path,
    *,
    webhooks: bool = False,
    receiver: httpx.AsyncBaseTransport | None = None,
    server: str | None = None,
) -> AsyncIterator[Workplace]:
    """One on a new ledger at `path`, or at the URL `server`; `receiver` gets what people are told."""
    clock = VirtualClock()
    service = SimulatedService(clock, endpoints=(ONE, OTHER), workers=8)
    empty_ledger(path)
    path.with_name(path.name + ".key").write_bytes(KEY)
    async with (
        service.serving(),
        another(path, service, clock, webhooks=webhooks, receiver=receiver, server=server) as found,
    ):
        yield found


@asynccontextmanager
async def another(
    path: Path,
    service: SimulatedService,
    clock: VirtualClock,
    *,
    webhooks: bool = False,
    receiver: httpx.AsyncBaseTransport | None = None,
    server: str | None = None,
) -> AsyncIterator[Workplace]:
    """One more process on that ledger."""
    heard = Heard()

    def client(connection: ConnectionSettings, clock: Clock) -> Service:
        return Service(connection.serverless_url, connection.api_key, clock, transport=service.transport())

    dependencies = Dependencies(
        clock=clock,
        environ={"HOOK": HOOK},
        post_hook=partial(post_notification, transport=receiver),
        service=client,
        connect=(lambda _: waited_for(server)) if server else async_creator,
        open_files=lambda: 4_096,
        listener=lambda _app, _address: Listener(),
    )
    connection = ConnectionSettings(serverless_url=URL, api_key="key", listen="127.0.0.1:0" if webhooks else None)
    async with open_process(parse_ledger_url(server) if server else path, connection, dependencies, heard) as process:
        process.ledger.jobs.claims.slot = next(_SLOTS)  # nobody joins the others here, and gets one
        yield Workplace(process, service, clock, heard)


@asynccontextmanager
async def receiving(w: Workplace) -> AsyncIterator[None]:
    """What the service posts reaches the listener of the process."""
    webhooks = w.process.listener.webhooks
    if webhooks is None:
        yield
        return
    async with httpx.AsyncClient(transport=SimulatedTransport(listener_application(webhooks))) as hooks:

        async def receive(url: str, body: bytes) -> int:
            return 503 if hooks.is_closed else (await hooks.post(url, content=body)).status_code

        w.service.receiver = receive
        yield
