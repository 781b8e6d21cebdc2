"""Several runs in one engine: how much of their endpoints' allowances it uses, and how they share that of one.

python -m tests.benchmarks.endpoints URL JOBS ENDPOINT[,ENDPOINT]...:PRIORITY ...

That is the engine's process: it works on a ledger of its own, which it makes, in the folder in which it is started, and
prints what it took for its runs, one for each argument, from the first request to the last outcome. Several endpoints of
one run are a pool.
"""

import sqlite3
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from orchestrator.cli.framework.runner import execute
from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.core.limits.fair_share import weight_of
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Operation
from orchestrator.core.pools.member import MemberSettings
from orchestrator.engine.engine import Engine, open_engine
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.engine.runtime.progress import Progress
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_settings import RunSettings
from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import measured, stand_in
from tests.benchmarks.runs import SECONDS_MAX
from tests.benchmarks.stand_in import Behaviour, Observed
from tests.engine.rows import rows

ENDPOINTS: Final = (6, 8)
JOBS: Final = 2_000
"""Of each run: at its endpoint's limit for 20 s."""

EACH_PERCENT_MIN: Final = 99.0
"""Of the allowance of each endpoint, while there are six of them."""

ALL_PERCENT_MIN: Final = 95.0
CORE_PERCENT_MAX: Final = 80.0

PRIORITY: Final = 3
"""Of one of two runs at one endpoint, beside an ordinary one: it gets about two jobs for each of the other's."""

SHARE_PERCENT: Final = (95.0, 105.0)
"""Of what the weights say."""


_SENT: Final = """
SELECT jobs.run_id, submissions.sent_at FROM submissions JOIN jobs ON jobs.id = submissions.job_id
"""


class Took(msgspec.Struct, frozen=True):
    """What the engine took."""

    wall_s: float
    cpu_s: float


def endpoints(jobs: int = JOBS) -> list[Figure]:
    """For six and for eight endpoints: the use of all allowances, of the least used one, and the core's; for one with
    two runs, how they share it.
    """
    return [*(figure for number in ENDPOINTS for figure in at_once(number, jobs)), *shared(jobs)]


def shared(jobs: int) -> list[Figure]:
    """Two runs of `jobs` jobs at one endpoint: what the one gets of it for what the other gets, by their weights."""
    with TemporaryDirectory() as name:
        served(Path(name), jobs, ["endpoint:0", f"endpoint:{PRIORITY}"])
        with closing(sqlite3.connect(Path(name) / "ledger.db")) as connection:
            sent = connection.execute(_SENT).fetchall()
    until = min(max(at for run, at in sent if run == which) for which, _ in sent)
    ordinary, preferred = (sum(1 for run, at in sent if run == which and at <= until) for which in (1, 2))
    return [
        Figure(
            benchmark="endpoints",
            name="two runs at one: the preferred one's part, of what its weight says",
            value=100 * preferred / ordinary / weight_of(PRIORITY),
            unit="%",
            at_least=SHARE_PERCENT[0],
            at_most=SHARE_PERCENT[1],
        )
    ]


def served(
    folder: Path, jobs: int, places: list[str], *, execution_s: float = 0.0, workers: int = 0
) -> tuple[Took, Observed]:
    """What the engine took to serve runs of `jobs` jobs at `places`, and what the service saw."""
    run, status = CONTRACT_LIMITS[Operation.RUN], CONTRACT_LIMITS[Operation.STATUS]
    behaviour = Behaviour(
        answer_ms=(5.0, 20.0),
        limits=(run.requests, status.requests, run.window_s),
        execution_s=execution_s,
        workers=workers,
    )
    with stand_in(behaviour) as service:
        command = [sys.executable, "-m", "tests.benchmarks.endpoints", service.url, str(jobs), *places]
        ended = measured(command, folder=folder, seconds_max=SECONDS_MAX)
        seen = service.stop()
    assert ended.exit_code == 0, ended.stderr
    return msgspec.json.decode(ended.stdout, type=Took), seen


def at_once(number: int, jobs: int) -> list[Figure]:
    """The figures of `number` runs of `jobs` jobs each, at endpoints of their own."""
    with TemporaryDirectory() as name:
        took, seen = served(Path(name), jobs, [f"endpoint-{n}:0" for n in range(number)])
    assert [each.number for each in seen.endpoints.values()] == [jobs] * number, seen
    allowed = CONTRACT_LIMITS[Operation.RUN]
    used = [100 * each.per_s * allowed.window_s / allowed.requests for each in seen.endpoints.values()]
    few = number <= min(ENDPOINTS)

    def figure(
        what: str, value: float, unit: str = "%", *, at_least: float | None = None, at_most: float | None = None
    ) -> Figure:
        return Figure(
            benchmark="endpoints",
            name=f"{number} endpoints: {what}",
            value=value,
            unit=unit,
            at_least=at_least,
            at_most=at_most,
        )

    return [
        figure("use of all allowances", sum(used) / number, at_least=ALL_PERCENT_MIN),
        figure("use of the least used one", min(used), at_least=EACH_PERCENT_MIN if few else None),
        figure("answered 429", seen.throttled, "requests", at_most=0),
        figure("of one core", 100 * took.cpu_s / took.wall_s, at_most=CORE_PERCENT_MAX),
        figure("CPU per job", 1000 * took.cpu_s / (number * jobs), "ms"),
    ]


async def _work(ledger: Path, url: str, jobs: int, places: list[str]) -> int:
    """All runs from their intake to their end; prints what their work took."""
    connection = ConnectionSettings(serverless_url=url, api_key="benchmark")
    async with open_engine(ledger, connection, Dependencies(), SilentConsole()) as engine:
        runs = [await _taken_in(engine, url, place, jobs) for place in places]
        await engine.runs.learn_settings()
        async with engine.working():
            sessions = [await engine.host.take_on(run) for run in runs]
            await engine.collect()
            await engine.keep_up()
            started, cpu_started = time.perf_counter(), time.process_time()
            for session in sessions:
                await session.send()
            for session in sessions:
                await _finished(session.progress)
            took = Took(time.perf_counter() - started, time.process_time() - cpu_started)
    sys.stdout.buffer.write(msgspec.json.encode(took))
    return 0


async def _finished(progress: Progress) -> None:
    await progress.until(lambda: progress.unfinished == 0)


async def _taken_in(engine: Engine, url: str, place: str, jobs: int) -> Run:
    ledger = engine.ledger
    names, _, priority = place.partition(":")
    endpoint, *others = names.split(",")
    members = tuple(map(MemberSettings, (endpoint, *others))) if others else ()
    # else few go before the first has succeeded
    settings = RunSettings(priority=int(priority), breaker=OFF, members=members)
    run = await ledger.runs.create(name=place, service_url=url, endpoint=endpoint, source="/x", settings=settings)
    intake = await ledger.runs.intakes.start(run)
    await ledger.runs.intakes.add(intake, packed_rows(rows(jobs)))
    await ledger.runs.intakes.accept(intake)
    found = await ledger.runs.named(place)
    assert found is not None
    return found


def main() -> None:
    """The engine's process."""
    url, jobs, *places = sys.argv[1:]
    sys.exit(execute(partial(_work, Path("ledger.db").absolute(), url, int(jobs), places)))


if __name__ == "__main__":
    main()
