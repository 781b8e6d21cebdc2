"""One engine and several runs: at two services, at one endpoint by weight, and none of them troubles another."""

import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx
import pytest

from orchestrator.client import Service
from orchestrator.clock import Clock
from orchestrator.core.jobs.transitions import deferred
from orchestrator.core.limits.fair_share import weight_of
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.engine.engine import Engine, open_engine
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.ledger.commands.command_types import Action, NewPriority
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_settings import RunSettings
from tests.engine.rows import empty_ledger, rows
from tests.factories import S
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.loop import running_loop

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HERE, THERE = "http://here", "http://there"
LIMITS = {Operation.RUN: Limit(100, 1.0), Operation.STATUS: Limit(400, 1.0)}


class Accepting(httpx.AsyncBaseTransport):
    """A service whose jobs are all done after `took_s`; it remembers what was sent to which endpoint, and when."""

    def __init__(self, took_s: float = 1.0) -> None:
        self._took_s = took_s
        self._numbers = itertools.count()
        self._done_s: dict[str, float] = {}
        self.sent: list[tuple[float, str, dict[str, object]]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        _, _, endpoint, operation, *rest = request.url.path.split("/")
        now_s = running_loop().time()
        if operation == "run":
            name = f"{endpoint}-{next(self._numbers)}"
            self.sent.append((now_s, endpoint, json.loads(request.content)))
            self._done_s[name] = now_s + self._took_s
            return _answer({"id": name, "status": "IN_QUEUE"})
        if operation == "status":
            is_done = now_s >= self._done_s[rest[0]]
            record = {"id": rest[0], "status": "COMPLETED" if is_done else "IN_PROGRESS"}
            return _answer({**record, "output": 1} if is_done else record)
        return _answer({"id": rest[0], "status": "CANCELLED"} if rest else {})


def _answer(body: Mapping[str, object]) -> httpx.Response:
    return httpx.Response(200, content=json.dumps(body).encode())


@asynccontextmanager
async def engine_at(
    path: Path,
    services: Mapping[str, httpx.AsyncBaseTransport],
    environ: Mapping[str, str] | None = None,
    limits: Mapping[Operation, Limit] = LIMITS,
) -> AsyncIterator[Engine]:
    """An engine that has a key for each of `services`, and works."""

    def service(connection: ConnectionSettings, clock: Clock) -> Service:
        transport = services[connection.serverless_url]
        return Service(connection.serverless_url, connection.api_key, clock, limits=limits, transport=transport)

    dependencies = Dependencies(
        clock=VirtualClock(),
        environ={} if environ is None else environ,
        service=service,
        connect=async_creator,
        open_files=lambda: 4_096,
    )
    connection = ConnectionSettings(serverless_url=HERE, api_key="key", keys=dict.fromkeys(services, "other-key"))
    async with open_engine(empty_ledger(path), connection, dependencies, SilentConsole()) as engine, engine.working():
        yield engine
        engine.groups.in_flight.cancel_scope.cancel()


async def a_run(
    engine: Engine,
    name: str,
    *,
    url: str = HERE,
    endpoint: str = "ep",
    jobs: int = 1,
    settings: RunSettings | None = None,
    s3_config: bytes | None = None,
) -> Run:
    """A run that is taken in, and no more."""
    ledger = engine.ledger
    run = await ledger.runs.create(
        name=name, service_url=url, endpoint=endpoint, source="/x", settings=settings or RunSettings()
    )
    intake = await ledger.runs.intakes.start(run)
    await ledger.runs.intakes.add(intake, packed_rows(rows(jobs, s3_config=s3_config)))
    await ledger.runs.intakes.accept(intake)
    await engine.runs.learn_settings()
    found = await ledger.runs.named(name)
    assert found is not None
    return found


async def serve(engine: Engine, *runs: Run) -> list[RunSession]:
    """Takes on all of `runs`, and begins to send."""
    sessions = [await engine.host.take_on(run) for run in runs]
    await engine.collect()
    await engine.keep_up()
    for session in sessions:
        await session.send()
    return sessions


async def finished(session: RunSession) -> None:
    """Waits until every job of the run has its outcome."""
    await session.progress.until(lambda: session.progress.unfinished == 0)


async def asked(engine: Engine, run: Run, action: Action, argument: NewPriority | None = None) -> None:
    """Another process asks for something, and the engine has carried it out."""
    await engine.ledger.commands.ask(action, run=run.id, argument=argument)
    await engine.commands.run_once()


async def test_one_engine_serves_four_runs_and_what_concerns_one_leaves_the_others_alone(tmp_path: Path) -> None:
    here, there = Accepting(), Accepting()
    environ: MutableMapping[str, str] = {}
    s3_config = (
        b'{"accessId":"env:STORE_ID","accessSecret":"env:STORE_SECRET","bucketName":"b","endpointUrl":"https://s3"}'
    )
    async with engine_at(tmp_path / "db", {HERE: here, THERE: there}, environ) as engine:
        allowing = RunSettings(allow_env=("STORE_*",))
        plain = await a_run(engine, "plain", jobs=20)
        paused = await a_run(engine, "paused", jobs=20)
        cancelled = await a_run(engine, "cancelled", endpoint="ep2", jobs=20)
        lacking = await a_run(engine, "lacking", url=THERE, jobs=20, settings=allowing, s3_config=s3_config)
        await asked(engine, paused, Action.PAUSE)
        await asked(engine, cancelled, Action.CANCEL)
        sessions = await serve(engine, plain, paused, cancelled, lacking)
        with anyio.fail_after(60):
            await finished(sessions[0])
            await finished(sessions[2])
        counts = [{name: n for name, n in session.progress.counts.items() if n} for session in sessions]
        assert counts == [{"succeeded": 20}, {"queued": 20}, {"cancelled": 20}, {"queued": 20}]
        assert [session.blocked_by is not None for session in sessions] == [False, True, True, True]
        assert "STORE_ID" in str(sessions[3].blocked_by)
        assert {endpoint for _, endpoint, _ in here.sent} == {"ep"}
        assert there.sent == []

        environ.update(STORE_ID="an id of ours", STORE_SECRET="a secret of ours")
        await asked(engine, paused, Action.CONTINUE)
        with anyio.fail_after(3_600):
            for session in (sessions[1], sessions[3]):
                await finished(session)
        assert sessions[1].progress.counts["succeeded"] == sessions[3].progress.counts["succeeded"] == 20
        assert len(here.sent) == 40
        assert len(there.sent) == 20


@pytest.mark.parametrize("priorities", [pytest.param((0, 0), marks=pytest.mark.slow), (3, 0)])
async def test_runs_at_one_endpoint_share_it_by_their_weights(tmp_path: Path, priorities: tuple[int, int]) -> None:
    service, seconds = Accepting(), 10
    limits = {**LIMITS, Operation.RUN: Limit(20, 1.0)}
    async with engine_at(tmp_path / "db", {HERE: service}, limits=limits) as engine:
        settings = [RunSettings(priority=priority, queue_depth="off") for priority in priorities]
        runs = [
            await a_run(engine, f"{n}", jobs=20 * seconds, settings=each) for n, each in enumerate(settings, start=1)
        ]
        sessions = await serve(engine, *runs)
        await anyio.sleep(seconds)
        sent = [session.progress.count("outstanding") + session.progress.count("succeeded") for session in sessions]
    ratio = weight_of(priorities[0]) / weight_of(priorities[1])
    share = ratio / (1 + ratio)
    assert sent[0] / sum(sent) == pytest.approx(share, abs=0.05 * min(share, 1 - share) + 5 / sum(sent))
    assert sum(sent) > 17 * seconds


async def test_an_endpoint_may_come_in_while_what_was_learned_of_the_others_is_written_down(tmp_path: Path) -> None:
    async with engine_at(tmp_path / "db", {HERE: Accepting()}) as engine:
        await engine.host.take_on(await a_run(engine, "first", endpoint="ep-1"))
        second = await a_run(engine, "second", endpoint="ep-2")
        (first,) = engine.endpoints.endpoints.values()
        first.api.time_scale = 2.0
        async with anyio.create_task_group() as group:
            group.start_soon(engine.endpoints.write_down)
            await anyio.lowlevel.checkpoint()
            await engine.host.take_on(second)
        assert len(engine.endpoints.endpoints.values()) == 2
        assert await engine.ledger.runs.learned.of(first.id) == first.learned


@pytest.mark.slow
async def test_a_priority_that_is_asked_for_holds_at_once(tmp_path: Path) -> None:
    service, jobs = Accepting(), 300
    limits = {**LIMITS, Operation.RUN: Limit(20, 1.0)}
    async with engine_at(tmp_path / "db", {HERE: service}, limits=limits) as engine:
        runs = [await a_run(engine, name, jobs=jobs, settings=RunSettings(queue_depth="off")) for name in "ab"]
        sessions = await serve(engine, *runs)
        await anyio.sleep(5)
        before = [jobs - session.progress.count("queued") for session in sessions]
        await asked(engine, runs[1], Action.PRIORITY, NewPriority(10))
        await anyio.sleep(10)
        later = [jobs - session.progress.count("queued") for session in sessions]
    assert abs(before[0] - before[1]) <= 12
    assert later[1] - before[1] > 7 * (later[0] - before[0])


async def test_a_small_run_starts_within_a_second_beside_a_large_one_whose_queue_is_full(tmp_path: Path) -> None:
    service = Accepting(took_s=120.0)
    async with engine_at(tmp_path / "db", {HERE: service}) as engine:
        large = await a_run(engine, "large", jobs=400, settings=RunSettings(queue_depth=200))
        await serve(engine, large)
        await anyio.sleep(20)
        assert len(service.sent) <= 260, "no more at the service than suits the run"
        small = await a_run(engine, "small", jobs=5, settings=RunSettings(queue_depth=200))
        begun_s, before = running_loop().time(), len(service.sent)
        await (await engine.host.take_on(small)).send()
        await anyio.sleep(1)
        assert len(service.sent) > before
        assert service.sent[before][0] - begun_s <= 1.0


async def test_an_endpoint_whose_key_is_refused_stops_its_runs_only(tmp_path: Path) -> None:
    class Refusing(Accepting):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if self.is_refusing:
                return httpx.Response(401, content=b"{}")
            return await super().handle_async_request(request)

        is_refusing = True

    good, bad = Accepting(), Refusing()
    async with engine_at(tmp_path / "db", {HERE: good, THERE: bad}) as engine:
        runs = [await a_run(engine, "good", jobs=50), await a_run(engine, "bad", url=THERE, jobs=50)]
        sessions = await serve(engine, *runs)
        await anyio.sleep(30)
        assert Counter(sessions[0].progress.counts)["succeeded"] == 50
        assert sessions[1].why_stopped is not None
        assert sessions[1].progress.counts["queued"] == 50

        bad.is_refusing = False
        with anyio.fail_after(3_600):
            await finished(sessions[1])
        assert sessions[1].progress.counts["succeeded"] == 50


async def test_a_run_without_due_jobs_does_not_keep_the_others_from_asking_whether_a_silent_endpoint_answers(
    tmp_path: Path,
) -> None:
    service = Accepting()
    async with engine_at(tmp_path / "db", {HERE: service}) as engine:
        waiting, due = await a_run(engine, "waiting", jobs=3), await a_run(engine, "due", jobs=3)
        claims = await engine.ledger.jobs.claims.take(
            ClaimLine(waiting.id, endpoint=waiting.endpoint_id, by_retry=False, ttl_of=lambda _: 3_600 * S), most=3
        )
        in_a_day = engine.ledger.now() + 86_400 * S
        put_off = [
            deferred(each.job, due_at=in_a_day, reason="later", at=engine.ledger.now()) for each in claims.claims
        ]
        await engine.ledger.writer.apply(put_off)
        sessions = [await engine.host.take_on(run) for run in (waiting, due)]
        breaker = engine.endpoints.endpoints[due.endpoint_id].health.submissions.breaker
        while not breaker.is_tripped:
            breaker.record_failure(sent_at=engine.ledger.now(), now=engine.ledger.now())
            await anyio.sleep(1)
        await engine.collect()
        await engine.keep_up()
        for session in sessions:
            await session.send()
        with anyio.fail_after(600):
            await finished(sessions[1])
        assert sessions[0].progress.counts["queued"] == 3
