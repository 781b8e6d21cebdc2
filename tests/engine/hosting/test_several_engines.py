"""Several engines in one process, on one ledger: each works on its own scope, and they come and go."""

import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from orchestrator.client import Service
from orchestrator.clock import Clock
from orchestrator.core.jobs.lifecycle import State
from orchestrator.emulator.contract.limits import JobOperation
from orchestrator.engine.engine import Engine, engine_in
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.process.engine_process import EngineProcess, open_process
from orchestrator.engine.runtime.scope import Scope
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.web.application import listener_application
from tests.engine.process import KEY, Heard, Listener
from tests.engine.rows import empty_ledger, rows
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.transport import SimulatedTransport
from tests.simulation.world import URL, SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

JOBS = 40
ONE, OTHER = "one", "other"
PATIENCE_S = 3_600.0


class Workplace:
    """A process that has no engine yet, the service that it knows, and what it has said."""

    def __init__(self, process: EngineProcess, service: SimulatedService, heard: Heard) -> None:
        self.process, self.service, self.heard = process, service, heard
        self.ledger = process.ledger

    async def a_run(self, endpoint: str, settings: RunSettings = RunSettings()) -> Run:  # noqa: B008  it is frozen
        run = await self.ledger.runs.create(
            name=f"at {endpoint}", service_url=URL, endpoint=endpoint, source="/x", settings=settings
        )
        intake = await self.ledger.runs.intakes.start(run)
        await self.ledger.runs.intakes.add(intake, packed_rows(rows(JOBS)))
        await self.ledger.runs.intakes.accept(intake)
        [found] = await self.ledger.runs.all([run.id])
        return found

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
async def workplace(path: Path, *, webhooks: bool = False) -> AsyncIterator[Workplace]:
    clock, heard = VirtualClock(), Heard()
    service = SimulatedService(clock, endpoints=(ONE, OTHER), workers=8)

    def client(connection: ConnectionSettings, clock: Clock) -> Service:
        return Service(connection.serverless_url, connection.api_key, clock, transport=service.transport())

    empty_ledger(path)
    path.with_name(path.name + ".key").write_bytes(KEY)
    dependencies = Dependencies(
        clock=clock,
        environ={},
        service=client,
        connect=async_creator,
        open_files=lambda: 4_096,
        listener=lambda _app, _address: Listener(),
    )
    connection = ConnectionSettings(serverless_url=URL, api_key="key", listen="127.0.0.1:0" if webhooks else None)
    async with service.serving(), open_process(path, connection, dependencies, heard) as process:
        yield Workplace(process, service, heard)


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


@pytest.mark.parametrize("webhooks", [False, True])
async def test_an_engine_ends_and_a_third_takes_its_place_while_another_works(tmp_path: Path, webhooks: bool) -> None:
    async with workplace(tmp_path / "l.db", webhooks=webhooks) as w, receiving(w):
        first, second = await w.a_run(ONE), await w.a_run(OTHER)
        async with w.at_work(first, is_keeper=True) as stays:
            async with w.at_work(second) as leaves:
                assert set(stays.endpoints.endpoints) == set(stays.runs.settings_of) == {first.endpoint_id}
                assert set(leaves.endpoints.endpoints) == {second.endpoint_id}
                await w.until(second, State.SUCCEEDED, JOBS // 4)
            before = await w.count(second, State.SUCCEEDED)
            assert await w.count(second, State.SUBMITTING) == 0
            await anyio.sleep(60)
            assert await w.count(second, State.SUCCEEDED) == before < JOBS, "nobody collects what nobody has"
            assert await w.count(second, State.OUTSTANDING) > 0
            assert await w.count(first, State.SUCCEEDED) == JOBS
            async with w.at_work(second):
                await w.until(second, State.SUCCEEDED, JOBS)
        assert w.service.paid == w.service.counts.submitted.total() == 2 * JOBS
        assert w.refused == 0
        assert [await w.ledger.jobs.notices.count(), w.heard.warnings] == [0, []]
        latest = await w.ledger.samples.endpoints.latest([first.endpoint_id, second.endpoint_id])
        assert [sample.submissions for sample in latest.values()] == [{"accepted": JOBS}] * 2
        assert [sample.ends for sample in latest.values()] == [{"succeeded": JOBS}] * 2


async def test_nothing_is_left_of_an_engine_that_has_ended_and_its_process_goes_on(tmp_path: Path) -> None:
    async with workplace(tmp_path / "l.db") as w:
        first, second = await w.a_run(ONE), await w.a_run(OTHER)
        nobody = w.heard_by
        async with w.at_work(first, is_keeper=True) as stays:
            alone = w.heard_by
            gone = []
            for _ in range(3):
                async with w.at_work(second) as engine:
                    gone.append(weakref.ref(engine))
                    assert w.process.report().runs.keys() == {first.id, second.id}
                    await anyio.sleep(2)
                    engine.stop()
                    await anyio.sleep_forever()
                del engine
            gc.collect()
            assert [each() for each in gone] == [None] * 3
            assert w.heard_by == alone
            assert w.process.report().runs.keys() == {first.id}
            assert not w.process.heart.is_asked_to_stop
            await w.until(first, State.SUCCEEDED, JOBS)
            assert stays.runs.sessions.keys() == {first.id}
        assert w.heard_by == nobody


async def test_what_has_no_part_in_a_scope_is_left_alone_by_its_engine(tmp_path: Path) -> None:
    """A run that comes later, at an endpoint of another engine, or of none."""
    async with workplace(tmp_path / "l.db") as w:
        first = await w.a_run(ONE)
        async with w.at_work(first, is_keeper=True) as engine:
            other = await w.a_run(OTHER)
            await engine.learn()
            assert other.id not in engine.runs.settings_of
            await w.until(first, State.SUCCEEDED, JOBS)
            assert await w.count(other, State.QUEUED) == JOBS
            assert engine.report().runs.keys() == {first.id}
