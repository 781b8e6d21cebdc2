"""A ledger on a server has the server's time, on a machine whose clock is wrong, and is set while it works."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.engine import open_engine
from orchestrator.engine.flows.schedule_evaluator import ScheduleEvaluator
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.ledger import Ledger
from orchestrator.ledger.opening import open_ledger
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.units import SECOND_US
from tests.ledger.ledgers import a_run, brought_to
from tests.ledger.pipelines import a_pipeline, applied, every
from tests.postgres.databases import plain_connections
from tests.simulation.clock import VirtualClock

pytestmark = pytest.mark.anyio

HOUR_US = 3_600 * SECOND_US
NEAR_US = 5 * SECOND_US


class Machine:
    """A machine whose wall clock is wrong."""

    def __init__(self, ahead_us: int = 0) -> None:
        self.ahead_us = ahead_us
        self.clock = SystemClock(wall_ns=lambda: self.true_us() * 1_000 + self.ahead_us * 1_000)

    def true_us(self) -> int:
        return time.time_ns() // 1_000  # noqa: TID251  that of the server, which runs here


@asynccontextmanager
async def on(url: str, machine: Machine) -> AsyncIterator[Ledger]:
    async with (
        open_ledger(parse_ledger_url(url), clock=machine.clock, connect=plain_connections(url)) as ledger,
        anyio.create_task_group() as group,
    ):
        await group.start(ledger.writer.serve)
        yield ledger
        group.cancel_scope.cancel()


@pytest.mark.parametrize("ahead_us", [HOUR_US, -HOUR_US])
async def test_a_wrong_clock_moves_nothing_and_neither_does_its_being_set(url: str, ahead_us: int) -> None:
    machine = Machine(ahead_us)
    async with on(url, machine) as ledger:
        assert abs(ledger.now() - machine.true_us()) < NEAR_US
        before = ledger.now()
        for ahead in (-ahead_us, ahead_us, 0):
            machine.ahead_us = ahead
            assert before <= ledger.now() < machine.true_us() + NEAR_US
        run = await a_run(ledger)
        assert abs(run.created_at - machine.true_us()) < NEAR_US


async def test_nothing_is_brought_back_that_a_machine_with_another_clock_has_left(url: str) -> None:
    async with on(url, Machine(HOUR_US)) as ledger:
        await a_run(ledger)
        sent = await brought_to(ledger, State.OUTSTANDING, ledger.now())
    async with on(url, Machine(-HOUR_US)) as ledger:
        assert ledger.was_ahead_us == 0
        (kept,) = (await ledger.jobs.of([sent.id])).values()
        assert (kept.ttl_at, kept.sent_at) == (sent.ttl_at, sent.sent_at)


async def test_a_schedule_fires_once_whichever_machine_looks(url: str) -> None:
    fires: list[int] = []
    warned: list[str] = []
    async with on(url, Machine()) as ledger:
        of = await applied(ledger, a_pipeline(schedule=every(24, catch_up_h=100)), now=ledger.now() - 72 * HOUR_US)
    for ahead_us in (0, 30 * HOUR_US, -30 * HOUR_US, 0):
        machine = Machine(ahead_us)
        async with on(url, machine) as ledger:
            looker = ScheduleEvaluator(ledger=ledger, say=warned.append, warn=warned.append)
            fires.append((await looker.look(ledger.now())).fires)
            assert all(
                fire.recorded_at <= machine.true_us() + NEAR_US for fire in await ledger.flows.fires.latest(of.id, 9)
            )
    assert fires == [3, 0, 0, 0]
    assert warned == []


async def test_an_engine_has_the_ledgers_time_too(url: str) -> None:
    machine = Machine(HOUR_US)
    connect: Any = lambda _: plain_connections(url)  # noqa: E731  of the other database, by its type
    dependencies = Dependencies(clock=machine.clock, environ={}, connect=connect)
    async with open_engine(parse_ledger_url(url), ConnectionSettings(), dependencies, SilentConsole()) as engine:
        await engine.process.heart.beat()
        assert abs(engine.process.heart.beaten_at - machine.true_us()) < NEAR_US
        [beat] = await engine.ledger.runs.heartbeats.all()
        assert abs(beat.beaten_at - machine.true_us()) < NEAR_US


async def test_a_clock_that_was_brought_is_kept_to(url: str) -> None:
    clock = VirtualClock()
    async with open_ledger(parse_ledger_url(url), clock=clock, connect=plain_connections(url)) as ledger:
        assert ledger.clock is clock
