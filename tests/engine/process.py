"""One process of the program without its command line: the engine that users run, with a test's clock and service.

Nothing is started by itself: `begin` does what a run does at its start, `start` starts single parts.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import anyio
import httpx
import msgspec
from starlette.types import ASGIApp

from orchestrator.api.outcomes.outcome_pages import WantedRows, finished_jobs
from orchestrator.client import ServerlessEndpoint, Service
from orchestrator.client.http.link_fetcher import FetchLink
from orchestrator.clock import Clock
from orchestrator.core.gates import gates
from orchestrator.core.gates.failure_breaker import OFF, BreakerRules
from orchestrator.core.gates.gates import GateResult
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.service.endpoint_headers import EndpointHeaders
from orchestrator.core.service.webhook_token import KEY_BYTES
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.engine import Engine, open_engine
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.engine.maintenance.janitor import Recovered
from orchestrator.engine.ports.dependencies import Dependencies, real_link
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.engine.runtime.process_usage import ProcessUsage
from orchestrator.engine.user_code.functions import UserFunctions
from orchestrator.formats.input.rows import Row
from orchestrator.ledger import Boot, Ledger
from orchestrator.ledger.jobs.history import EventRow
from orchestrator.ledger.jobs.results import FinishedJob
from orchestrator.ledger.postgres.connection import Connect as ServerConnect
from orchestrator.ledger.processes.this_process import ThisProcess
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.sites.sent_marks import this_boot
from orchestrator.ledger.transactions.run_controls import RunControls
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.connection_settings import ConnectionSettings, place_for
from orchestrator.settings.run_settings import RunSettings
from orchestrator.web.application import listener_application
from orchestrator.web.webhook_routes import Webhooks
from tests.engine.rows import empty_ledger, rows
from tests.postgres.ledgers import waited_for
from tests.simulation.clock import VirtualClock
from tests.simulation.database import CommitWatch, async_creator
from tests.simulation.transport import SimulatedTransport
from tests.simulation.world import ENDPOINT, URL, SimulatedService

KEY = bytes(range(KEY_BYTES))
PATIENCE_S = 7_200.0
HOOKS_URL = "http://listener"
SAY_EVERY_S = 25.0
"""Often enough to be believed, and no more: many tests last for hours of virtual time."""

SAMPLE_EVERY_S = 3_600.0
"""As seldom: whoever looks at samples says so."""

NOTHING_USED = ProcessUsage(0.0, 0)

WATCH_EVERY_S = 3_600.0
"""Other processes are looked for so seldom: where there is one, a test says so."""


class Heard(SilentConsole):
    """A person who notes what must not be missed."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.lines: list[str] = []

    def info(self, line: str) -> None:
        self.lines.append(line)

    def warn(self, line: str) -> None:
        self.warnings.append(line)


class Listener:
    """A listener that is reached by its app only."""

    url = HOOKS_URL

    async def serve(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        task_status.started()


class Process:
    """The parts of one process, and short ways to look at the ledger."""

    def __init__(
        self, engine: Engine, session: RunSession, clock: VirtualClock, heard: Heard, *, is_local: bool
    ) -> None:
        self.engine = engine
        self.ledger, self.clock, self.settings = engine.ledger, clock, engine.runs.settings_of
        self.session, self.run = session, session.run
        self.warnings = heard.warnings
        self.steps: list[Transition] = []
        self.ledger.writer.subscribe(self.steps.extend)
        served = engine.endpoints.served[self.run.endpoint_id]
        self.api: ServerlessEndpoint = served.endpoint.api
        self.endpoint, self.collector = served.endpoint, served.collector
        self.endpoint.is_local = is_local
        self.endpoints = engine.endpoints.endpoints
        self.progress, self.control, self.dispatcher = session.progress, engine.host.control, session.own.dispatcher
        self.dispatcher.add(session.own.sending)
        self.builder = session.own.sending.builder
        self.canceller, self.inbox, self.stuck = (
            engine.maintenance.canceller,
            engine.inbox,
            engine.maintenance.stuck,
        )
        self.reconciler, self.pruner, self.janitor = (
            engine.maintenance.reconciler,
            engine.maintenance.pruner,
            engine.maintenance.janitor,
        )
        self.in_flight, self.taking, self.task_pool = (
            engine.groups.in_flight,
            engine.groups.taking,
            engine.groups.task_pool,
        )
        self.listener: ASGIApp = listener_application(
            engine.process.listener.webhooks
            or Webhooks(key=KEY, sink=engine.process.desk, clock=self.clock)  # which nobody told the service of
        )

    async def begin(self) -> Recovered:
        """What a process does at its start: recovers, then starts everything."""
        recovered = await self.engine.collect()
        await self.engine.keep_up()
        await self.session.send()
        return recovered

    async def recover(self) -> Recovered:
        """Recovers, and starts nothing."""
        return await self.janitor.recover((self.endpoint.id,))

    async def start(self, *names: str) -> Self:
        """Starts parts by name: dispatcher, collector, janitor, inbox, canceller."""
        for name in names:
            if name == "dispatcher":
                await self.dispatcher.begin(self.taking)
            else:
                await self.taking.start(getattr(self, name).serve)
        return self

    async def finish(self) -> None:
        """Waits until every job of the run has its outcome."""
        await self.wait(lambda: self.progress.unfinished == 0)

    async def until(self, state: State, number: int = 1) -> None:
        """Waits until so many jobs of the run are in `state`."""
        await self.wait(lambda: self.progress.count(state.value) >= number)

    async def until_event(self, condition: Callable[[Transition], bool]) -> Transition:
        """Waits for a step that was not there before the call."""
        seen = len(self.steps)
        found: list[Transition] = []

        def look() -> bool:
            found.extend(step for step in self.steps[seen:] if condition(step))
            return bool(found)

        await self.wait(look)
        return found[0]

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition that steps make true; on virtual time a program that idles would do so for ever."""
        with anyio.fail_after(PATIENCE_S):
            await self.progress.until(condition)

    async def job(self, n: int = 1) -> Job:
        """The `n`th job as it stands in the ledger."""
        ids = await self._submissions(n)
        found = (await self.ledger.jobs.of_submissions(ids=ids)).jobs
        return found[n]

    async def _submissions(self, n: int) -> list[int]:
        return [event.submission for event in await self.events(n) if event.submission is not None]

    async def events(self, n: int = 1) -> list[EventRow]:
        """The history of the `n`th job."""
        return await self.ledger.jobs.history.of(job=n)

    async def story(self, n: int = 1) -> list[str]:
        """The history of the `n`th job, an `event trouble` each."""
        return [f"{event.event} {event.trouble}" if event.trouble else event.event for event in await self.events(n)]

    async def counts(self) -> dict[str, int]:
        """The run's counts that are not zero."""
        found = await self.ledger.runs.counts(run=self.run.id)
        return {name: n for name, n in found.items() if n}

    async def results(self) -> list[FinishedJob]:
        return [job async for job in finished_jobs(self.ledger, self.run.id, WantedRows.RESULTS)]

    async def failures(self) -> list[FinishedJob]:
        return [job async for job in finished_jobs(self.ledger, self.run.id, WantedRows.ERRORS)]


def _make_place(path: Path) -> None:
    empty_ledger(path)
    path.with_name(path.name + ".key").write_bytes(KEY)


def _service(
    limits: dict[Operation, Limit] | None,
    transport: httpx.AsyncBaseTransport,
    connection: ConnectionSettings,
    clock: Clock,
) -> Service:
    """The one that `transport` leads to."""
    found = Service(URL, "key", clock, limits=limits, transport=transport)
    found.endpoint_headers = connection.headers
    return found


def _way_to(
    server: str | None,
    network: ServerConnect | None,
    delay: Callable[[], float] | None,
    commits: CommitWatch | None,
) -> Callable[[Any], Any]:
    """How the ledger is connected to."""
    on_server = waited_for(server) if server and network is None else network
    return lambda path: on_server or async_creator(path, delay=delay, commits=commits)


@asynccontextmanager
async def process(
    path: Path,
    transport: httpx.AsyncBaseTransport,
    *,
    clock: VirtualClock | None = None,
    jobs: int | Sequence[Row] = 1,
    settings: RunSettings | None = None,
    breaker: BreakerRules = OFF,
    limits: dict[Operation, Limit] | None = None,
    webhooks: bool = False,
    delay: Callable[[], float] | None = None,
    commits: CommitWatch | None = None,
    name: str = "run",
    is_local: bool = False,
    environ: Mapping[str, str] | None = None,
    boot: Boot = this_boot,
    keys: Mapping[str, str] | None = None,
    endpoint: str = ENDPOINT,
    headers: Mapping[str, EndpointHeaders] | None = None,
    sample_every_s: float = SAMPLE_EVERY_S,
    watch_every_s: float = WATCH_EVERY_S,
    fetch_link: FetchLink = real_link,
    server: str | None = None,
    here: ThisProcess | None = None,
    network: ServerConnect | None = None,
) -> AsyncIterator[Process]:
    """A process on the ledger at `path`, or, by that `network`, at the URL `server`, with `jobs` in the run `name`.

    On leaving, work is taken no more, requests in flight are cut off, and the ledger is closed.
    """

    clock = clock or VirtualClock()
    _make_place(path)
    dependencies = Dependencies(
        clock=clock,
        environ={} if environ is None else environ,
        service=partial(_service, limits, transport),
        connect=_way_to(server, network, delay, commits),
        boot=boot,
        here=here,
        open_files=lambda: 1_024,
        listener=lambda _app, _address: Listener(),
        user_code=UserFunctions,
        say_every_s=SAY_EVERY_S,
        usage=lambda: NOTHING_USED,
        sample_every_s=sample_every_s,
        watch_every_s=watch_every_s,
        fetch_link=fetch_link,
    )
    connection = ConnectionSettings(
        serverless_url=URL,
        api_key="key",
        listen="127.0.0.1:0" if webhooks else None,
        keys=keys or {},
        headers=headers or {},
    )
    heard = Heard()
    async with open_engine(parse_ledger_url(server) if server else path, connection, dependencies, heard) as engine:
        run = await engine.ledger.runs.named(name)
        if run is None or not run.accepted:
            run = await _new_run(engine.ledger, run, name, jobs, braked(settings or RunSettings(), breaker), endpoint)
        await engine.runs.learn_settings()
        if settings is not None:
            engine.runs.settings_of[run.id] = braked(settings, breaker)
        async with engine.working():
            yield Process(engine, await engine.host.take_on(run), clock, heard, is_local=is_local)
            engine.groups.in_flight.cancel_scope.cancel()


@asynccontextmanager
async def reached_by_webhooks(
    p: Process, service: SimulatedService, way: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[None]:
    """What `service` posts reaches `p`, by that `way` or at once; nobody listens any more on leaving."""
    async with httpx.AsyncClient(transport=way or SimulatedTransport(p.listener)) as hooks:

        async def receive(url: str, body: bytes) -> int:
            return 503 if hooks.is_closed else (await hooks.post(url, content=body)).status_code

        service.receiver = receive
        yield


def why_blocked(endpoint: Endpoint, run: int, controls: RunControls = RunControls()) -> str | None:  # noqa: B008  it is frozen
    """Why nothing of it is sent, by its gates and the endpoint's, in a sentence."""
    hold = gates.first_hold(gate_results(endpoint, run, controls))
    return None if hold is None else hold.sentence


def gate_results(endpoint: Endpoint, run: int, controls: RunControls) -> list[GateResult]:
    """What the gates of `run` and of `endpoint` say where people ask for `controls`."""
    run_facts = endpoint.runs.facts(run, cancelled=controls.cancel, paused=controls.pause)
    return gates.run_results(run_facts, endpoint.health.facts(), endpoint.clock.now())


def braked(settings: RunSettings, breaker: BreakerRules) -> RunSettings:
    """With that breaker, where they have the default: with it no jobs go before some have succeeded, and in most tests
    that is not what happens.
    """
    return msgspec.structs.replace(settings, breaker=breaker) if settings.breaker == BreakerRules() else settings


async def _new_run(
    ledger: Ledger, run: Run | None, name: str, jobs: int | Sequence[Row], settings: RunSettings, endpoint: str
) -> Run:
    """The run with its jobs; `run` is there already where a crash came between it and its intake."""
    if run is None:
        at = place_for(endpoint, URL)
        run = await ledger.runs.create(name=name, service_url=at, endpoint=endpoint, source="/x", settings=settings)
    intake = await ledger.runs.intakes.start(run)
    await ledger.runs.intakes.add(intake, packed_rows(rows(jobs) if isinstance(jobs, int) else jobs))
    await ledger.runs.intakes.accept(intake)
    found = await ledger.runs.named(name)
    assert found is not None
    return found
