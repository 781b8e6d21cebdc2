"""Limits that change while a run goes on, by a command of another process and by the number of workers."""

import logging
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import httpx
import pytest

from orchestrator.client import Service, for_a_batch
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation, Pacing
from orchestrator.core.service.http_answers import Answer
from orchestrator.engine.endpoint.limits import EndpointLimits, LimitKeeper
from orchestrator.engine.ports.dependencies import real_service
from orchestrator.engine.process.heartbeat import BEAT_S, HeartbeatWriter
from orchestrator.engine.process.ledger_watch import LedgerWatch
from orchestrator.engine.runtime.poll_intervals import LOOK_S
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.ledger.commands.command_types import Action, NewLimits, ResetLimits
from orchestrator.ledger.runs.heartbeats import MeterReading, ProcessReport
from orchestrator.settings.command_names import command
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_settings import RunSettings
from tests.engine.rows import empty_ledger
from tests.ledger.ledgers import obeyed
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECOND = 1_000_000
RUN, STATUS = Operation.RUN, Operation.STATUS


class Health:
    """A service of which only `/health` and `/run` matter."""

    def __init__(self) -> None:
        self.running: int | None = 0
        self.asked = 0
        self.run_status = 200

    def answer(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/health"):
            return httpx.Response(self.run_status, json={"id": "x"})
        self.asked += 1
        if self.running is None:
            raise httpx.ConnectError("nobody there")
        return httpx.Response(200, json={"workers": {"running": self.running}})


class World:
    """Two processes at one ledger: the one that keeps the limits, and one for commands."""

    def __init__(
        self,
        ledger: Ledger,
        other: Ledger,
        health: Health,
        requests_per_worker: int | None,
        answer: Callable[[httpx.Request], httpx.Response] | None,
    ) -> None:
        self.ledger, self.other, self.health = ledger, other, health
        self.said: list[str] = []
        self.based: list[Mapping[Operation, Limit]] = []
        clock = VirtualClock()
        self.service = Service(
            "http://service",
            "key",
            clock,
            limits=for_a_batch(CONTRACT_LIMITS),
            transport=httpx.MockTransport(answer or health.answer),
        )
        self.api = self.service.endpoint("ep").api
        self.limits = LimitKeeper(ledger=ledger, say=self.said.append, word=command)
        self.kept = EndpointLimits(
            api=self.api,
            share=for_a_batch,
            clock=clock,
            requests_per_worker=requests_per_worker,
            changed=self.based.append,
        )
        self.limits.add(1, "ep", self.kept)
        self.heart = HeartbeatWriter(
            ledger=ledger, clock=clock, said=lambda: ProcessReport(meters=self.limits.meters())
        )
        self.watch = LedgerWatch(ledger.signals_of_others)
        self.watch.subscribers.add(self.limits.on_change)

    async def set(self, chosen: Mapping[Operation, Limit]) -> None:
        """What a command in another process commits, and the second that it may take to have an effect."""
        await obeyed(self.other, Action.LIMITS_SET, endpoint=1, argument=NewLimits(chosen))
        await anyio.sleep(1)

    async def reset(self, *operations: Operation) -> None:
        await obeyed(self.other, Action.LIMITS_RESET, endpoint=1, argument=ResetLimits(operations))
        await anyio.sleep(1)

    async def meters(self) -> tuple[MeterReading, ...]:
        """What the process at work says to the other one."""
        [beat] = await self.other.runs.heartbeats.all()
        return beat.report.meters

    async def send(self, requests: int = 1) -> list[Answer]:
        return [await self.api.run(await self.api.limiter.permit(RUN), b"{}") for _ in range(requests)]


@asynccontextmanager
async def world(
    path: Path,
    *,
    requests_per_worker: int | None = None,
    begun: bool = True,
    answer: Callable[[httpx.Request], httpx.Response] | None = None,
) -> AsyncIterator[World]:
    clock, connect = VirtualClock(), async_creator(empty_ledger(path))
    async with (
        open_ledger(path, clock=clock, connect=connect) as ledger,
        open_ledger(path, clock=clock, connect=connect) as other,
        anyio.create_task_group() as group,
    ):
        for each in (ledger, other):
            await group.start(each.writer.serve)
        if await other.runs.named("captions") is None:
            await other.runs.create(
                name="captions", service_url="http://service", endpoint="ep", source="-", settings=RunSettings()
            )
        there = World(ledger, other, Health(), requests_per_worker, answer)
        if begun:
            await group.start(there.limits.serve)
            group.start_soon(there.kept.follow_workers)
            await group.start(there.heart.serve)
            await group.start(there.watch.serve)
        yield there
        group.cancel_scope.cancel()
        await there.service.aclose()


async def test_a_limit_set_by_a_command_is_in_force_within_a_second(tmp_path: Path) -> None:
    async with world(tmp_path / "l.db") as there:
        await there.set({RUN: Limit(500, 10, 100), STATUS: Limit(1000, 10)})
        assert there.api.limiter.limit(RUN) == Limit(500, 10, 100)
        assert there.api.limiter.limit(STATUS) == Limit(950, 10), "people keep their part"
        assert there.said == ["limits of ep: run=500/10:100, status=1000/10 (orchestrator limits show)"]
        assert there.based[-1][STATUS] == Limit(950, 10)
        await there.set({RUN: Limit(2, 0.5)})
        assert there.api.limiter.limit(RUN) == Limit(2, 0.5)
        assert there.api.limiter.limit(STATUS) == Limit(950, 10), "what is not named stays"


async def test_a_reset_limit_is_that_of_the_settings_again(tmp_path: Path) -> None:
    async with world(tmp_path / "l.db") as there:
        await there.set({RUN: Limit(500, 10), STATUS: Limit(1000, 10)})
        await there.reset(STATUS)
        assert there.api.limiter.limit(STATUS) == for_a_batch(CONTRACT_LIMITS)[STATUS]
        assert there.api.limiter.limit(RUN) == Limit(500, 10)
        assert there.said[-1] == "limits of ep: status as before (orchestrator limits show)"


async def test_what_was_set_before_the_process_began_is_in_force_from_its_start(tmp_path: Path) -> None:
    async with world(tmp_path / "l.db", begun=False) as there:
        await there.set({RUN: Limit(7, 10)})
        assert there.api.limiter.limit(RUN) == CONTRACT_LIMITS[RUN]
        await there.limits.read()
        assert there.api.limiter.limit(RUN) == Limit(7, 10)


async def test_commits_that_are_about_something_else_change_and_say_nothing(tmp_path: Path) -> None:
    async with world(tmp_path / "l.db") as there:
        await there.other.runs.create(
            name="b", service_url="http://x", endpoint="y", source="-", settings=RunSettings()
        )
        await anyio.sleep(2)
        assert (there.said, there.based) == ([], [])


async def test_limits_follow_the_workers_and_health_is_asked_seldom(tmp_path: Path) -> None:
    async with world(tmp_path / "l.db", requests_per_worker=100) as there:
        there.health.running = 23
        await anyio.sleep(50)
        assert there.api.limiter.limit(RUN) == Limit(2300, 10, 200)
        assert there.api.limiter.limit(STATUS) == Limit(2185, 10, 380), (
            "people keep their part of what workers add, too"
        )
        assert there.health.asked <= 11
        there.health.running = 12
        await anyio.sleep(6)
        assert there.api.limiter.limit(RUN) == Limit(1200, 10, 200)
        there.health.running = None
        await anyio.sleep(21)
        assert there.api.limiter.limit(RUN) == CONTRACT_LIMITS[RUN], "of workers nobody knows anything"
        assert there.based == [], "what has to be collected in time is not planned with workers that may go"


class Dynamic:
    """A service that keeps to the dynamic rule by a sliding log, with workers so fast that they are idle at any look."""

    def __init__(self, clock: VirtualClock, *, counts_idle: bool) -> None:
        self._clock = clock
        self._counts_idle = counts_idle
        self._log: deque[int] = deque()
        self.up = 0
        self.refused = 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/health"):
            return httpx.Response(200, json={"workers": {"running": 0, "idle": self.up}})
        now = self._clock.now()
        while self._log and self._log[0] <= now - 10 * SECOND:
            self._log.popleft()
        if len(self._log) >= max(1000, self.up * 100 * self._counts_idle):
            self.refused += 1
            return httpx.Response(429)
        self._log.append(now)
        return httpx.Response(200, json={"id": "x"})


@pytest.mark.slow
async def test_a_batch_sends_more_as_workers_come_and_no_more_than_they_allow(tmp_path: Path) -> None:
    service = Dynamic(VirtualClock(), counts_idle=True)
    async with world(tmp_path / "l.db", requests_per_worker=100, answer=service.answer) as there:
        rates = []
        for up in (0, 15, 15):
            service.up = up
            await anyio.sleep(11)
            with anyio.move_on_after(10):
                rates.append(0)
                while True:
                    await there.send()
                    rates[-1] += 1
        assert rates == [pytest.approx(1000, rel=0.02), pytest.approx(1400, rel=0.1), pytest.approx(1500, rel=0.02)]
        assert service.refused == 0


@pytest.mark.slow
async def test_where_idle_workers_do_not_count_a_few_429s_are_drawn_and_no_others(tmp_path: Path) -> None:
    service = Dynamic(VirtualClock(), counts_idle=False)
    service.up = 40
    async with world(tmp_path / "l.db", requests_per_worker=100, answer=service.answer) as there:
        with anyio.move_on_after(50):
            while True:
                await there.send()
        few = service.refused
        assert 1 <= few <= 40
        with anyio.move_on_after(50):
            while True:
                await there.send()
        assert service.refused == few


async def test_a_429_ends_what_workers_add(tmp_path: Path) -> None:
    async with world(tmp_path / "l.db", requests_per_worker=100) as there:
        there.health.running = 40
        await anyio.sleep(30)
        there.health.run_status = 429
        await there.send()
        await anyio.sleep(6)
        assert there.api.limiter.limit(RUN).requests <= 1100


async def test_a_limit_of_somebody_s_own_is_not_raised_by_workers(tmp_path: Path) -> None:
    async with world(tmp_path / "l.db", requests_per_worker=100) as there:
        there.health.running = 40
        await there.set({RUN: Limit(300, 10)})
        await anyio.sleep(200)
        assert there.api.limiter.limit(RUN) == Limit(300, 10)


async def test_without_requests_per_worker_health_is_not_asked(tmp_path: Path) -> None:
    async with world(tmp_path / "l.db") as there:
        await anyio.sleep(60)
        assert there.health.asked == 0


async def test_meters_are_written_for_those_who_look_from_outside_soon_and_when_they_have_changed(
    tmp_path: Path,
) -> None:
    async with world(tmp_path / "l.db") as there:
        await there.send(3)
        await anyio.sleep(LOOK_S + 1)
        [reading] = await there.meters()
        assert (reading.endpoint_id, reading.operation) == (1, RUN)
        assert (reading.used, reading.allowance, reading.throttled) == (3, 1000, 0)
        await anyio.sleep(20)
        [reading] = await there.meters()
        assert reading.used == 0
        beats = {beat.beaten_at for _ in range(30) for beat in await there.other.runs.heartbeats.all()}
        for _ in range(30):
            await anyio.sleep(1)
            beats |= {beat.beaten_at for beat in await there.other.runs.heartbeats.all()}
        assert len(beats) == 1 + 30 // BEAT_S, "nothing has changed: it only says that it lives"


async def test_whoever_sets_a_limit_sees_how_it_is_used_soon_although_nothing_is_sent(tmp_path: Path) -> None:
    async with world(tmp_path / "l.db") as there:
        await there.send(3)
        await anyio.sleep(30)
        await there.set({RUN: Limit(500, 10)})
        await anyio.sleep(LOOK_S)
        [reading] = await there.meters()
        assert (reading.used, reading.allowance) == (0, 500)
        await there.reset(RUN)
        await anyio.sleep(LOOK_S)
        [reading] = await there.meters()
        assert (reading.used, reading.allowance) == (0, 1000)


async def test_a_ledger_that_cannot_be_used_for_a_while_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with world(tmp_path / "l.db") as there:
        await there.send()
        await anyio.sleep(0.05)  # between two transactions of the ledger
        with closing(sqlite3.connect(tmp_path / "l.db", isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            await anyio.sleep(20)
        assert "how this process stands could not be written down" in caplog.text
        await there.set({RUN: Limit(500, 10)})
        assert there.api.limiter.limit(RUN) == Limit(500, 10)


async def test_a_new_process_forgets_the_meters_of_the_one_before(tmp_path: Path) -> None:
    async with world(tmp_path / "l.db") as there:
        await there.send()
        await anyio.sleep(LOOK_S + 1)
        assert await there.meters()
    async with world(tmp_path / "l.db", begun=False) as there:
        await there.heart.beat()
        assert await there.meters() == ()


async def test_operations_that_this_program_does_not_know_are_left_alone(tmp_path: Path) -> None:
    async with world(tmp_path / "l.db") as there:
        await anyio.sleep(0.05)  # between two transactions of the ledger
        with closing(sqlite3.connect(tmp_path / "l.db")) as newer, newer:
            newer.execute("INSERT INTO limits VALUES (1, 'teleport', 1, 1, NULL, 0)")
        assert await there.other.runs.limits.all() == {}


@pytest.mark.parametrize(("pacing", "at_once"), [("even", 3), ("window", 200)])
async def test_the_pacing_that_was_chosen_is_the_client_s(pacing: Pacing, at_once: int) -> None:
    service = real_service(ConnectionSettings(api_key="key", pacing=pacing), VirtualClock())
    assert service.endpoint("ep").api.limiter.available(RUN, 0) == at_once
    await service.aclose()
