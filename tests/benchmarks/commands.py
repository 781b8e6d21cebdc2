"""A million rows: how fast and in how much memory they are taken in, and how soon commands answer afterwards."""

import sqlite3
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import orchestrator, stand_in
from tests.benchmarks.runs import run_flags, write_input
from tests.benchmarks.stand_in import Behaviour

ROWS: Final = 1_000_000
PEAK_MB_MAX: Final = 250
STATUS_S_MAX: Final = 1.0
HELP_S_MAX: Final = 0.4
REPEATS: Final = 5

INTAKE_S_MAX: Final = 600.0
COMMAND_S_MAX: Final = 30.0

STOPPED_EXIT_CODE: Final = 3


def intake(rows: int = ROWS, *, repeats: int = REPEATS) -> list[Figure]:
    """The program takes in a file, is refused at its first request, and stops; then it is asked for the status."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_input(folder / "input.jsonl", rows)
        with stand_in(Behaviour(status=401)) as service:
            arguments = ["run", "input.jsonl", *run_flags(service.url)]
            ended = orchestrator(arguments, folder=folder, seconds_max=INTAKE_S_MAX)
        assert ended.exit_code == STOPPED_EXIT_CODE, ended.stderr
        per_s = rows / _intake_s(folder / "ledger.db", rows)
        status_s = _median_s(["status", "--ledger", "ledger.db"], folder, repeats)
        help_s = _median_s(["--help"], folder, repeats)
    return [
        Figure(benchmark="intake", name="taken in", value=per_s, unit="rows/s"),
        Figure(benchmark="intake", name="peak memory", value=ended.peak_mb, unit="MB", at_most=PEAK_MB_MAX),
        Figure(benchmark="intake", name=f"status with {rows:,} jobs", value=status_s, unit="s", at_most=STATUS_S_MAX),
        Figure(benchmark="intake", name="--help", value=help_s, unit="s", at_most=HELP_S_MAX),
    ]


def _intake_s(ledger: Path, rows: int) -> float:
    with closing(sqlite3.connect(ledger)) as connection:
        (found,) = connection.execute("SELECT count(*) FROM jobs").fetchone()
        assert found == rows
        ((seconds,),) = connection.execute("SELECT (accepted_at - started_at) / 1e6 FROM intakes").fetchall()
    return float(seconds)


def _median_s(arguments: list[str], folder: Path, repeats: int) -> float:
    """The wall time of a command from start to exit, the median of a few."""
    seconds = []
    for _ in range(repeats):
        ended = orchestrator(arguments, folder=folder, seconds_max=COMMAND_S_MAX)
        assert ended.exit_code == 0, ended.stderr
        seconds.append(ended.wall_s)
    return median(seconds)
