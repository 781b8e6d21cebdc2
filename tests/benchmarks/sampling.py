"""What of an engine's processor time is its sampling, which alone a dashboard needs that nobody looks at.

A sample costs a few milliseconds every ten seconds, less than two runs of the same engine differ by. So an engine takes
two hundred times as many, at the contract's limits, and what it then needs more is theirs. What is counted of each job
for the next sample is timed alone, with the steps of a real engine.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.samples.sample_spacing import SAMPLE_S
from orchestrator.engine.maintenance.step_meter import StepMeter
from tests.benchmarks.processes import clean_environment, stand_in
from tests.benchmarks.stand_in import Behaviour
from tests.engine.process import process
from tests.simulation import run as worlds
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

JOBS: Final = 3_000
RUNS: Final = 10
"""At once, each of which is sampled."""

PAIRS: Final = 3
OFTEN_S: Final = 0.05
NEVER_S: Final = 100_000.0
SECONDS_MAX: Final = 300.0
COUNTED_JOBS: Final = 500
COUNTED_TIMES: Final = 40

SCRIPT: Final = """
import asyncio, json, sqlite3, sys, time
from orchestrator import Orchestrator
from orchestrator.engine.ports.dependencies import Dependencies

async def main(url, jobs, runs, every_s):
    sampled = Dependencies(sample_every_s=every_s)
    async with Orchestrator("ledger.db", serverless_url=url, api_key="any", _dependencies=sampled) as orc:
        began = time.perf_counter(), time.process_time()
        names = [f"run-{n}" for n in range(runs)]
        inputs = [{"n": n} for n in range(jobs // runs)]
        started = [await orc.submit(inputs, endpoint="ep", name=name, breaker="off") for name in names]
        for run in started:
            await run.wait()
        took = time.perf_counter() - began[0], time.process_time() - began[1]
    samples = sqlite3.connect("ledger.db").execute("SELECT count(*) FROM process_totals").fetchone()[0]
    print(json.dumps([*took, samples]))

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
"""


class SamplingCost(msgspec.Struct, frozen=True, kw_only=True):
    """What sampling costs an engine at the contract's limits."""

    sample_ms: float
    """CPU of one sample, with its transaction."""

    counted_us: float
    """CPU of counting a job's steps."""

    engine_ms: float
    """CPU of a job, without any sample."""

    jobs_per_s: float

    @property
    def percent(self) -> float:
        """Of what the engine needs without it."""
        sampled_ms = self.sample_ms / SAMPLE_S / self.jobs_per_s
        return 100 * (sampled_ms + self.counted_us / 1_000) / (self.engine_ms - self.counted_us / 1_000)


class _Run(msgspec.Struct, frozen=True, array_like=True):
    wall_s: float
    cpu_s: float
    samples: int


def sampling_cost(jobs: int = JOBS, runs: int = RUNS, pairs: int = PAIRS) -> SamplingCost:
    """Of an engine with so many runs at once; the middle one of so many pairs."""
    seldom, each_s = [], []
    for _ in range(pairs):
        without, often = _ended(jobs, runs, NEVER_S), _ended(jobs, runs, OFTEN_S)
        seldom.append(without)
        each_s.append((often.cpu_s - without.cpu_s) / (often.samples - without.samples))
    return SamplingCost(
        sample_ms=1_000 * median(each_s),
        counted_us=counted_us(worlds.run(_steps)),
        engine_ms=1_000 * median(each.cpu_s for each in seldom) / jobs,
        jobs_per_s=jobs / median(each.wall_s for each in seldom),
    )


def _ended(jobs: int, runs: int, every_s: float) -> _Run:
    with TemporaryDirectory() as name, stand_in(Behaviour()) as service:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, service.url, str(jobs), str(runs), str(every_s)],
            cwd=name, env=clean_environment(), capture_output=True, timeout=SECONDS_MAX, check=True,
        )  # fmt: skip
    return msgspec.convert(json.loads(done.stdout), _Run)


async def _steps() -> list[Transition]:
    """Of the jobs of an engine on virtual time."""
    clock = VirtualClock()
    service = SimulatedService(clock, workers=COUNTED_JOBS)
    with TemporaryDirectory() as name:
        async with (
            service.serving(),
            process(Path(name) / "db", service.transport(), clock=clock, jobs=COUNTED_JOBS) as p,
        ):
            await p.begin()
            await p.finish()
            return p.steps


def counted_us(steps: Sequence[Transition]) -> float:
    """CPU of counting the steps of a job."""
    took_s = []
    for _ in range(COUNTED_TIMES):
        meter = StepMeter({}, lambda _run, _endpoint: "", lambda: 0)
        began_s = time.thread_time()
        meter.on_steps(steps)
        meter.add_up()
        took_s.append(time.thread_time() - began_s)
    return 1e6 * median(took_s) / COUNTED_JOBS
