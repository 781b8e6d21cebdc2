"""How good workers by need are: `python -m tests.simulation.nights`.

Each night (`tests.simulation.night_plans`) is drawn, and played by the whole program with `--workers auto:2-30` against
the emulator, on virtual time: rows arrive, later rows take longer, workers start cold, start anew when
their number is changed, and sometimes have no machine. What came is compared with the optimum: whether it was in time,
and for how long workers were there, which is what is paid.
"""

import argparse
import random
import tempfile
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from orchestrator.client import Service
from orchestrator.clock import Clock
from orchestrator.core.text.durations import Policy
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.emulator.server import Emulator
from orchestrator.engine.engine import Engine, open_engine
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.emulator.accounts import TEMPLATE
from tests.engine.process import SAMPLE_EVERY_S, SAY_EVERY_S, WATCH_EVERY_S
from tests.engine.rows import empty_ledger, rows
from tests.guarantees import record
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.night_plans import BEFORE, IDLE_S, SCALER_S, SPAN, Night, drawn, optimum
from tests.simulation.run import run
from tests.simulation.transport import SimulatedTransport
from tests.simulation.world import URL

COMMAND: Final = "python -m tests.simulation.nights"
NIGHTS: Final = 20
IN_TIME_MIN: Final = 19
COST_MAX: Final = 1.15
COUNT_EVERY_S: Final = 5.0
LONG: Final = Policy(execution_timeout_ms=4 * 3_600_000)
"""No execution is cut off."""

IDLE_BEFORE_S: Final = 600.0

LONGEST: Final = 3.0
"""A night is given up after so many times what it has."""


class Came(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a night."""

    finished_s: float
    worker_s: float
    bounds: tuple[tuple[float, int], ...]
    """How many workers there might be, and since when."""

    def is_in_time(self, night: Night) -> bool:
        """Whether all was done by its deadline."""
        return self.finished_s <= night.within_s

    @property
    def gap_s(self) -> float:
        """The shortest time between two changes, but for the one at the end."""
        times = [at_s for at_s, _ in self.bounds[1:-1]]
        return min((after - before for before, after in pairwise(times)), default=float("inf"))


class _World:
    """The emulator's account with one endpoint, and the program."""

    def __init__(self, night: Night, folder: Path) -> None:
        self._night, self._folder = night, folder
        self.clock = VirtualClock()
        self.began_at = 0
        scaling = Scaling(cold_start_s=night.cold_start_s, machines=night.machines, restarts=True)
        settings = EmulatorSettings(endpoints={"*": self._work}, propagation_s=0, scaling=scaling)
        self.emulator = Emulator(settings, clock=self.clock, rng=random.Random(night.seed))
        template = self.emulator.account.templates.save(TEMPLATE)
        wanted = {
            "templateId": template.id,
            "workersMin": 0,
            "workersMax": 3,
            "idleTimeout": int(IDLE_S),
            "scalerValue": int(SCALER_S),
        }
        self.endpoint = self.emulator.account.endpoints.create(wanted, self.clock.now()).id
        self.worker_s = 0.0
        self.bounds: list[tuple[float, int]] = []

    @property
    def now_s(self) -> float:
        """Since the beginning of the night."""
        return (self.clock.now() - self.began_at) / SECOND_US

    async def _work(self, job: Mapping[str, Any]) -> object:
        number = job["input"]["n"] - 1
        await anyio.sleep(self._night.seconds[number])
        return {}

    async def count(self) -> None:
        """Counts the workers that are there, and notes their bounds, until cancelled."""
        while True:
            most = self.emulator.account.endpoints.find(self.endpoint).workers_max
            if not self.bounds or self.bounds[-1][1] != most:
                self.bounds.append((self.now_s, most))
            self.worker_s += COUNT_EVERY_S * len(self.emulator.world.endpoints.fleet(self.endpoint).views())
            await anyio.sleep(COUNT_EVERY_S)

    def dependencies(self) -> Dependencies:
        transport = SimulatedTransport(self.emulator.app, cut=ConnectionCut)

        def service(connection: ConnectionSettings, clock: Clock) -> Service:
            return Service(connection.serverless_url, "key", clock, transport=transport)

        return Dependencies(
            clock=self.clock,
            environ={},
            service=service,
            connect=async_creator,
            open_files=lambda: 1_024,
            say_every_s=SAY_EVERY_S,
            sample_every_s=SAMPLE_EVERY_S,
            watch_every_s=WATCH_EVERY_S,
        )

    async def play(self) -> Came:
        """The night."""
        night, connection = self._night, ConnectionSettings(serverless_url=URL, rest_url=URL, api_key="key")
        path = empty_ledger(self._folder / "db")
        async with (
            open_engine(path, connection, self.dependencies(), SilentConsole()) as engine,
            engine.working(),
        ):
            await engine.collect()
            await engine.keep_up()
            if night.is_known:
                before = await self._begun(engine, "before", BEFORE, RunSettings(policy=LONG))
                session = engine.runs.sessions[before.id]
                await session.progress.until(lambda: session.progress.unfinished == 0)
                await anyio.sleep(IDLE_BEFORE_S)
            self.began_at = self.clock.now()
            async with anyio.create_task_group() as counting:
                counting.start_soon(self.count)
                with anyio.move_on_after(LONGEST * night.within_s):
                    await self._night_of(engine)
                finished_s = self.now_s
                await anyio.sleep(4 * IDLE_S)
                counting.cancel_scope.cancel()
            engine.groups.in_flight.cancel_scope.cancel()
        return Came(finished_s=finished_s, worker_s=self.worker_s, bounds=tuple(self.bounds))

    async def _night_of(self, engine: Engine) -> None:
        night = self._night
        settings = RunSettings(
            policy=LONG,
            workers=SPAN,
            finish_by=self.began_at + round(night.within_s * SECOND_US),
            price_per_second=night.price_per_s,
            budget_per_hour=night.per_hour,
        )
        (_, first), *others = night.arrivals
        found = await self._begun(engine, "night", first, settings)
        session, taken = engine.runs.sessions[found.id], first
        for at_s, count in others:
            await anyio.sleep(max(0.0, at_s - self.now_s))
            await self._take_in(engine, found, taken, taken + count)
            taken += count
            await session.recount()
        await session.progress.until(lambda: session.progress.unfinished == 0)

    async def _begun(self, engine: Engine, name: str, jobs: int, settings: RunSettings) -> Run:
        """A run of so many jobs, which is served."""
        found = await engine.ledger.runs.create(
            name=name, service_url=URL, endpoint=self.endpoint, source="/x", settings=settings
        )
        await self._take_in(engine, found, 0, jobs)
        found = (await engine.ledger.runs.named(name)) or found
        assert await engine.host.serve(found) is None
        return found

    async def _take_in(self, engine: Engine, found: Run, first: int, until: int) -> None:
        intake = await engine.ledger.runs.intakes.start(found)
        await engine.ledger.runs.intakes.add(intake, packed_rows(rows(until)[first:]))
        await engine.ledger.runs.intakes.accept(intake)


async def _played(night: Night, folder: Path) -> Came:
    world = _World(night, folder)
    async with anyio.create_task_group() as tasks:
        await tasks.start(world.emulator.serve)
        came = await world.play()
        tasks.cancel_scope.cancel()
    return came


def play(night: Night) -> Came:
    """Plays it, in a world of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return run(partial(_played, night, Path(folder)))


def main() -> None:
    """Plays the nights and prints what came of them; exits with 1 where they were not good enough."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Nights with workers by need, and their optimum.")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    parser.add_argument("--nights", type=int, default=NIGHTS, help="so many whose optimum is in time")
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--first", type=int, default=0, help="the first seed: others than those of the figures")
    chosen = parser.parse_args()
    possible = in_time = 0
    paid_s = least_s = worst = 0.0
    seed = chosen.first if chosen.seed is None else chosen.seed
    while possible < (chosen.nights if chosen.seed is None else 1):
        night = drawn(seed)
        best, seed = optimum(night), seed + 1
        if best is None:
            print(f"night {night.seed:3}: no number of workers makes it")
            if chosen.seed is not None:
                return
            continue
        possible += 1
        came = play(night)
        cost = came.worker_s / best.worker_s
        in_time, worst = in_time + came.is_in_time(night), max(worst, cost)
        paid_s, least_s = paid_s + came.worker_s, least_s + best.worker_s
        bounds = " ".join(f"{at_s / 60:.0f}m:{most}" for at_s, most in came.bounds)
        print(
            f"night {night.seed:3}: {night.jobs:4} jobs within {night.within_s / 3600:.1f} h,"
            f" {'in time' if came.is_in_time(night) else 'LATE   '} {came.finished_s / night.within_s:6.1%} (optimum"
            f" {best.workers:2} workers, {best.finished_s / night.within_s:6.1%}), cost {cost:5.2f}; {bounds}",
            flush=True,
        )
    print(f"in time: {in_time} of {possible}; cost {paid_s / least_s:.3f} of the optimum, at the worst {worst:.3f}")
    if chosen.record:
        record(f"nights in time of {possible} where the optimum is", in_time, "nights", COMMAND, at_least=IN_TIME_MIN)
        record("cost of these nights by that of the optimum", paid_s / least_s, "times", COMMAND, at_most=COST_MAX)
    if chosen.seed is None and (in_time < possible * IN_TIME_MIN / NIGHTS or paid_s / least_s > COST_MAX):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
