"""What a dashboard costs the engine beside it, with six tabs that are looked at, or with none.

Two runs of the same engine differ by more than what is promised of a dashboard that nobody looks at. So that is made up
of what it consists of: it commits and writes nothing, so the engine is told of nothing, and what is left is the sampling,
which is always done. Pairs of runs are measured all the same.
"""

import http.client
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

from orchestrator.ledger.migrations import migrate
from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import clean_environment, orchestrator, stand_in
from tests.benchmarks.sampling import sampling_cost
from tests.benchmarks.stand_in import Behaviour
from tests.dashboard.browser.site import Site, dashboard_process
from tests.dashboard.showcase import LEDGER

TABS: Final = 6
TAB_S: Final = 2.0
"""How often each asks."""

ENGINE_JOBS: Final = 20_000
PAIRS: Final = 5
LOOKED_AT_MAX: Final = 2.0
UNSEEN_MAX: Final = 1.0
CORE_PERCENT_MAX: Final = 10.0
UNSEEN_S: Final = 30.0
UNSEEN_JOBS: Final = 1_000
SECONDS_MAX: Final = 300.0
UNLIMITED: Final = ("--limit", "run=1000000/10:1000", "--limit", "status=1000000/10:1000")


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


def _cpu_s(site: Site) -> float:
    """What the process has used of processors so far, but for what it had used to start."""
    fields = Path(f"/proc/{site.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def dashboard_figure(name: str, value: float, unit: str, at_most: float | None = None) -> Figure:
    """One of these figures."""
    return Figure(benchmark="dashboard", name=name, value=value, unit=unit, at_most=at_most)


def beside_an_engine(jobs: int = ENGINE_JOBS, pairs: int = PAIRS) -> list[Figure]:
    """Of the same run alone, beside a dashboard that nobody looks at, and beside one with six tabs; and of what the
    second consists.
    """
    return [*_unseen(), *_by_pairs(jobs, pairs)]


# --- what nobody looks at


def _unseen() -> list[Figure]:
    sampling, (commits, written_bytes, core_percent) = sampling_cost(), _untouched()
    return [
        dashboard_figure("CPU of a sample of ten runs", sampling.sample_ms, "ms"),
        dashboard_figure("CPU of counting a job's steps for samples", sampling.counted_us, "µs"),
        dashboard_figure("CPU a job of an engine without samples, at the contract's limits", sampling.engine_ms, "ms"),
        dashboard_figure(
            "more of it by sampling, which is all that nobody looks at", sampling.percent, "%", UNSEEN_MAX
        ),
        dashboard_figure(f"commits of a dashboard that nobody looks at, in {UNSEEN_S:.0f} s", commits, "", 0),
        dashboard_figure(f"bytes that it writes, in {UNSEEN_S:.0f} s", written_bytes, "B", 0),
        dashboard_figure("the dashboard that nobody looks at, of one core", core_percent, "%"),
    ]


def _untouched() -> tuple[int, int, float]:
    """How often a dashboard that nobody looks at commits, how much it writes, and what share of a core it takes."""
    with TemporaryDirectory() as name, stand_in(Behaviour()) as service:
        folder = Path(name)
        _ended_ms(folder, _words(folder, service.url, UNSEEN_JOBS), UNSEEN_JOBS)
        with (
            dashboard_process(folder, clean_environment(), "--no-login") as site,
            closing(sqlite3.connect(folder / LEDGER)) as ledger,
        ):
            before = _version(ledger), _written_bytes(site), _cpu_s(site)
            threading.Event().wait(UNSEEN_S)
            after = _version(ledger), _written_bytes(site), _cpu_s(site)
    return after[0] - before[0], after[1] - before[1], 100 * (after[2] - before[2]) / UNSEEN_S


def _version(ledger: sqlite3.Connection) -> int:
    """It grows with each commit of anybody else, which is how an engine learns of them."""
    return int(ledger.execute("PRAGMA data_version").fetchone()[0])


def _written_bytes(site: Site) -> int:
    """What the process has had written to files."""
    [found] = re.findall(r"^write_bytes: (\d+)", Path(f"/proc/{site.process.pid}/io").read_text(), re.MULTILINE)
    return int(found)


# --- pairs of runs


def _by_pairs(jobs: int, pairs: int) -> list[Figure]:
    """The middle one of so many pairs, each of runs one right after another."""
    alone, unseen, tabs, shares = [], [], [], list[float]()
    for _ in range(pairs):
        alone.append(_run_ms(jobs))
        unseen.append(_run_ms(jobs, tabs=0))
        tabs.append(_run_ms(jobs, tabs=TABS, shares=shares))

    def more(found: Sequence[float]) -> float:
        return 100 * (median(one / other for one, other in zip(found, alone, strict=True)) - 1)

    return [
        dashboard_figure("CPU a job of an engine alone", median(alone), "ms"),
        dashboard_figure("these runs differ by themselves by", 100 * (max(alone) / min(alone) - 1), "%"),
        dashboard_figure("more of it beside a dashboard that nobody looks at, by pairs", more(unseen), "%"),
        dashboard_figure(f"more of it beside {TABS} tabs, by pairs", more(tabs), "%", LOOKED_AT_MAX),
        dashboard_figure(f"the dashboard with {TABS} tabs, of one core", median(shares), "%", CORE_PERCENT_MAX),
    ]


def _run_ms(jobs: int, tabs: int | None = None, shares: list[float] | None = None) -> float:
    """CPU of a job in ms; `tabs` None: there is no dashboard."""
    with TemporaryDirectory() as name, stand_in(Behaviour()) as service:
        folder = Path(name)
        words = _words(folder, service.url, jobs)
        if tabs is None:
            return _ended_ms(folder, words, jobs)
        migrate(folder / LEDGER)
        with dashboard_process(folder, clean_environment(), "--no-login") as site, _tabs(site, tabs):
            began, used = time.perf_counter(), _cpu_s(site)
            ended_ms = _ended_ms(folder, words, jobs)
            if shares is not None:
                shares.append(100 * (_cpu_s(site) - used) / (time.perf_counter() - began))
            return ended_ms


def _words(folder: Path, url: str, jobs: int) -> Sequence[str]:
    """A run of so many jobs, whose input is written."""
    rows = folder / "in.jsonl"
    rows.write_text("".join(f'{{"input": {{"n": {n}}}}}\n' for n in range(jobs)))
    return ["run", rows.name, "--endpoint", "ep", "--ledger", LEDGER, "--serverless-url", url, "--quiet"]


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
