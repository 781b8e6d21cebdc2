"""Steps of several processes that write to one ledger on a server side by side, each for endpoints of its own."""

import multiprocessing
import time
from collections.abc import Callable
from importlib.util import find_spec
from multiprocessing.synchronize import Barrier
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio

from orchestrator.clock import SystemClock
from orchestrator.ledger import open_ledger
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.benchmarks.figures import Figure, quantile
from tests.benchmarks.on_server import BATCH, SERVER_US_MAX
from tests.benchmarks.steps import SECONDS_MAX, lane
from tests.costs import cpu_s_of
from tests.ledger.ledgers import a_run
from tests.postgres.databases import Databases
from tests.postgres.server import data_of, server_url

WRITERS: Final = 4
ENDPOINTS: Final = 8
JOBS: Final = 2_000
ROUNDS: Final = 3
STEPS_MIN: Final = 20_000


def writers(jobs: int = JOBS, rounds: int = ROUNDS) -> list[Figure]:
    """Claimed, accepted and completed, by each of `WRITERS` the jobs of its share of `ENDPOINTS`; medians."""
    paces, costs = [], []
    with TemporaryDirectory() as name, server_url(Path(name), is_durable=True) as url:
        process = (data_of(url) / "postmaster.pid").read_text().split()[0]
        databases = Databases(url)
        for _ in range(rounds):
            with databases.empty() as database:
                steps_per_s, server_us = _round(database, jobs, process)
            paces.append(steps_per_s)
            costs.append(server_us)
        databases.close()
    return [
        Figure(
            benchmark="writers", name=f"{WRITERS} writers, {ENDPOINTS} endpoints", value=quantile(paces, 0.5),
            unit="steps/s", at_least=STEPS_MIN,
        ),
        Figure(
            benchmark="writers", name="server's CPU a step", value=quantile(costs, 0.5), unit="us",
            at_most=SERVER_US_MAX,
        ),
    ]  # fmt: skip


def _round(url: str, jobs: int, server: str) -> tuple[float, float]:
    context = multiprocessing.get_context("spawn")
    barrier, times = context.Barrier(WRITERS + 1), context.Queue()
    anyio.run(made, url)
    processes = [context.Process(target=_write, args=(url, number, jobs, barrier, times)) for number in range(WRITERS)]
    for each in processes:
        each.start()
    barrier.wait(SECONDS_MAX)
    cpu_s = cpu_s_of(server)
    took = [times.get(timeout=SECONDS_MAX) for _ in processes]
    cpu_s = cpu_s_of(server) - cpu_s
    for each in processes:
        each.join(SECONDS_MAX)
    steps = 3 * jobs * ENDPOINTS
    seconds = max(ended for _, ended in took) - min(began for began, _ in took)
    return steps / seconds, 1e6 * cpu_s / steps


async def made(url: str) -> None:
    """There is an empty ledger at `url`."""
    async with open_ledger(parse_ledger_url(url), clock=SystemClock()):
        pass


def _write(url: str, number: int, jobs: int, barrier: Barrier, times: Any) -> None:
    anyio.run(
        _written, url, number, jobs, lambda: barrier.wait(SECONDS_MAX), times,
        backend_options={"use_uvloop": find_spec("uvloop") is not None},
    )  # fmt: skip


async def _written(url: str, number: int, jobs: int, wait: Callable[[], object], times: Any) -> None:
    clock = SystemClock()
    async with open_ledger(parse_ledger_url(url), clock=clock) as ledger, anyio.create_task_group() as group:
        await group.start(ledger.writer.serve)
        ledger.jobs.claims.slot = number  # an owner is given one
        runs = [
            await a_run(ledger, jobs, name=f"run-{endpoint}", endpoint=f"endpoint-{endpoint}")
            for endpoint in range(number, ENDPOINTS, WRITERS)
        ]
        wait()
        began = time.perf_counter()
        async with anyio.create_task_group() as lanes:
            for run in runs:
                lanes.start_soon(lane, ledger, run, clock, [], lambda _: False, BATCH)
        times.put((began, time.perf_counter()))
        group.cancel_scope.cancel()
