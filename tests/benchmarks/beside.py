"""Rows taken in beside an engine at full speed: how long others wait for the write lock, and what it costs its run.

The lock is looked at from outside, by its byte in SQLite's shared memory (sqlite.org, "WAL-mode File Format"): the
system says who holds it, and whoever looks is in nobody's way.
"""

import fcntl
import os
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio

from orchestrator.api.outcomes.row_input import row_batches
from orchestrator.clock import SystemClock
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Operation
from orchestrator.engine.intake.intake import Intake, turn_to_take_in
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.formats.input.readers import ReadOptions
from orchestrator.ledger import command_ledger
from orchestrator.settings.run_settings import RunSettings
from tests.benchmarks.figures import Figure, quantile
from tests.benchmarks.processes import ROOT, running, stand_in
from tests.benchmarks.runs import run_flags, write_input
from tests.benchmarks.stand_in import Behaviour

ROWS: Final = 200_000
JOBS: Final = 20_000
"""More than are sent meanwhile."""

HOLD_MS_MAX: Final = 50.0
USE_PERCENT_MIN: Final = 97.0

SECONDS_MAX: Final = 300.0
WARM_UP_JOBS: Final = 200
LOOK_EVERY_S: Final = 0.001

_WRITE_LOCK: Final = 120
"""The byte of the `-shm` file that whoever writes locks."""

_FLOCK: Final = struct.Struct("@hhqqi")
"""`struct flock` of 64-bit Linux: type, whence, start, length, process."""


def beside(rows: int = ROWS) -> list[Figure]:
    """One process sends as fast as the contract allows, another one takes `rows` in."""
    run, status = CONTRACT_LIMITS[Operation.RUN], CONTRACT_LIMITS[Operation.STATUS]
    behaviour = Behaviour(answer_ms=(5.0, 20.0), limits=(run.requests, status.requests, run.window_s))
    with TemporaryDirectory() as name, stand_in(behaviour) as service:
        folder = Path(name)
        ledger = folder / "ledger.db"
        write_input(folder / "input.jsonl", JOBS)
        write_input(folder / "more.jsonl", rows)
        with running(["run", "input.jsonl", *run_flags(service.url)], folder=folder):
            _until_sent(ledger, WARM_UP_JOBS)
            began_at, started = _now_us(), time.perf_counter()
            with subprocess.Popen([sys.executable, "-m", __name__, str(ledger), service.url], cwd=ROOT) as taker:
                holds_s = _holds_of(taker, ledger.with_name("ledger.db-shm"))
            wall_s, ended_at = time.perf_counter() - started, _now_us()
        assert taker.returncode == 0
        sent = _sent_between(ledger, began_at, ended_at)
    used = 100 * sent / (ended_at - began_at) * 1e6 / (run.requests / run.window_s)
    name = f"{rows:,} rows"
    return [
        Figure(benchmark="beside", name=f"{name}: taken in", value=rows / wall_s, unit="rows/s"),
        Figure(benchmark="beside", name="write lock held, median", value=1000 * quantile(holds_s, 0.5), unit="ms"),
        Figure(
            benchmark="beside",
            name="write lock held, longest",
            value=1000 * max(holds_s),
            unit="ms",
            at_most=HOLD_MS_MAX,
        ),
        Figure(
            benchmark="beside",
            name="use of 1000 /run in 10 s by the other run meanwhile",
            value=used,
            unit="%",
            at_least=USE_PERCENT_MIN,
        ),
    ]


def _now_us() -> int:
    return time.time_ns() // 1_000  # noqa: TID251  the ledger's clock is the system's


def _until_sent(ledger: Path, jobs: int) -> None:
    until = time.perf_counter() + SECONDS_MAX
    while time.perf_counter() < until:
        if ledger.exists():
            with closing(sqlite3.connect(ledger)) as connection:
                try:
                    [(sent,)] = connection.execute("SELECT count(*) FROM submissions WHERE answered_at IS NOT NULL")
                except sqlite3.OperationalError:  # no table yet
                    sent = 0
            if sent >= jobs:
                return
        time.sleep(0.1)
    raise TimeoutError


def _sent_between(ledger: Path, begin: int, end: int) -> int:
    with closing(sqlite3.connect(ledger)) as connection:
        [(sent,)] = connection.execute("SELECT count(*) FROM submissions WHERE sent_at BETWEEN ? AND ?", (begin, end))
    return int(sent)


def _holds_of(process: "subprocess.Popen[bytes]", shared: Path) -> Sequence[float]:
    """For how many seconds `process` held the write lock, each time, until its end."""
    watchdog = threading.Timer(SECONDS_MAX, process.kill)
    watchdog.start()
    holds: list[float] = []
    since: float | None = None
    try:
        with shared.open("rb") as file:
            while process.poll() is None:
                now = time.perf_counter()
                if _holder(file.fileno()) != process.pid:
                    since = None
                elif since is None:
                    since = now
                    holds.append(LOOK_EVERY_S)
                else:
                    holds[-1] = now - since
                time.sleep(LOOK_EVERY_S)
    finally:
        watchdog.cancel()
    return holds


def _holder(descriptor: int) -> int:
    """The process that writes; 0 where none does."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _WRITE_LOCK, 1, 0)
    kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return 0 if kind == fcntl.F_UNLCK else process


async def _take_in(ledger: Path, url: str) -> None:
    """Takes the rows in for a run of its own, as a second `orchestrator run` does."""
    source = str(ledger.with_name("more.jsonl"))
    batches = row_batches(source, ReadOptions())
    hold = Dependencies().holding_intakes(ledger)
    async with (
        command_ledger(ledger, clock=SystemClock()) as opened,
        turn_to_take_in(opened, "more", hold=hold, say=print, stop=anyio.Event()),
    ):
        run = await opened.runs.create(
            name="more", service_url=url, endpoint="benchmark", source=source, settings=RunSettings()
        )
        await Intake(opened, run, source=source).take(batches, advice=lambda: "")


if __name__ == "__main__":
    anyio.run(partial(_take_in, Path(sys.argv[1]), sys.argv[2]), backend_options={"use_uvloop": True})
