"""A program that died with 300,000 jobs outstanding is started again: how soon it asks for the first, in how much memory.

The service answers that none of them has finished, so that all stay outstanding, and the program is killed after a while.
"""

import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.benchmarks.commands import INTAKE_S_MAX, STOPPED_EXIT_CODE
from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import Verdict, orchestrator, stand_in
from tests.benchmarks.runs import SECONDS_MAX, run_flags, write_input
from tests.benchmarks.stand_in import Behaviour

OUTSTANDING: Final = 300_000
RUNNING_S: Final = 30.0
"""How long the program goes on: long enough to have taken up all of them."""

FIRST_S_MAX: Final = 2.0
PEAK_MB_MAX: Final = 600.0

_FOREVER_S: Final = 1e9
_AGE_US: Final = 60_000_000
_TTL_US: Final = 86_400_000_000
_SUBMIT: Final = """
INSERT INTO submissions (id, job_id, attempt, remote_id, sent_at, ttl_at, answered_at)
    SELECT :now + id, id, 1, 'job-' || id, :now, :now + :ttl, :now FROM jobs;
UPDATE jobs SET state = 'outstanding', submission_id = :now + id, attempt = 1, unfinished_at = :now;
UPDATE counts SET name = 'outstanding' WHERE name = 'queued';
"""


def restart(outstanding: int = OUTSTANDING, *, running_s: float | None = RUNNING_S) -> list[Figure]:
    """From the start of the process to its first `/status`, and its peak memory.

    With `running_s` None all jobs have finished, and the program ends of itself.
    """
    execution_s = 0.0 if running_s is None else _FOREVER_S
    with TemporaryDirectory() as name, stand_in(Behaviour(status=401, execution_s=execution_s)) as service:
        folder = Path(name)
        write_input(folder / "input.jsonl", outstanding)
        taken_in = orchestrator(
            ["run", "input.jsonl", *run_flags(service.url)], folder=folder, seconds_max=INTAKE_S_MAX
        )
        assert taken_in.exit_code == STOPPED_EXIT_CODE, taken_in.stderr
        _submit_all(folder / "ledger.db", outstanding)
        started = time.perf_counter()
        ended = _resumed(folder, running_s)
        seen = service.stop()
    assert seen.first_status_at is not None, ended.stderr
    return [
        Figure(
            benchmark="restart",
            name=f"{outstanding:,} outstanding: start to first useful request",
            value=seen.first_status_at - started,
            unit="s",
            at_most=FIRST_S_MAX,
        ),
        Figure(
            benchmark="restart",
            name=f"{outstanding:,} outstanding: peak memory",
            value=ended.peak_mb,
            unit="MB",
            at_most=PEAK_MB_MAX,
        ),
    ]


def _submit_all(ledger: Path, jobs: int) -> None:
    """Makes every job of `ledger` outstanding, as if it had been sent a minute ago."""
    now = time.time_ns() // 1_000 - _AGE_US  # noqa: TID251  the ledger's clock is the system's
    with closing(sqlite3.connect(ledger)) as connection:
        for statement in filter(str.strip, _SUBMIT.split(";")):
            connection.execute(statement, {"now": now, "ttl": _TTL_US})
        ((found,),) = connection.execute("SELECT n FROM counts WHERE name = 'outstanding'").fetchall()
        assert found == jobs
        connection.commit()


def _resumed(folder: Path, running_s: float | None) -> Verdict:
    arguments = ["resume", "input", "--ledger", "ledger.db", "--quiet"]
    ended = orchestrator(arguments, folder=folder, seconds_max=SECONDS_MAX if running_s is None else running_s)
    assert ended.exit_code == (0 if running_s is None else -signal.SIGKILL), ended.stderr
    return ended
