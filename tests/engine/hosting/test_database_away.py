"""A ledger's server that is away for a while: nothing is sent meanwhile, and then all goes on as if nothing had been."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.api.runs.start_and_stop_texts import say_when_away
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.errors import StorageError
from orchestrator.ledger.postgres.connection import Driver, LineBounds, Settings
from tests.engine.process import Heard, process
from tests.postgres.databases import Databases
from tests.postgres.ledgers import waited_for
from tests.simulation.clock import VirtualClock
from tests.simulation.loop import running_loop
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

JOBS = 60
WORKERS = 5
BEGIN_S = 4.0


class Network:
    """The way to the server at `url`, which can be cut."""

    def __init__(self, url: str) -> None:
        self._connect = waited_for(url)
        self._drivers: list[Driver] = []
        self.is_cut = False

    async def __call__(self, settings: Settings, bounds: LineBounds) -> Any:
        if self.is_cut:
            raise ConnectionRefusedError("nobody is there")
        driver = await self._connect(settings, bounds)
        self._drivers.append(driver)
        return driver

    def cut(self) -> None:
        self.is_cut = True
        for driver in self._drivers:
            driver.terminate()


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    """The URL of a database with an empty ledger."""
    with databases.one() as url:
        yield url


@pytest.mark.slow
@pytest.mark.parametrize("away_s", [3.0, 60.0])
async def test_a_run_whose_database_is_away_goes_on_afterwards_and_sends_nothing_meanwhile(
    tmp_path: Path, url: str, away_s: float
) -> None:
    clock, heard = VirtualClock(), Heard()
    service = SimulatedService(clock, workers=WORKERS)
    sent: list[int] = []
    network = Network(url)
    async with (
        service.serving(),
        process(
            tmp_path / "l.db",
            service.transport(),
            server=url,
            network=network,
            clock=clock,
            jobs=JOBS,
            limits={Operation.RUN: Limit(3, 1)},
        ) as p,
    ):
        p.ledger.patience.seconds = math.inf
        say_when_away(heard, p.ledger)
        await p.begin()
        await anyio.sleep(BEGIN_S)
        network.cut()
        await anyio.sleep(1.0)
        sent.append(sum(service.counts.submitted.values()))
        await anyio.sleep(away_s - 1.0)
        sent.append(sum(service.counts.submitted.values()))
        network.is_cut = False
        await p.finish()
        assert await p.counts() == {State.SUCCEEDED.value: JOBS}
    assert 0 < sent[0] == sent[1] < JOBS
    assert set(service.counts.submitted.values()) == {1}
    assert len(service.counts.submitted) == JOBS
    [warned], [said] = heard.warnings, heard.lines
    assert "(nobody is there)" in warned
    assert said.startswith("the ledger can be used again, after ")


async def test_who_is_asked_to_stop_meanwhile_stops_soon_and_says_why(tmp_path: Path, url: str) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=WORKERS)
    network = Network(url)
    stopped_s = math.inf

    async def play() -> None:
        nonlocal stopped_s
        async with (
            service.serving(),
            process(tmp_path / "l.db", service.transport(), server=url, network=network, clock=clock, jobs=JOBS) as p,
        ):
            p.ledger.patience.seconds = math.inf
            await p.begin()
            await anyio.sleep(BEGIN_S)
            network.cut()
            await anyio.sleep(60.0)
            stopped_s = running_loop().time()
            p.engine.process.stop()

    with pytest.raises(BaseExceptionGroup) as caught:
        await play()
    assert caught.group_contains(StorageError, match="nobody is there")
    assert running_loop().time() - stopped_s < 30.0
