"""A ledger is copied from a file to a server of PostgreSQL and back, and a run goes on on each side."""

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio

from orchestrator.clock import SystemClock
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.settings.addresses.ledger_address import LedgerAddress, parse_ledger_url
from orchestrator.units import DAY_US
from tests.benchmarks.audit import finished_ledger
from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import Verdict, orchestrator
from tests.benchmarks.steps import filled, live
from tests.postgres.databases import Databases
from tests.postgres.server import server_url

JOBS: Final = 1_000_000
PER_S_MIN: Final = 20_000.0
PEAK_MB_MAX: Final = 250.0
GOES_ON: Final = 500
"""So many jobs of another run are done on each side."""

SIDES: Final = 3
SECONDS_MAX: Final = 3_600.0


def copies(jobs: int = JOBS) -> list[Figure]:
    """There and back with so many finished `jobs`; nothing was sent twice, and the audit's exit code is 0."""
    with TemporaryDirectory() as name, server_url(Path(name), is_durable=True) as url:
        folder = Path(name)
        finished_ledger(folder, jobs)
        databases = Databases(url)
        with databases.empty() as database:
            anyio.run(_begun, folder)
            there = _copied("ledger.db", database, folder)
            anyio.run(_gone_on, parse_ledger_url(database))
            back = _copied(database, "back.db", folder)
        databases.close()
        anyio.run(_gone_on, folder / "back.db")
        audit = orchestrator(["verify", "--ledger", "back.db"], folder=folder, seconds_max=SECONDS_MAX)
        assert audit.exit_code == 0, audit.stdout.decode() + audit.stderr
        with closing(sqlite3.connect(folder / "back.db")) as file:
            sent, twice = file.execute("SELECT count(*), count(*) - count(DISTINCT job_id) FROM submissions").fetchone()
        assert (sent, twice) == (jobs + SIDES * GOES_ON, 0)
    return [
        *_figures("to a server", jobs, there),
        *_figures("back to a file", jobs, back),
    ]


def _figures(way: str, jobs: int, found: Verdict) -> list[Figure]:
    return [
        Figure(
            benchmark="copies", name=f"{way}, {jobs:,} jobs", value=jobs / found.wall_s, unit="jobs/s", at_least=PER_S_MIN
        ),
        Figure(
            benchmark="copies", name=f"{way}, {jobs:,} jobs: peak memory", value=found.peak_mb, unit="MB",
            at_most=PEAK_MB_MAX,
        ),
    ]  # fmt: skip


def _copied(source: str, target: str, folder: Path) -> Verdict:
    found = orchestrator(["ledger", "copy", source, target], folder=folder, seconds_max=SECONDS_MAX)
    assert found.exit_code == 0, found.stderr
    return found


async def _begun(folder: Path) -> None:
    async with open_ledger(folder / "ledger.db", clock=SystemClock()) as ledger, anyio.create_task_group() as tasks:
        await tasks.start(ledger.writer.serve)
        await filled(ledger, folder / "more.jsonl", SIDES * GOES_ON)
        await _some_done(ledger)
        tasks.cancel_scope.cancel()


async def _gone_on(address: LedgerAddress) -> None:
    async with open_ledger(address, clock=SystemClock()) as ledger, anyio.create_task_group() as tasks:
        await tasks.start(ledger.writer.serve)
        await _some_done(ledger)
        tasks.cancel_scope.cancel()


async def _some_done(ledger: Ledger) -> None:
    """Some jobs of the run that is not finished are claimed, and end."""
    run = await ledger.runs.named("steps")
    assert run is not None
    line = ClaimLine(run.id, endpoint=run.endpoint_id, by_retry=False, ttl_of=lambda _payload: DAY_US)
    claimed = await ledger.jobs.claims.take(line, most=GOES_ON)
    assert len(claimed.claims) == GOES_ON
    async with anyio.create_task_group() as tasks:
        for claim in claimed.claims:
            tasks.start_soon(live, ledger, claim.job, SystemClock(), [])
