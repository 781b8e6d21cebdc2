"""What the dashboard costs: pages, refreshes and scrapes of a ledger of a million jobs with a run of 400 days, its memory,
and what it costs the engine beside it.
"""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from tests.benchmarks.beside_dashboard import Client, beside_an_engine, dashboard_figure
from tests.benchmarks.figures import Figure, quantile
from tests.benchmarks.large_ledger import COPIED, JOBS, PIPELINES, RUNS, age, large_ledger
from tests.benchmarks.processes import clean_environment
from tests.dashboard.browser.site import Site, dashboard_process

TIMES: Final = 20
BATCHES: Final = 3_000
"""Those of the Batch API."""

PAGE_MS_MAX: Final = 200.0
PAGE_KB_MAX: Final = 100.0
REFRESH_MS_MAX: Final = 40.0
MB_MAX: Final = 120.0
SCRAPE_MS_MAX: Final = 30.0
SERIES_MAX: Final = 1_500

PATHS: Final[Mapping[str, str]] = {
    "/": "SELECT ''",
    "/runs": "SELECT ''",
    "/runs/{}": "SELECT run_id FROM counts WHERE name = 'succeeded' ORDER BY n DESC LIMIT 1",
    "/runs/{}?window=all": f"SELECT id FROM runs WHERE name = '{COPIED}'",
    "/runs/{}/failures": "SELECT run_id FROM counts WHERE name = 'failed' ORDER BY n DESC LIMIT 1",
    "/runs/{}/jobs": "SELECT run_id FROM counts WHERE name = 'succeeded' ORDER BY n DESC LIMIT 1",
    "/runs/{}/jobs?where=state%3Dfailed": "SELECT run_id FROM counts WHERE name = 'failed' ORDER BY n DESC LIMIT 1",
    "/runs/1/jobs/{}": "SELECT max(id) FROM jobs WHERE run_id = 1 AND state = 'failed'",
    "/pipelines": "SELECT ''",
    "/pipelines/{}": "SELECT min(id) FROM pipelines",
    "/flows/{}": "SELECT max(id) FROM flows",
    "/endpoints": "SELECT ''",
    "/endpoints/{}": "SELECT min(id) FROM endpoints",
    "/engine": "SELECT ''",
    "/messages": "SELECT ''",
    "/actions": "SELECT ''",
}
"""Each page by the query of its number, where it has one."""


def dashboard(
    jobs: int = JOBS, *, runs: int = RUNS, pipelines: int = PIPELINES, times: int = TIMES, beside: bool = True
) -> list[Figure]:
    """All of it, in some minutes; `beside` is what it costs the engine."""
    with TemporaryDirectory() as name:
        ledger = large_ledger(Path(name), jobs, runs, pipelines)
        age(ledger)
        _post(ledger)
        with dashboard_process(Path(name), clean_environment(), "--no-login") as site:
            looked = _looked_at(site, ledger, times)
    return [*looked, *(beside_an_engine() if beside else [])]


def _post(path: Path) -> None:
    """Has it batches that programs have posted, and their files: as many as a busy month leaves."""
    number = "WITH RECURSIVE n(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM n WHERE number < ?)"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO posted_storage VALUES (1, 20000000000)")
        connection.execute(
            f"{number} INSERT INTO posted_files (id, owner, filename, purpose, size, created_at, expires_at)"
            " SELECT 'file-' || number, 'team-' || number % 9, 'in.jsonl', 'batch', 1000000, number, number FROM n",
            (2 * BATCHES,),
        )
        connection.execute(
            f"{number} INSERT INTO posted_batches (id, owner, endpoint, completion_window, input_file, state, is_late,"
            " total, completed, failed, created_at, expires_at, completed_at) SELECT 'batch_' || number,"
            " 'team-' || number % 9, '/v1/chat/completions', '24h', 'file-' || number, iif(number % 50, 'completed',"
            " 'in_progress'), 0, 1000, 0, 0, number, number, number FROM n",
            (BATCHES,),
        )


# --- pages


def _looked_at(site: Site, ledger: Path, times: int) -> list[Figure]:
    with closing(Client(site)) as client:
        pages = [_page(client, path, times) for path in _paths(ledger)]
        scraped = [client.get("/metrics") for _ in range(times)]
    slowest, largest = max(pages, key=lambda page: page.page_ms), max(pages, key=lambda page: page.kb)
    refreshed = max((page for page in pages if page.refresh_ms is not None), key=lambda page: page.refresh_ms or 0)
    text = scraped[-1][2].decode()
    series = sum(1 for line in text.splitlines() if line and not line.startswith("#"))
    return [
        dashboard_figure("slowest page, p95", slowest.page_ms, "ms", PAGE_MS_MAX),
        dashboard_figure("largest page", largest.kb, "KB", PAGE_KB_MAX),
        dashboard_figure("slowest refresh, p95", refreshed.refresh_ms or 0, "ms", REFRESH_MS_MAX),
        *(dashboard_figure(f"{page.path}: p95", page.page_ms, "ms") for page in pages),
        *(dashboard_figure(f"{page.path}: size", page.kb, "KB") for page in pages),
        *(
            dashboard_figure(f"{page.path}: refresh, p95", page.refresh_ms, "ms")
            for page in pages
            if page.refresh_ms is not None
        ),
        dashboard_figure("scrape, p95", quantile([took for took, *_ in scraped], 0.95), "ms", SCRAPE_MS_MAX),
        dashboard_figure("series of a scrape", series, "", SERIES_MAX),
        dashboard_figure("most memory", _peak_mb(site), "MB", MB_MAX),
    ]


class _Page(msgspec.Struct, frozen=True):
    path: str
    page_ms: float
    kb: float
    refresh_ms: float | None
    """None: nothing of it is refreshed."""


def _paths(ledger: Path) -> Iterator[str]:
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as connection:
        for path, query in PATHS.items():
            yield path.format(*connection.execute(query).fetchone())


def _page(client: Client, path: str, times: int) -> _Page:
    """A page, computed anew each time: its address is another one each time, in what it does not read."""
    _, status, body, _ = client.get(path)
    assert status == 200, f"{path}: {status}\n{body.decode()[:2_000]}"
    live = sorted(set(re.findall(rb'<section[^>]* data-live="([a-z_]+)"', body)))
    mark = "&" if "?" in path else "?"
    took = [client.get(f"{path}{mark}measured={n}")[0] for n in range(times)]
    refreshes = []
    if live:
        names = b",".join(live).decode()
        refreshes = [client.get(f"{path}{mark}live={names}&measured=r{n}")[0] for n in range(times)]
    return _Page(path, quantile(took, 0.95), len(body) / 1_000, quantile(refreshes, 0.95) if refreshes else None)


def _peak_mb(site: Site) -> float:
    """The most memory that the process has had so far."""
    status = Path(f"/proc/{site.process.pid}/status").read_text()
    [kb] = re.findall(r"VmHWM:\s*(\d+) kB", status)
    return int(kb) * 1024 / 1e6
