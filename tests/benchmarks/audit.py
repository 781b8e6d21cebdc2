"""`orchestrator verify` at a million finished jobs: how long it takes, in how much memory, and who has to wait for it.

Meanwhile another process commits to the same ledger, as a run at work does, and tells how long it had to wait.
"""

import sqlite3
import threading
import time
import zlib
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.benchmarks.commands import INTAKE_S_MAX, STOPPED_EXIT_CODE
from tests.benchmarks.figures import Figure, quantile
from tests.benchmarks.processes import orchestrator, stand_in
from tests.benchmarks.runs import run_flags, write_input
from tests.benchmarks.stand_in import Behaviour

JOBS: Final = 1_000_000
SECONDS_MAX: Final = 900.0
PEAK_MB_MAX: Final = 250.0
WAIT_MS_MAX: Final = 2_000.0
"""Far below the time that a writer waits for others (10 s)."""

COMMIT_EVERY_S: Final = 0.05

_OUTPUT: Final = b'{"text":"a few words about the picture, as a model would write them"}'
_FINISH: Final = """
INSERT INTO submissions (id, job_id, attempt, remote_id, sent_at, ttl_at, answered_at, ended_at, ended)
    SELECT :now + id, id, 1, 'job-' || id, :now, :now + 86400000000, :now, :now + 2, 'succeeded' FROM jobs;
UPDATE jobs SET state = 'succeeded', submission_id = :now + id, attempt = 1, unfinished_at = :now, ended_at = :now + 2;
INSERT INTO outcomes (job_id, submission_id, remote_id, status, output, delay_ms, execution_ms, margin_us, checksum)
    SELECT id, :now + id, 'job-' || id, 'COMPLETED', :output, 10, 1000, 1700000000, checksum(id, :output) FROM jobs;
INSERT INTO events (job_id, at, event, submission_id, attempt, reason)
    SELECT id, :now, 'claimed', :now + id, 1, 'run' FROM jobs;
INSERT INTO events (job_id, at, event, submission_id, attempt, reason)
    SELECT id, :now + 1, 'accepted', :now + id, 1, 'run' FROM jobs;
INSERT INTO events (job_id, at, event, submission_id, attempt, reason)
    SELECT id, :now + 2, 'completed', :now + id, 1, 'status' FROM jobs;
UPDATE counts SET name = 'succeeded' WHERE name = 'queued';
"""


def verify(jobs: int = JOBS) -> list[Figure]:
    """A whole audit with the process beside it, and its exit code is 0."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        finished_ledger(folder, jobs)
        beside = _Beside(folder / "ledger.db")
        beside.start()
        ended = orchestrator(["verify", "--ledger", "ledger.db"], folder=folder, seconds_max=SECONDS_MAX)
        waits_ms = beside.stop()
        assert ended.exit_code == 0, ended.stdout.decode() + ended.stderr
    return [
        Figure(benchmark="verify", name=f"{jobs:,} jobs: time", value=ended.wall_s, unit="s"),
        Figure(
            benchmark="verify",
            name=f"{jobs:,} jobs: peak memory",
            value=ended.peak_mb,
            unit="MB",
            at_most=PEAK_MB_MAX,
        ),
        Figure(
            benchmark="verify",
            name="commit of another process beside it, median",
            value=quantile(waits_ms, 0.5),
            unit="ms",
        ),
        Figure(
            benchmark="verify",
            name="commit of another process beside it, longest",
            value=max(waits_ms),
            unit="ms",
            at_most=WAIT_MS_MAX,
        ),
    ]


def finished_ledger(folder: Path, jobs: int, output: bytes = _OUTPUT) -> None:
    """A ledger `ledger.db` in `folder` whose jobs were taken in by the program, and finished by a few statements.

    All have the same `output`.
    """
    write_input(folder / "input.jsonl", jobs)
    with stand_in(Behaviour(status=401)) as service:
        arguments = ["run", "input.jsonl", *run_flags(service.url)]
        ended = orchestrator(arguments, folder=folder, seconds_max=INTAKE_S_MAX)
    assert ended.exit_code == STOPPED_EXIT_CODE, ended.stderr
    values = {"now": time.time_ns() // 1_000, "output": output}  # noqa: TID251  the ledger's clock is the system's
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        connection.create_function("checksum", 2, lambda job, output: zlib.crc32(output, job), deterministic=True)
        connection.execute("DELETE FROM events")  # of the one job that was refused with the key
        connection.execute("DELETE FROM submissions")
        for statement in filter(str.strip, _FINISH.split(";")):
            connection.execute(statement, values)
        connection.execute("DELETE FROM counts WHERE n = 0 OR name NOT IN ('succeeded')")
        connection.commit()


class _Beside(threading.Thread):
    """Commits a row now and then, and notes how long each commit took."""

    def __init__(self, ledger: Path) -> None:
        super().__init__(daemon=True)
        self._ledger = ledger
        self._ended = threading.Event()
        self._waits_ms: list[float] = []

    def run(self) -> None:
        with closing(sqlite3.connect(self._ledger, isolation_level=None, timeout=10)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            number = 0
            while not self._ended.wait(COMMIT_EVERY_S):
                number += 1
                started = time.perf_counter()
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT OR REPLACE INTO heartbeats VALUES (63, 'benchmark', 0, 0, 0, ?)", (b"{}",))
                connection.execute("COMMIT")
                self._waits_ms.append((time.perf_counter() - started) * 1_000)

    def stop(self) -> list[float]:
        """Ends it; returns the milliseconds of every commit."""
        self._ended.set()
        self.join()
        return self._waits_ms
