"""What the dashboard costs: pages, refreshes and scrapes of a ledger of a million jobs, its memory, and what six tabs that
are looked at, or none, cost the engine beside it.
"""

import http.client
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

import msgspec

from orchestrator.ledger.migrations import migrate
from tests.benchmarks.figures import Figure, quantile
from tests.benchmarks.large_ledger import JOBS, PIPELINES, RUNS, large_ledger
from tests.benchmarks.processes import clean_environment, orchestrator, stand_in
from tests.benchmarks.stand_in import Behaviour
from tests.dashboard.browser.site import Site, dashboard_process
from tests.dashboard.showcase import LEDGER

TIMES: Final = 20
PAGE_MS_MAX: Final = 200.0
PAGE_KB_MAX: Final = 100.0
REFRESH_MS_MAX: Final = 40.0
MB_MAX: Final = 120.0
SCRAPE_MS_MAX: Final = 30.0
SERIES_MAX: Final = 1_500

TABS: Final = 6
TAB_S: Final = 2.0
"""How often each asks."""

ENGINE_JOBS: Final = 10_000
PAIRS: Final = 3
LOOKED_AT_MAX: Final = 2.0
UNSEEN_MAX: Final = 1.0
CORE_PERCENT_MAX: Final = 10.0
SECONDS_MAX: Final = 300.0
UNLIMITED: Final = ("--limit", "run=1000000/10:1000", "--limit", "status=1000000/10:1000")

PATHS: Final[Mapping[str, str]] = {
    "/": "SELECT ''",
    "/runs": "SELECT ''",
    "/runs/{}": "SELECT run_id FROM counts WHERE name = 'succeeded' ORDER BY n DESC LIMIT 1",
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
        with dashboard_process(Path(name), clean_environment(), "--no-login") as site:
            looked = _looked_at(site, ledger, times)
    return [*looked, *(_beside_an_engine() if beside else [])]


def _figure(name: str, value: float, unit: str, at_most: float | None = None) -> Figure:
    return Figure(benchmark="dashboard", name=name, value=value, unit=unit, at_most=at_most)


# --- pages


class Client:
    """One connection to a dashboard."""

    def __init__(self, site: Site) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(site.origin).netloc, timeout=SECONDS_MAX)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def get(self, path: str, **headers: str) -> tuple[float, int, bytes, Mapping[str, str]]:
        """Milliseconds until all of the answer was there, its status, its body and its headers by small letters."""
        began = time.perf_counter()
        self._connection.request("GET", path, headers={"Accept": "text/html", **headers})
        answer = self._connection.getresponse()
        body = answer.read()
        took_ms = (time.perf_counter() - began) * 1_000
        return took_ms, answer.status, body, {name.lower(): value for name, value in answer.getheaders()}


def _looked_at(site: Site, ledger: Path, times: int) -> list[Figure]:
    with closing(Client(site)) as client:
        pages = [_page(client, path, times) for path in _paths(ledger)]
        scraped = [client.get("/metrics") for _ in range(times)]
    slowest, largest = max(pages, key=lambda page: page.page_ms), max(pages, key=lambda page: page.kb)
    refreshed = max((page for page in pages if page.refresh_ms is not None), key=lambda page: page.refresh_ms or 0)
    text = scraped[-1][2].decode()
    series = sum(1 for line in text.splitlines() if line and not line.startswith("#"))
    return [
        _figure("slowest page, p95", slowest.page_ms, "ms", PAGE_MS_MAX),
        _figure("largest page", largest.kb, "KB", PAGE_KB_MAX),
        _figure("slowest refresh, p95", refreshed.refresh_ms or 0, "ms", REFRESH_MS_MAX),
        *(_figure(f"{page.path}: p95", page.page_ms, "ms") for page in pages),
        *(_figure(f"{page.path}: size", page.kb, "KB") for page in pages),
        *(
            _figure(f"{page.path}: refresh, p95", page.refresh_ms, "ms")
            for page in pages
            if page.refresh_ms is not None
        ),
        _figure("scrape, p95", quantile([took for took, *_ in scraped], 0.95), "ms", SCRAPE_MS_MAX),
        _figure("series of a scrape", series, "", SERIES_MAX),
        _figure("most memory", _peak_mb(site), "MB", MB_MAX),
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


def _cpu_s(site: Site) -> float:
    """What the process has used of processors so far, but for what it had used to start."""
    fields = Path(f"/proc/{site.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


# --- beside an engine


def _beside_an_engine(jobs: int = ENGINE_JOBS, pairs: int = PAIRS) -> list[Figure]:
    """Runs alone, beside a dashboard that nobody looks at, and beside one with six tabs: in turn, the least of each."""
    costs: dict[str, list[float]] = {"alone": [], "unseen": [], "tabs": []}
    shares: list[float] = []
    for _ in range(pairs):
        costs["alone"].append(_run_ms(jobs))
        costs["unseen"].append(_run_ms(jobs, tabs=0))
        costs["tabs"].append(_run_ms(jobs, tabs=TABS, shares=shares))
    alone, unseen, tabs = (min(costs[name]) for name in ("alone", "unseen", "tabs"))
    return [
        _figure("CPU a job of an engine alone", alone, "ms"),
        _figure("more of it beside a dashboard that nobody looks at", 100 * (unseen / alone - 1), "%", UNSEEN_MAX),
        _figure(f"more of it beside {TABS} tabs", 100 * (tabs / alone - 1), "%", LOOKED_AT_MAX),
        _figure(f"the dashboard with {TABS} tabs, of one core", min(shares), "%", CORE_PERCENT_MAX),
    ]


def _run_ms(jobs: int, tabs: int | None = None, shares: list[float] | None = None) -> float:
    """CPU of a job in ms; `tabs` None: there is no dashboard."""
    with TemporaryDirectory() as name, stand_in(Behaviour()) as service:
        folder = Path(name)
        rows = folder / "in.jsonl"
        rows.write_text("".join(f'{{"input": {{"n": {n}}}}}\n' for n in range(jobs)))
        words = ["run", rows.name, "--endpoint", "ep", "--ledger", LEDGER, "--serverless-url", service.url, "--quiet"]
        if tabs is None:
            return _ended_ms(folder, words, jobs)
        migrate(folder / LEDGER)
        with dashboard_process(folder, clean_environment(), "--no-login") as site, _tabs(site, tabs):
            began, used = time.perf_counter(), _cpu_s(site)
            ended_ms = _ended_ms(folder, words, jobs)
            if shares is not None:
                shares.append(100 * (_cpu_s(site) - used) / (time.perf_counter() - began))
            return ended_ms


def _ended_ms(folder: Path, words: Sequence[str], jobs: int) -> float:
    ended = orchestrator([*words, *UNLIMITED], folder=folder, seconds_max=SECONDS_MAX)
    assert ended.exit_code == 0, ended.stderr
    return 1_000 * ended.cpu_s / jobs


@contextmanager
def _tabs(site: Site, tabs: int) -> Iterator[None]:
    """So many tabs of the first page and of the run, each of which asks as the page's script does."""
    over = threading.Event()
    threads = [threading.Thread(target=_tab, args=(site, over, "/" if n % 2 else "/runs/1")) for n in range(tabs)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _tab(site: Site, over: threading.Event, path: str) -> None:
    live, tag = b"", ""
    with closing(Client(site)) as client:
        while not over.wait(TAB_S):
            if not live:
                _, status, body, _ = client.get(path)
                found = re.findall(rb'<section[^>]* data-live="([a-z_]+)"', body) if status == 200 else []
                live = b",".join(sorted(set(found)))
            else:
                _, _, _, headers = client.get(f"{path}?live={live.decode()}", **({"If-None-Match": tag} if tag else {}))
                tag = headers.get("etag", "")
