"""How good a plan is: `python -m tests.simulation.forecasts`.

Each case is forecast as `orchestrator plan` does it, from given figures or from what an earlier run at the endpoint
left in the ledger; then the whole program plays it against the emulator, on virtual time, and both are compared: when
the last result was here, and how long workers were at work, which is what is paid.
"""

import argparse
import math
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import httpx
import msgspec
from msgspec.structs import replace

from orchestrator.client import for_a_batch
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, Forecast, Workers, forecast
from orchestrator.core.planning.observed_times import ObservedExecution, experience
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.limits import CONTRACT_LIMITS as SERVICE_LIMITS
from orchestrator.emulator.contract.limits import JobOperation as ServiceOperation
from orchestrator.emulator.contract.limits import OperationLimit as ServiceLimit
from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.jobs.scaling_rules import Scaling, fixed
from orchestrator.emulator.server import Emulator
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.engine.process import process
from tests.guarantees import record
from tests.simulation.clock import VirtualClock
from tests.simulation.run import run
from tests.simulation.transport import SimulatedTransport
from tests.simulation.world import ENDPOINT, URL

COMMAND: Final = "python -m tests.simulation.forecasts"
WITHIN: Final = 0.15

IDLE_S: Final = 600.0
"""Between two runs."""

Seconds = Callable[[random.Random], float]


def always(seconds: float) -> Seconds:
    """Each execution takes the same."""
    return lambda _: seconds


def between(least: float, most: float) -> Seconds:
    """Anything between, as likely."""
    return lambda chance: chance.uniform(least, most)


def skewed(median: float, sigma: float) -> Seconds:
    """Most about the median, a few far longer."""
    return lambda chance: median * math.exp(chance.gauss(0, sigma))


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A batch and the endpoint that it meets."""

    name: str
    jobs: int
    seconds: Seconds
    given_s: float | None = None
    """What the person says of an execution; None: an earlier run of `before` jobs tells."""

    before: int = 0
    workers: int = 8
    scaling: Scaling | None = None
    trip_s: float = 0.06
    run: int = 1000
    status: int = 2000
    """Requests in ten seconds."""

    webhooks: bool = False
    queue_depth: int | Literal["auto", "off"] = "auto"
    failing: float = 0.0
    """This share of the executions fails."""

    binds: Bottleneck = Bottleneck.WORKERS


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What was forecast, and what came."""

    forecast: Forecast
    finished_s: float
    executing_s: float

    @property
    def off(self) -> float:
        """By which share of what came the forecast of the finish was off."""
        return self.forecast.likely.finished_us / SECOND_US / self.finished_s - 1

    @property
    def off_cost(self) -> float:
        """The same of what is paid."""
        return self.forecast.likely.executing_us / SECOND_US / self.executing_s - 1


CASES: Final = (
    Case(name="even jobs", jobs=400, seconds=always(20), given_s=20),
    Case(name="one job", jobs=1, seconds=always(45), given_s=45),
    Case(name="one more than the workers", jobs=9, seconds=always(60), given_s=60),
    Case(name="scattered", jobs=300, seconds=between(5, 35), given_s=20),
    Case(name="skewed, of a history", jobs=400, seconds=skewed(12, 0.6), before=150),
    Case(name="many workers", jobs=800, seconds=between(20, 40), given_s=30, workers=200),
    Case(name="as many as jobs", jobs=100, seconds=between(50, 70), before=100, workers=100),
    Case(name="the rate binds", jobs=1500, seconds=always(2), given_s=2, workers=500, binds=Bottleneck.RATE),
    Case(name="a low rate", jobs=150, seconds=always(3), given_s=3, workers=40, run=20, binds=Bottleneck.RATE),
    Case(name="a very low rate", jobs=40, seconds=always(1), given_s=1, workers=40, run=5, binds=Bottleneck.RATE),
    Case(name="long trips", jobs=800, seconds=always(4), given_s=4, workers=400, trip_s=0.5, binds=Bottleneck.RATE),
    Case(
        name="few questions",
        jobs=400,
        seconds=always(2),
        given_s=2,
        workers=60,
        status=40,
        binds=Bottleneck.STATUS,
    ),
    Case(
        name="few questions, with webhooks",
        jobs=400,
        seconds=always(2),
        given_s=2,
        workers=60,
        status=40,
        webhooks=True,
    ),
    Case(name="a cold start", jobs=60, seconds=always(15), given_s=15, scaling=Scaling(workers_max=8, cold_start_s=90)),
    Case(
        name="a cold start, of a history",
        jobs=200,
        seconds=between(10, 20),
        before=60,
        scaling=Scaling(workers_max=6, cold_start_s=60),
    ),
    Case(
        name="one warm worker",
        jobs=100,
        seconds=always(10),
        given_s=10,
        scaling=Scaling(workers_min=1, workers_max=5, cold_start_s=40),
    ),
    Case(name="a shallow queue", jobs=200, seconds=always(6), given_s=6, workers=10, queue_depth=5),
    Case(name="failures, of a history", jobs=250, seconds=between(8, 12), before=150, failing=0.2),
    Case(name="long jobs", jobs=60, seconds=between(300, 580), given_s=440, workers=5),
    Case(name="short jobs, of a history", jobs=1200, seconds=between(0.3, 0.9), before=300, workers=16),
)


async def found(case: Case, folder: Path) -> Found:
    """Forecasts `case`, and plays it."""
    played = _Played(case, folder)
    async with anyio.create_task_group() as world:
        await world.start(played.service.serve)
        told = forecast(case.jobs, played.line, *await _known(case, played))
        paid_s = played.paid_s
        finished_s = await played.run("run", case.jobs)
        world.cancel_scope.cancel()
    return Found(forecast=told, finished_s=finished_s, executing_s=played.paid_s - paid_s)


async def _known(case: Case, played: "_Played") -> tuple[Workers, ExecutionSample]:
    """What is known of the endpoint: what is given, or what an earlier run has left."""
    scaling = played.scaling
    if case.given_s is not None:
        start_us = round(scaling.cold_start_s * SECOND_US)
        given = ExecutionSample.given(round(case.given_s * SECOND_US))
        return Workers(most=scaling.workers_max, warm=scaling.workers_min, start_us=start_us), given
    await played.run("before", case.before)
    known = experience(played.executions)
    assert known is not None
    await anyio.sleep(IDLE_S)
    return replace(known.workers, warm=played.service.world.health(ENDPOINT).workers.idle), known.times


class _Played:
    """The program and the emulator, on virtual time."""

    def __init__(self, case: Case, folder: Path) -> None:
        self._case, self._folder = case, folder
        self._clock, self._chance = VirtualClock(), random.Random(1)
        self.paid_s = 0.0
        self.executions: Sequence[ObservedExecution] = ()
        self.scaling = case.scaling or fixed(case.workers)
        self.service = Emulator(
            EmulatorSettings(endpoints={ENDPOINT: self._work}, scaling=self.scaling, limits=_limits_there(case)),
            clock=self._clock,
            rng=random.Random(2),
            deliver=self._deliver,
        )
        self._limits = for_a_batch(_limits_here(case))
        self._listener: httpx.AsyncClient | None = None
        self.line = SendingLimits(
            run=self._limits[Operation.RUN],
            status=self._limits[Operation.STATUS],
            webhooks=case.webhooks,
            trip_us=round(case.trip_s * SECOND_US),
            queue_depth=case.queue_depth,
        )

    async def _work(self, _job: Mapping[str, Any]) -> object:
        seconds = self._case.seconds(self._chance)
        self.paid_s += seconds
        await anyio.sleep(seconds)
        if self._chance.random() < self._case.failing:
            raise ValueError("bad luck")
        return {}

    async def _deliver(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        assert self._listener is not None
        return (await self._listener.post(url, content=body, headers=dict(headers))).status_code

    async def run(self, name: str, jobs: int) -> float:
        """A run of so many jobs; returns how long it took, in seconds."""
        case = self._case
        transport = SimulatedTransport(self.service.app, travel_s=lambda: case.trip_s / 2, cut=ConnectionCut)
        async with process(
            self._folder / "db",
            transport,
            clock=self._clock,
            jobs=jobs,
            settings=RunSettings(queue_depth=case.queue_depth, max_attempts=20),
            limits=self._limits,
            webhooks=case.webhooks,
            name=name,
        ) as p:
            self._listener = httpx.AsyncClient(transport=httpx.ASGITransport(p.listener))
            begun_at = self._clock.now()
            await p.begin()
            await p.finish()
            finished_s = (self._clock.now() - begun_at) / SECOND_US
            self.executions = await p.ledger.jobs.history.executions(
                service_url=URL, endpoint=ENDPOINT, now=self._clock.now()
            )
        return finished_s


def _limits_here(case: Case) -> dict[Operation, Limit]:
    chosen = {Operation.RUN: Limit(case.run, 10, 200), Operation.STATUS: Limit(case.status, 10, 400)}
    return {**CONTRACT_LIMITS, **chosen}


def _limits_there(case: Case) -> dict[ServiceOperation, ServiceLimit]:
    run, status = ServiceLimit(requests=case.run, concurrent=200), ServiceLimit(requests=case.status, concurrent=400)
    return {**SERVICE_LIMITS, ServiceOperation.RUN: run, ServiceOperation.STATUS: status}


def play(case: Case) -> Found:
    """The same, in a world of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return run(partial(found, case, Path(folder)))


def main() -> None:
    """Plays all cases and prints what came of them; exits with 1 where a forecast was too far off."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Forecasts compared with what then happened.")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    parser.add_argument("--case", help="this one only")
    chosen = parser.parse_args()
    worst = worst_cost = 0.0
    for case in CASES:
        if chosen.case not in (None, case.name):
            continue
        came = play(case)
        worst, worst_cost = max(worst, abs(came.off)), max(worst_cost, abs(came.off_cost))
        likely = came.forecast.likely
        print(
            f"{case.name:32} {came.forecast.binds:12} finish {likely.finished_us / SECOND_US:8.1f} s, came"
            f" {came.finished_s:8.1f} s ({came.off:+6.1%}); paid {likely.executing_us / SECOND_US:9.1f} s, came"
            f" {came.executing_s:9.1f} s ({came.off_cost:+6.1%})"
            f"{'' if came.forecast.binds is case.binds else ' BINDS OTHERWISE'}",
            flush=True,
        )
    if chosen.record:
        record("forecast of a run's end off by, worst of 20 cases", 100 * worst, "%", COMMAND, at_most=100 * WITHIN)
        record("forecast of its cost off by, worst of 20 cases", 100 * worst_cost, "%", COMMAND, at_most=100 * WITHIN)
    if worst > WITHIN or worst_cost > WITHIN:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
