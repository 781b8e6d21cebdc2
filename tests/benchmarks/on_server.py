"""Steps of one writer on a server of PostgreSQL, each run of it beside one on SQLite, on the same disk."""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import anyio

from orchestrator.clock import SystemClock
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.benchmarks.figures import Figure, quantile
from tests.benchmarks.steps import SECONDS_MAX, filled, lane
from tests.costs import cpu_s_of
from tests.postgres.databases import Databases
from tests.postgres.server import data_of, server_url

JOBS: Final = 10_000
PAIRS: Final = 5
BATCH: Final = 500
OF_SQLITES_MIN: Final = 0.8
SERVER_US_MAX: Final = 40.0

Opening = Callable[[Path], AbstractAsyncContextManager[Ledger]]


class Pace(NamedTuple):
    """How fast steps were taken, and what of it the server's processor was needed for."""

    steps_per_s: float
    server_us: float


def server(jobs: int = JOBS, pairs: int = PAIRS) -> list[Figure]:
    """Claimed, accepted and completed, 500 at once; the medians of some pairs."""
    with TemporaryDirectory() as name, server_url(Path(name), is_durable=True) as url:
        process = (data_of(url) / "postmaster.pid").read_text().split()[0]
        databases = Databases(url)
        of_sqlites: list[float] = []
        found: list[Pace] = []
        for _ in range(pairs):
            on_file = _measured(_file, jobs, process)
            with databases.empty() as database:
                on_server = _measured(partial(_server, database), jobs, process)
            of_sqlites.append(on_server.steps_per_s / on_file.steps_per_s)
            found.append(on_server)
        databases.close()
    return [
        Figure(
            benchmark="server", name="one writer: of SQLite's steps", value=quantile(of_sqlites, 0.5), unit="times",
            at_least=OF_SQLITES_MIN,
        ),
        Figure(
            benchmark="server", name="one writer", value=quantile([each.steps_per_s for each in found], 0.5), unit="steps/s"
        ),
        Figure(
            benchmark="server", name="server's CPU a step", value=quantile([each.server_us for each in found], 0.5),
            unit="us", at_most=SERVER_US_MAX,
        ),
    ]  # fmt: skip


def _file(folder: Path) -> AbstractAsyncContextManager[Ledger]:
    return open_ledger(folder / "ledger.db", clock=SystemClock())


def _server(url: str, _folder: Path) -> AbstractAsyncContextManager[Ledger]:
    return open_ledger(parse_ledger_url(url), clock=SystemClock())


def _measured(opening: Opening, jobs: int, server: str) -> Pace:
    with TemporaryDirectory() as name:
        return anyio.run(
            _pace, opening, Path(name), jobs, server,
            backend_options={"use_uvloop": find_spec("uvloop") is not None},
        )  # fmt: skip


async def _pace(opening: Opening, folder: Path, jobs: int, server: str) -> Pace:
    with anyio.fail_after(SECONDS_MAX):
        async with opening(folder) as ledger, anyio.create_task_group() as group:
            await group.start(ledger.writer.serve)
            run = await filled(ledger, folder / "input.jsonl", jobs)
            cpu_s, started = cpu_s_of(server), time.perf_counter()
            async with anyio.create_task_group() as lanes:
                for _ in range(2):
                    lanes.start_soon(partial(lane, ledger, run, SystemClock(), [], at_once=BATCH))
            seconds, cpu_s = time.perf_counter() - started, cpu_s_of(server) - cpu_s
            group.cancel_scope.cancel()
    return Pace(3 * jobs / seconds, 1e6 * cpu_s / (3 * jobs))
