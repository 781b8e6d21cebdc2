"""Looking into a large ledger: lists, counts and the kinds of failures, in process and by whole commands; how soon
results are there of a run that goes on beside a million jobs; and the status of 10,000 old runs.
"""

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio

from orchestrator.clock import SystemClock
from orchestrator.core.filters.filter_parser import cluster_name, parse
from orchestrator.core.text.error_text import error_key
from orchestrator.ledger import read_ledger
from orchestrator.ledger.migrations import migrate
from orchestrator.ledger.reports.job_queries import JobQueries
from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import clean_environment, orchestrator, stand_in
from tests.benchmarks.stand_in import Behaviour

JOBS: Final = 1_000_000
LISTED: Final = 100
TIMES: Final = 3
MS_MAX: Final = 200.0
COMMAND_S_MAX: Final = 1.0
RESULT_S_MAX: Final = 1.0
RESULTS: Final = 500
RUNS: Final = 10_000
STATUS_S_MAX: Final = 0.5
SECONDS_MAX: Final = 120.0

TENTHS: Final = {0: ("failed", "CUDA out of memory"), 5: ("timed_out", "job timed out")}
"""The class and the message of the jobs whose number ends in this digit; all others have succeeded."""

_FILL: Final = """
INSERT INTO endpoints (id, service_url, endpoint) VALUES (1, 'https://api.example/v2', 'abc');
INSERT INTO runs (id, name, endpoint_id, source, settings, created_at, intake_accepted)
    VALUES (1, 'night', 1, '-', '{}', 1, 1);
INSERT INTO intakes (id, run_id, started_at, accepted_at, first_job) VALUES (1, 1, 1, 1, 1);
CREATE TEMP TABLE n (i INTEGER PRIMARY KEY);
WITH RECURSIVE up(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM up WHERE i < :jobs) INSERT INTO n SELECT i FROM up;
INSERT INTO jobs (id, run_id, endpoint_id, custom_id, intake_id, line, state, submission_id, attempt, trouble, ended_at)
    SELECT i, 1, 1, 'night-' || i, 1, i, iif(i % 5, 'succeeded', 'failed'), i, 1,
    iif(i % 5, NULL, iif(i % 10, 'timed_out', 'failed')), 1000000 * i FROM n;
INSERT INTO outcomes (job_id, submission_id, remote_id, status, output, trouble)
    SELECT id, id, 'sync-' || id, 'COMPLETED', iif(trouble IS NULL, hex(zeroblob(100)), NULL), trouble FROM jobs
"""
_FAIL: Final = """
UPDATE outcomes SET message = :message, error_key = :key WHERE trouble = :trouble;
INSERT INTO clusters SELECT 1, :key, count(*), 1, 2 FROM outcomes WHERE error_key = :key
"""


_OLD_RUNS: Final = """
INSERT INTO endpoints (id, service_url, endpoint) VALUES (1, 'https://api.example/v2', 'abc');
CREATE TEMP TABLE n (i INTEGER PRIMARY KEY);
WITH RECURSIVE up(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM up WHERE i < :runs) INSERT INTO n SELECT i FROM up;
INSERT INTO runs (id, name, endpoint_id, source, settings, created_at, intake_accepted)
    SELECT i, 'night-' || i, 1, '-', '{}', i, 1 FROM n;
INSERT INTO counts (run_id, name, n) SELECT i, value, iif(value IN ('succeeded', 'failed'), 40, 0)
    FROM n, json_each('["queued", "submitting", "outstanding", "succeeded", "failed", "failed_executions"]');
INSERT INTO margins (run_id, step, n, least_us) SELECT i, 17000, 40, 1700000000 FROM n
"""
_FOLLOW: Final = """
import asyncio, json, sys, time
from orchestrator import Orchestrator

async def main(url, jobs):
    async with Orchestrator("ledger.db", serverless_url=url, api_key="any", limits={"run": "1000000/10"}) as orc:
        run = await orc.submit(({"n": n} for n in range(jobs)), endpoint="ep", name="followed")
        late = [time.time() - result.ended_at.timestamp() async for result in run.results()]
        print(json.dumps([len(late), max(late)]))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def selection(
    jobs: int = JOBS, *, results: int = RESULTS, runs: int = RUNS, times: int = TIMES, only: str = ""
) -> list[Figure]:
    """The slowest list of a page, count, and table of clusters; whole commands, those with `only` in their names; the
    latest of `results` results.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "ledger.db"
        _fill(path, jobs)
        took_ms = anyio.run(_measured, path)
        took_s = {what: _command_s(words, folder, times) for what, words in _commands().items() if only in what}
        late_s = _followed_s(folder, results)
    many = f"{jobs:,} jobs"
    return [
        *(_figure(f"{many}: {what}", ms, "ms", MS_MAX) for what, ms in took_ms.items()),
        *(_figure(f"{many}: {what}", s, "s", COMMAND_S_MAX) for what, s in took_s.items()),
        _figure(f"{many}: a result beside them, latest", late_s, "s", RESULT_S_MAX),
        *_old_runs(runs, times),
    ]


def _figure(name: str, value: float, unit: str, at_most: float) -> Figure:
    return Figure(benchmark="selection", name=name, value=value, unit=unit, at_most=at_most)


def _commands() -> dict[str, list[str]]:
    """Whole commands by their names; filters take the longest where few jobs meet them."""
    listed = ["jobs", "list", "night", "--where"]
    return {
        "status": ["status"],
        "failures": ["failures", "night"],
        "jobs list by state": [*listed, "state=cancelled"],
        "jobs list by class": [*listed, "class=lost"],
        "jobs list by cluster": [*listed, f"cluster={cluster_name(error_key(*TENTHS[5]))}"],
    }


def _command_s(words: list[str], folder: Path, times: int) -> float:
    """The shortest of a few times, from the start of the process to its end."""
    took = []
    for _ in range(times):
        ended = orchestrator([*words, "--ledger", "ledger.db"], folder=folder, seconds_max=SECONDS_MAX)
        assert ended.exit_code == 0, ended.stderr
        took.append(ended.wall_s)
    return min(took)


def _followed_s(folder: Path, results: int) -> float:
    """By how much the latest result came after its job had ended, to a program that follows."""
    with stand_in(Behaviour()) as service:
        done = subprocess.run(
            [sys.executable, "-c", _FOLLOW, service.url, str(results)],
            cwd=folder, env=clean_environment(), capture_output=True, timeout=SECONDS_MAX, check=True,
        )  # fmt: skip
    found, late_s = json.loads(done.stdout)
    assert found == results
    return float(late_s)


def _old_runs(runs: int, times: int) -> list[Figure]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        migrate(folder / "ledger.db")
        with closing(sqlite3.connect(folder / "ledger.db")) as connection, connection:
            for statement in _OLD_RUNS.split(";"):
                connection.execute(statement, {"runs": runs} if ":runs" in statement else {})
        status_s = _command_s(["status"], folder, times)
        every_s = _command_s(["status", "--json"], folder, times)
    return [
        _figure(f"{runs:,} old runs: status", status_s, "s", STATUS_S_MAX),
        _figure(f"{runs:,} old runs: status --json, all of them", every_s, "s", COMMAND_S_MAX),
    ]


def _fill(path: Path, jobs: int) -> None:
    migrate(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        for statement in _FILL.split(";"):
            connection.execute(statement, {"jobs": jobs})
        for trouble, message in TENTHS.values():
            values = {"trouble": trouble, "message": message, "key": error_key(trouble, message)}
            for statement in _FAIL.split(";"):
                connection.execute(statement, values)


async def _measured(path: Path) -> dict[str, float]:
    cluster = cluster_name(error_key(*TENTHS[5]))
    texts = ("", "state=failed", "state=cancelled", "class=timed_out", "class=lost", f"cluster={cluster}", "attempts>2")
    async with read_ledger(path, clock=SystemClock()) as ledger:
        chosen = ledger.reports.job_queries
        lists = [await _took_ms(partial(_listed, chosen, text)) for text in texts]
        counts = [await _took_ms(partial(chosen.count, 1, parse(text, now=0))) for text in texts]
        clusters = await _took_ms(partial(chosen.clusters, 1, most=20))
    return {"slowest list": max(lists), "slowest count": max(counts), "clusters": clusters}


async def _listed(chosen: JobQueries, text: str) -> None:
    found, after, is_last = 0, 0, False
    while found < LISTED and not is_last:
        page = await chosen.page(1, parse(text, now=0), after=after, most=LISTED - found)
        found, after, is_last = found + len(page.jobs), page.after, page.is_last


async def _took_ms(work: Callable[[], Awaitable[object]]) -> float:
    """The shortest of a few times: what others do on this machine meanwhile is not meant."""
    took = []
    for _ in range(TIMES):
        started = time.perf_counter()
        await work()
        took.append(time.perf_counter() - started)
    return min(took) * 1_000
