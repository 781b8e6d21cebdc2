"""A process that carries out flows on virtual time: the engine and the files that users run, and a service of rows."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx

from orchestrator.api.flows.flow_files import LocalFiles
from orchestrator.client import Service
from orchestrator.client.http.posts import post_notification
from orchestrator.clock import Clock
from orchestrator.core.pipelines.pipeline import INPUT, Pipeline, Schedule, Stage
from orchestrator.engine.engine import Engine, open_engine
from orchestrator.engine.flows.scheduler import Firing, Scheduler
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.user_code.functions import UserFunctions
from orchestrator.ledger import IntakeRight, Ledger
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.settings.connection_settings import ConnectionSettings
from tests.engine.process import NOTHING_USED, SAMPLE_EVERY_S, SAY_EVERY_S, WATCH_EVERY_S, Heard
from tests.engine.rows import empty_ledger
from tests.engine.scripted import Script, Scripted, says
from tests.simulation.clock import VirtualClock
from tests.simulation.database import CommitWatch, async_creator
from tests.simulation.world import ENDPOINT, URL


class Flowing:
    """What a test looks at."""

    def __init__(self, engine: Engine, scheduler: Scheduler, heard: Heard) -> None:
        self.engine, self.scheduler, self.warnings = engine, scheduler, heard.warnings
        self.lines = heard.lines
        self.ledger: Ledger = engine.ledger

    async def states(self) -> dict[str, str]:
        """Every flow and its state, in the order of their fires."""
        return {flow.name: flow.state.value for flow in reversed(await self.ledger.flows.latest(None))}

    async def flow(self, name: str) -> Flow:
        found = await self.ledger.flows.named(name)
        assert found is not None
        return found

    async def idle(self) -> None:
        """Waits until nothing is left that could be done."""
        with anyio.fail_after(7 * 86_400):
            await self.scheduler.until_idle()


def accepting() -> Script:
    """Accepts each submission under an id of its own."""
    numbers = itertools.count(1)
    return lambda _: says("IN_QUEUE", f"r-{next(numbers)}")


def completing() -> Scripted:
    """A service that completes every job."""
    return Scripted(run=accepting(), status=lambda asked: says("COMPLETED", asked.remote_id, output=1))


def a_pipeline(
    folder: Path, schedule: Schedule | None = None, *, name: str = "p", input_: str = "in.jsonl", **more: Any
) -> Pipeline:
    """A pipeline of one stage whose input, of two rows, is there, unless it is called otherwise."""
    (folder / "in.jsonl").write_text('{"input": {"n": 1}}\n{"input": {"n": 2}}\n')
    settings = {"endpoint": (ENDPOINT,), "output": ("out-{flow}.jsonl",), "max-attempts": ("1",)}
    stage = Stage(name="caption", from_=(INPUT,), settings=settings)
    given = {"stages": (stage,), "schedule": schedule, **more}
    return Pipeline(name=name, folder=str(folder), input=input_, **given)


@asynccontextmanager
async def flowing(
    folder: Path,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    clock: VirtualClock | None = None,
    firing: Firing = Firing.ALWAYS,
    commits: CommitWatch | None = None,
    delay: Callable[[], float] | None = None,
    environ: Mapping[str, str] | None = None,
    key_variables: Collection[str] = (),
    receiver: httpx.AsyncBaseTransport | None = None,
    before: Callable[[Engine], Awaitable[object]] | None = None,
    files_of: Callable[..., LocalFiles] = LocalFiles,
) -> AsyncIterator[Flowing]:
    """A process on the ledger in `folder` that fires, and carries out what does; `receiver` gets what is told."""
    path = folder / "l.db"
    clock = clock or VirtualClock()
    transport = transport or completing()
    empty_ledger(path)

    def service(_connection: ConnectionSettings, clock: Clock) -> Service:
        return Service(URL, "key", clock, transport=transport)

    dependencies = Dependencies(
        clock=clock,
        environ=environ or {},
        post_hook=partial(post_notification, transport=receiver or httpx.MockTransport(lambda _: httpx.Response(204))),
        service=service,
        connect=lambda found: async_creator(found, delay=delay, commits=commits),
        intake_lock=lambda _ledger, _run, *, now: nullcontext(IntakeRight()),  # a simulated crash would leave it held
        open_files=lambda: 1_024,
        user_code=UserFunctions,
        say_every_s=SAY_EVERY_S,
        usage=lambda: NOTHING_USED,
        sample_every_s=SAMPLE_EVERY_S,
        watch_every_s=WATCH_EVERY_S,
    )
    connection = ConnectionSettings(serverless_url=URL, api_key="key", key_variables=frozenset(key_variables))
    heard = Heard()
    async with open_engine(path, connection, dependencies, heard) as engine:
        await engine.runs.learn_settings()
        async with engine.working():
            await engine.collect()
            await engine.keep_up()
            if before is not None:
                await before(engine)
            files = files_of(
                ledger=engine.ledger,
                connection=connection,
                dependencies=dependencies,
                console=heard,
                webhook_bytes=lambda: 0,
                scrub=engine.endpoints.secrets.scrub,
            )
            yield Flowing(engine, await engine.carry_out_flows(files, firing), heard)
            engine.groups.in_flight.cancel_scope.cancel()
