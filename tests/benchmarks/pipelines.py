"""What pipelines cost: looking at many schedules, beginning flows, handing over, a second stage, and memory.

What depends on the pace of the service is measured on virtual time, by the simulated service and its limits.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zoneinfo import available_timezones

import anyio

from orchestrator.clock import SystemClock
from orchestrator.core.pipelines.flow_lifecycle import FlowKind, FlowState
from orchestrator.core.pipelines.pipeline import INPUT, Pipeline, Schedule, Stage
from orchestrator.engine.flows.schedule_evaluator import ScheduleEvaluator
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US
from tests.benchmarks.figures import Figure, quantile
from tests.benchmarks.handover import handed_over
from tests.benchmarks.processes import orchestrator, running, stand_in
from tests.benchmarks.stand_in import Behaviour
from tests.engine.flowing import flowing
from tests.ledger.pipelines import applied
from tests.simulation.clock import VirtualClock
from tests.simulation.run import run_until_crash
from tests.simulation.world import SimulatedService

SCHEDULES: Final = 1_000
LOOK_MS_MAX: Final = 50.0
YEAR_US: Final = 365 * 24 * HOUR_US
YEAR_S_MAX: Final = 1.0
FLOWS: Final = 200
BEGUN_S_MAX: Final = 1.0
BUSY_JOBS: Final = 50_000
TWICE: Final = 100_000
RATIO_MAX: Final = 1.05
MB_MORE_MAX: Final = 40.0
SECONDS_MAX: Final = 600.0

CRONS: Final = ("{m} {h} * * *", "*/5 * * * *", "{m} */4 * * 1-5", "{m} {h} 1 * *")
ZONES: Final = tuple(sorted(available_timezones() - {"localtime"}))[::15]
"""Some forty."""

ONE_STAGE: Final = (Stage(name="s", from_=(INPUT,), settings={"endpoint": ("ep",)}),)


def pipelines() -> list[Figure]:
    """All of it, in some minutes."""
    return [*looks(), *begun(), *handed_over(), *two_stages(), *memory()]


def _figure(name: str, value: float, unit: str, **bound: float) -> Figure:
    return Figure(benchmark="pipelines", name=name, value=value, unit=unit, **bound)


# --- looking


def looks(schedules: int = SCHEDULES) -> list[Figure]:
    """How long a look takes that finds nothing due, and one that finds that it was away for a year."""
    with TemporaryDirectory() as name:
        look_ms, first_ms = asyncio.run(_looked(Path(name), schedules))
        year_s = asyncio.run(_after_a_year(Path(name)))
    return [
        _figure(f"{schedules:,} schedules looked at", look_ms, "ms", at_most=LOOK_MS_MAX),
        _figure(
            f"{schedules:,} schedules looked at by a process that has just begun", first_ms, "ms", at_most=LOOK_MS_MAX
        ),
        _figure("a year's gap of * * * * *", year_s, "s", at_most=YEAR_S_MAX),
    ]


@asynccontextmanager
async def _ledger(path: Path) -> AsyncIterator[Ledger]:
    async with open_ledger(path, clock=SystemClock()) as ledger, anyio.create_task_group() as group:
        await group.start(ledger.writer.serve)
        yield ledger
        group.cancel_scope.cancel()


def _pipeline(name: str, schedule: Schedule) -> Pipeline:
    return Pipeline(name=name, folder="/x", input="in.jsonl", schedule=schedule, stages=ONE_STAGE)


async def _looked(folder: Path, schedules: int) -> tuple[float, float]:
    async with _ledger(folder / "looked.db") as ledger:
        now = ledger.now()
        for n in range(schedules):
            cron = CRONS[n % 4].format(m=n % 60, h=n % 24)
            schedule = Schedule(cron=(cron,), zone=ZONES[n % len(ZONES)], jitter_us=n % 3 * MINUTE_US)
            await applied(ledger, _pipeline(f"p{n}", schedule), now=now)
    async with _ledger(folder / "looked.db") as ledger:  # anew: nothing of it is in memory
        looker = ScheduleEvaluator(ledger=ledger, say=_quiet, warn=_quiet)
        first_ms = await _look_ms(looker, now)
        return min([await _look_ms(looker, now) for _ in range(5)]), first_ms


def _quiet(_: str) -> None:
    """What a look tells is not read."""


async def _look_ms(looker: ScheduleEvaluator, now: int) -> float:
    began = time.perf_counter()
    await looker.look(now)
    return (time.perf_counter() - began) * 1_000


async def _after_a_year(folder: Path) -> float:
    async with _ledger(folder / "year.db") as ledger:
        now = ledger.now()
        of = await applied(
            ledger, _pipeline("p", Schedule(cron=("* * * * *",), catch_up_us=HOUR_US)), now=now - YEAR_US
        )
        took_s = await _look_ms(ScheduleEvaluator(ledger=ledger, say=_quiet, warn=_quiet), now) / 1_000
        assert len(await ledger.flows.fires.gaps(of.id, 9)) == 1
        return took_s


# --- beginning


def begun(flows: int = FLOWS, busy: int = BUSY_JOBS) -> list[Figure]:
    """How long after its fire a flow begins, while a run goes on as fast as the contract allows."""
    with TemporaryDirectory() as name, stand_in(Behaviour()) as service:
        folder = Path(name)
        (folder / "in.jsonl").write_text('{"n": 1}\n')
        (folder / "busy.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(busy)))
        files = []
        for n in range(4):
            file = folder / f"p{n}.toml"
            file.write_text(
                f'name="p{n}"\ninput="in.jsonl"\n[schedule]\nevery="1s"\nparallel=50\n[stage.s]\nendpoint="ep{n}"\n'
            )
            files.append(str(file))
        run = ("run", "busy.jsonl", "--endpoint", "ep", "--ledger", "l.db", "--quiet", "--detach")
        there = ("--serverless-url", service.url)
        for command in (("apply", *files, "--ledger", "l.db"),):
            assert orchestrator(command, folder=folder, seconds_max=SECONDS_MAX).exit_code == 0
        with running(("serve", "--ledger", "l.db", *there), folder=folder):
            _until(folder, 1)
            assert orchestrator((*run, "--serverless-url", service.url), folder=folder, seconds_max=60).exit_code == 0
            _until(folder, flows)
            late_s, outstanding = _began_late(folder), _left(folder)
    assert outstanding, "the run was over before the flows"
    return [
        _figure(
            f"{len(late_s)} flows beside a run: begun after their fires, p99",
            quantile(late_s, 0.99),
            "s",
            at_most=BEGUN_S_MAX,
        ),
        _figure(f"{len(late_s)} flows beside a run: begun after their fires, median", quantile(late_s, 0.5), "s"),
    ]


_BEGUN: Final = (
    "SELECT (started_at - fire_at) / 1e6 FROM flows WHERE fire_at > (SELECT min(started_at) FROM flows)"
    " AND started_at IS NOT NULL"
)
"""Of the fires since the process is there."""


def _began_late(folder: Path) -> list[float]:
    with closing(sqlite3.connect(folder / "l.db")) as connection:
        return [row[0] for row in connection.execute(_BEGUN)]


def _left(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "l.db")) as connection:
        left = "SELECT count(*) FROM jobs JOIN runs ON runs.id = run_id WHERE runs.name = 'busy' AND ended_at IS NULL"
        return int(connection.execute(left).fetchone()[0])


def _until(folder: Path, flows: int) -> None:
    until = time.perf_counter() + SECONDS_MAX
    while len(_began_late(folder)) < flows:
        assert time.perf_counter() < until, "flows do not begin"
        time.sleep(0.2)


# --- two stages

ENDPOINTS: Final = ("one", "two")


def two_stages(rows: int = TWICE) -> list[Figure]:
    """How much longer two stages of so many rows take than one, at the contract's limits, on virtual time."""
    one_s, two_s = (_played_s(rows, ENDPOINTS[:n]) for n in (1, 2))
    return [
        _figure(f"two stages of {rows:,} rows, against one", two_s / one_s, "", at_most=RATIO_MAX),
        _figure(f"one stage of {rows:,} rows, by the clock of the service", one_s, "s"),
    ]


def _played_s(rows: int, endpoints: Sequence[str]) -> float:
    took: list[float] = []

    async def play() -> None:
        clock = VirtualClock()
        service = SimulatedService(clock, endpoints=ENDPOINTS, workers=1_000, seconds=lambda _: 1.0)
        async with service.serving(), flowing(folder, transport=service.transport(), clock=clock) as f:
            of = await applied(f.ledger, pipeline, now=clock.now())
            began = clock.now()
            [name] = await f.ledger.flows.add(of.id, "p", of.definition, [began], FlowKind.TRIGGERED)
            f.scheduler.on_change()
            await f.idle()
            flow = await f.flow(name)
            assert flow.state is FlowState.SUCCEEDED, flow
            took.append(((flow.ended_at or 0) - began) / SECOND_US)

    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(rows)))
        before, stages = INPUT, []
        for endpoint in endpoints:
            stages.append(Stage(name=endpoint, from_=(before,), settings={"endpoint": (endpoint,)}))
            before = endpoint
        pipeline = Pipeline(name="p", folder=name, input="in.jsonl", stages=tuple(stages))
        crash = run_until_crash(play, seed=1)
        assert crash is None, crash
    return took[0]


# --- memory


def memory(rows: tuple[int, int] = (5_000, 40_000)) -> list[Figure]:
    """By how much the memory of a process grows that carries out two stages, from few rows to eight times as many."""
    few_mb, many_mb = (_peak_mb(n) for n in rows)
    name = f"two stages of {rows[1]:,} rows: memory, more than for {rows[0]:,}"
    return [
        _figure(name, many_mb - few_mb, "MB", at_most=MB_MORE_MAX),
        _figure(f"two stages of {rows[0]:,} rows: memory", few_mb, "MB"),
    ]


_TWO: Final = """name="p"
input="in.jsonl"
[stage.one]
endpoint="one"
[stage.two]
endpoint="two"
output="out.jsonl"
"""


def _peak_mb(rows: int) -> float:
    with TemporaryDirectory() as name, stand_in(Behaviour()) as service:
        folder = Path(name)
        (folder / "in.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(rows)))
        (folder / "p.toml").write_text(_TWO)
        assert orchestrator(("apply", "p.toml", "--ledger", "l.db"), folder=folder, seconds_max=60).exit_code == 0
        there = ("--serverless-url", service.url, "--limit", "run=100000/10", "--limit", "status=100000/10")
        done = orchestrator(
            ("trigger", "p", "--wait", "--ledger", "l.db", *there), folder=folder, seconds_max=SECONDS_MAX
        )
        assert done.exit_code == 0, done.stderr
    return done.peak_mb
