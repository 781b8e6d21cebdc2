"""Several processes that serve one ledger on a server: how much of their endpoints' allowances they use together."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
import asyncpg

from orchestrator.clock import SystemClock
from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Operation
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import Ledger, command_ledger
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.run_settings import RunSettings
from tests.benchmarks.endpoints import ALL_PERCENT_MIN
from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import running, stand_in
from tests.benchmarks.stand_in import Behaviour
from tests.benchmarks.writers import made
from tests.costs import cpu_s_of
from tests.engine.rows import rows
from tests.postgres.databases import Databases
from tests.postgres.server import data_of, server_url

PROCESSES: Final = 4
ENDPOINTS: Final = 8
JOBS: Final = 3_000
"""Of each run: at its endpoint's limit for 30 s."""

BEGUN_S_MAX: Final = 60.0
ENDED_S_MAX: Final = 600.0
LOOK_S: Final = 0.25

_PRESENT: Final = "SELECT count(*) FROM processes"
_OPEN: Final = "SELECT count(*) FROM jobs WHERE ended_at IS NULL"
_OWNERS: Final = "SELECT owner, count(*) FROM leases WHERE shard > 0 AND owner IS NOT NULL GROUP BY owner"


def machines(jobs: int = JOBS) -> list[Figure]:
    """At the contract's limits, each process at its part of `ENDPOINTS`: the use of all allowances, and what it costs."""
    run, status = CONTRACT_LIMITS[Operation.RUN], CONTRACT_LIMITS[Operation.STATUS]
    behaviour = Behaviour(answer_ms=(5.0, 20.0), limits=(run.requests, status.requests, run.window_s))
    with TemporaryDirectory() as name, ExitStack() as opened:
        server = opened.enter_context(server_url(Path(name), is_durable=True))
        databases = opened.enter_context(closing(Databases(server)))
        url = opened.enter_context(databases.empty())
        service = opened.enter_context(stand_in(behaviour))
        folders = [Path(name) / f"machine-{number}" for number in range(PROCESSES)]
        anyio.run(made, url)
        for folder in folders:
            opened.enter_context(_serving(url, service.url, folder))
        process = (data_of(server) / "postmaster.pid").read_text().split()[0]
        most = anyio.run(_worked, url, service.url, jobs)
        cpu_s = cpu_s_of(process)
        seen = service.stop()
    assert [each.number for each in seen.endpoints.values()] == [jobs] * ENDPOINTS, seen
    used = [100 * each.per_s * run.window_s / run.requests for each in seen.endpoints.values()]
    of = f"{PROCESSES} processes, {ENDPOINTS} endpoints"
    return [
        Figure(
            benchmark="machines", name=f"{of}: use of all allowances", value=sum(used) / len(used), unit="%",
            at_least=ALL_PERCENT_MIN,
        ),
        Figure(benchmark="machines", name=f"{of}: use of the least used one", value=min(used), unit="%"),
        Figure(benchmark="machines", name=f"{of}: answered 429", value=seen.throttled, unit="requests", at_most=0),
        Figure(benchmark="machines", name=f"{of}: most endpoints of one process", value=most, unit=""),
        Figure(
            benchmark="machines", name=f"{of}: server's CPU per job", value=1000 * cpu_s / (jobs * ENDPOINTS), unit="ms"
        ),
    ]  # fmt: skip


@contextmanager
def _serving(url: str, service: str, folder: Path) -> Iterator[None]:
    folder.mkdir()
    with running(["serve", "--ledger", url, "--serverless-url", service], folder=folder):
        yield


async def _worked(url: str, service: str, jobs: int) -> int:
    """Takes in a run for each endpoint once all serve, and returns once all of them have ended; with how many endpoints
    the process had that had the most.
    """
    connection = await asyncpg.connect(url)
    try:
        with anyio.fail_after(BEGUN_S_MAX):
            while await connection.fetchval(_PRESENT) < PROCESSES:  # noqa: ASYNC110  it is a server's to say
                await anyio.sleep(LOOK_S)
        async with command_ledger(parse_ledger_url(url), clock=SystemClock()) as ledger:
            hold = Dependencies().holding_intakes(ledger.address)
            for number in range(ENDPOINTS):
                async with hold(f"run-{number}"):
                    await _taken_in(ledger, service, number, jobs)
        began = time.perf_counter()
        most = 0
        while await connection.fetchval(_OPEN):
            assert time.perf_counter() - began < ENDED_S_MAX
            most = max([most, *(number for _, number in await connection.fetch(_OWNERS))])
            await anyio.sleep(4 * LOOK_S)
    finally:
        await connection.close()
    return most


async def _taken_in(ledger: Ledger, service: str, number: int, jobs: int) -> None:
    run = await ledger.runs.create(
        name=f"run-{number}", service_url=service, endpoint=f"endpoint-{number}", source="/x",
        settings=RunSettings(breaker=OFF),
    )  # fmt: skip
    intake = await ledger.runs.intakes.start(run)
    await ledger.runs.intakes.add(intake, packed_rows(rows(jobs)))
    await ledger.runs.intakes.accept(intake)
