"""How fast rows are taken in on a server of PostgreSQL, and how long it takes there to find some jobs among millions."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
import asyncpg

from orchestrator.clock import SystemClock
from orchestrator.core.filters.filter_parser import parse
from orchestrator.core.jobs.lifecycle import State
from orchestrator.formats.input.rows import Row
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine, queue_walk
from orchestrator.ledger.opening import open_ledger
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.sites.site import LedgerSite
from orchestrator.ledger.sites.sites import site_of
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import DAY_US, MIB
from tests.benchmarks.figures import Figure, quantile
from tests.benchmarks.runs import write_input
from tests.formats.input_files import read_rows
from tests.postgres.databases import Databases
from tests.postgres.server import server_url

JOBS: Final = 1_000_000
TAKEN_IN: Final = 200_000
TIMES: Final = 7
ROWS_MIN: Final = 50_000
MS_MAX: Final = 10.0
SECONDS_MAX: Final = 3_600.0
PAGE: Final = 100
CLAIMED: Final = 10
WORKED_OFF: Final = 20_000
AT_ONCE: Final = 1_000
"""So many jobs are claimed and end before a claim is measured again: their places in the queue are left behind."""

RUN: Final = 1
ENDPOINT: Final = 1
LINE: Final = ClaimLine(RUN, endpoint=ENDPOINT, by_retry=False, ttl_of=lambda _payload: DAY_US)

_FILL: Final = """
INSERT INTO endpoints (service_url, endpoint) VALUES ('https://api.example/v2', 'abc');
INSERT INTO runs (name, endpoint_id, source, settings, created_at, intake_accepted)
    VALUES ('night', 1, '-', '{{}}', 1, 1);
INSERT INTO intakes (run_id, started_at, accepted_at, first_job) VALUES (1, 1, 1, 1);
INSERT INTO jobs (run_id, endpoint_id, custom_id, intake_id, line, state, submission_id, attempt, failures, trouble,
        due_at, unfinished_at, ended_at)
    SELECT 1, 1, 'night-' || i, 1, i, state, CASE WHEN state <> 'queued' THEN i END, 1, (state = 'failed')::int,
        CASE WHEN state = 'failed' THEN CASE WHEN i % 1000 = 0 THEN 'timed_out' ELSE 'failed' END END,
        CASE WHEN state = 'queued' THEN 0 ELSE i END, CASE WHEN state = 'outstanding' THEN 1000000::bigint * i END,
        CASE WHEN state IN ('succeeded', 'failed') THEN 1000000::bigint * i END
    FROM (SELECT i, CASE WHEN i > {jobs} / 2 THEN 'queued' WHEN i > {jobs} / 2 - 10000 THEN 'outstanding'
        WHEN i % 100 = 0 THEN 'failed' ELSE 'succeeded' END AS state FROM generate_series(1, {jobs}) AS i) AS job;
INSERT INTO payloads (job_id, input, packed, digest)
    SELECT i, '{{"prompt":"a horse"}}', 0, '0123456789abcdef' FROM generate_series(1, {jobs}) AS i;
INSERT INTO outcomes (job_id, submission_id, status, output, trouble, message, error_key)
    SELECT id, id, 'COMPLETED', CASE WHEN trouble IS NULL THEN '{{"text":"done"}}'::bytea END, trouble,
        CASE WHEN trouble IS NOT NULL THEN 'CUDA out of memory' END, CASE WHEN trouble IS NOT NULL THEN 7 END
    FROM jobs WHERE ended_at IS NOT NULL;
INSERT INTO counts SELECT run_id, state, count(*) FROM jobs GROUP BY 1, 2;
"""
"""A run half of whose jobs have ended, every hundredth by a failure, and of which some are at the service."""

Look = Callable[[Ledger], Awaitable[object]]


def _page(where: str) -> Look:
    chosen = parse(where, now=0)
    return lambda ledger: ledger.reports.job_queries.page(RUN, chosen, most=PAGE)


def _looks(jobs: int) -> dict[str, Look]:
    """What is looked for, by its name in the figures."""
    return {
        "page of failures": _page("state=failed"),
        "page of one class": _page("class=timed_out"),
        "page of one kind": _page("cluster=000000000007"),
        "job by its id": _page(f"id=night-{jobs // 3}"),
        "place of a job": lambda ledger: ledger.jobs.place(RUN, f"night-{jobs // 2}"),
        "page of jobs at the service": lambda ledger: ledger.jobs.in_state(
            State.OUTSTANDING, after=(jobs // 2 - 5_000, 0), most=PAGE
        ),
        "next queued job's time": lambda ledger: ledger.jobs.next_queued_at(
            RUN, endpoint=ENDPOINT, by_retry=False, now=1
        ),
    }


def large_on_server(jobs: int = JOBS, taken_in: int = TAKEN_IN) -> list[Figure]:
    """One intake, and looks into a ledger of so many `jobs`."""
    with TemporaryDirectory() as name, server_url(Path(name), is_durable=True) as url:
        databases = Databases(url)
        with databases.empty() as database:
            pace = anyio.run(_taken_in, database, Path(name), taken_in)
        with databases.empty() as database:
            took_ms = anyio.run(_looked_at, database, jobs)
        databases.close()
    return [
        Figure(benchmark="large-server", name="intake", value=pace, unit="rows/s", at_least=ROWS_MIN),
        *(
            Figure(benchmark="large-server", name=f"{what}, of {jobs:,}", value=ms, unit="ms", at_most=MS_MAX)
            for what, ms in took_ms.items()
        ),
    ]


async def _taken_in(url: str, folder: Path, rows: int) -> float:
    """Rows that are read already, until all of them count."""
    write_input(folder / "input.jsonl", rows)
    with (folder / "input.jsonl").open("rb") as file:
        packed = packed_rows(row for row in read_rows(file, environ={}) if isinstance(row, Row))
    with anyio.fail_after(SECONDS_MAX):
        async with (
            open_ledger(parse_ledger_url(url), clock=SystemClock()) as ledger,
            anyio.create_task_group() as tasks,
        ):
            await tasks.start(ledger.writer.serve)
            run = await ledger.runs.create(
                name="night", service_url="http://127.0.0.1", endpoint="ep", source="-", settings=RunSettings()
            )
            intake = await ledger.runs.intakes.start(run)
            started = time.perf_counter()
            for start in range(0, rows, AT_ONCE):
                await ledger.runs.intakes.add(intake, packed[start : start + AT_ONCE])
            await ledger.runs.intakes.accept(intake)
            pace = rows / (time.perf_counter() - started)
            tasks.cancel_scope.cancel()
    return pace


async def _looked_at(url: str, jobs: int) -> dict[str, float]:
    address = parse_ledger_url(url)
    with anyio.fail_after(SECONDS_MAX):
        async with open_ledger(address, clock=SystemClock()) as ledger, anyio.create_task_group() as tasks:
            await tasks.start(ledger.writer.serve)
            await _fill(url, jobs)
            site = site_of(address)
            found = {what: await _median_ms(partial(look, ledger)) for what, look in _looks(jobs).items()}
            found[f"the next {CLAIMED}"] = await _median_ms(partial(_next, site))
            for _ in range(WORKED_OFF // AT_ONCE):
                await ledger.jobs.claims.take(LINE, most=AT_ONCE)
            found[f"the next {CLAIMED} behind {WORKED_OFF:,}"] = await _median_ms(partial(_next, site))
            await site.aclose()
            tasks.cancel_scope.cancel()
    return found


async def _fill(url: str, jobs: int) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(_FILL.format(jobs=jobs), timeout=SECONDS_MAX)
    await connection.execute(
        "VACUUM ANALYZE", timeout=SECONDS_MAX
    )  # as the server has done by the time that there are so many
    await connection.close()


async def _next(site: LedgerSite) -> None:
    """Finds what a claim would take, with its inputs."""
    async with site.database.reading() as view:
        walk = await queue_walk(view, LINE, now=SystemClock().now(), most=CLAIMED, bytes_max=MIB)
    assert len(walk.found) == CLAIMED


async def _median_ms(look: Callable[[], Awaitable[object]]) -> float:
    took = []
    for _ in range(TIMES):
        started = time.perf_counter()
        await look()
        took.append(time.perf_counter() - started)
    return 1_000 * quantile(took, 0.5)
