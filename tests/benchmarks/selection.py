"""Choosing among the jobs of a large ledger: lists, counts and the kinds of failures, in process."""

import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio

from orchestrator.clock import SystemClock
from orchestrator.core.error_messages import error_key
from orchestrator.core.filter_text import cluster_name, parse
from orchestrator.ledger import read_ledger
from orchestrator.ledger.selection import Selection
from orchestrator.ledger.sqlite.migrations import migrate
from tests.benchmarks.figures import Figure

JOBS: Final = 1_000_000
LISTED: Final = 100
TIMES: Final = 3
MS_MAX: Final = 200.0

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


def selection(jobs: int = JOBS) -> list[Figure]:
    """The slowest list of a page, count, and table of clusters."""
    with TemporaryDirectory() as name:
        path = Path(name) / "ledger.db"
        _fill(path, jobs)
        took_ms = anyio.run(_measured, path)
    return [
        Figure(benchmark="selection", name=f"{jobs:,} jobs: {what}", value=ms, unit="ms", at_most=MS_MAX)
        for what, ms in took_ms.items()
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
        chosen = ledger.selection
        lists = [await _took_ms(partial(_listed, chosen, text)) for text in texts]
        counts = [await _took_ms(partial(chosen.count, 1, parse(text, now=0))) for text in texts]
        clusters = await _took_ms(partial(chosen.clusters, 1, most=20))
    return {"slowest list": max(lists), "slowest count": max(counts), "clusters": clusters}


async def _listed(chosen: Selection, text: str) -> None:
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
