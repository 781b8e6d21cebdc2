"""How fast rows are sent to a service that refuses some requests, by whole programs.

python -m tests.limits.rows [--rows 30000] [--only TEXT] [--record]

An emulator with 100 workers and the contract's limits answers some requests 429 although they are within the limits, or
somebody else uses a part of these. A run of so many rows is sent to it by the command line, five minutes for each case.
What is told is submissions a second, of the 100 that the limit allows; beside a neighbour, of what is left.
"""

import argparse
import os
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from tests.benchmarks.runs import write_input
from tests.guarantees.recording import record

HANDLER: Final = "import asyncio\n\n\nasync def handler(job):\n    await asyncio.sleep(0.4)\n    return 1\n"
COMMAND: Final = "python -m tests.limits.rows"


class Case(msgspec.Struct, frozen=True):
    """What the service does, and how much of what is possible has to be used."""

    name: str
    faults: tuple[str, ...]
    possible: float
    used_min: float


CASES: Final = (
    Case("nothing refused", (), 100.0, 0.99),
    Case("0.5 % stray", ("throttled=0.005",), 100.0, 0.95),
    Case("3 % stray", ("throttled=0.03",), 100.0, 0.90),
    Case("beside a neighbour of 20 %", ("neighbour=0.2",), 80.0, 0.90),
)


class Sent(msgspec.Struct, frozen=True):
    """What the ledger has of a run."""

    accepted: int
    refused: int
    per_s: float


def main() -> None:
    """Runs each case, and exits with 1 where one is too slow."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Rows, at a service that refuses some requests.")
    parser.add_argument("--rows", type=int, default=30_000, help="how many (default: %(default)s)")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    chosen = parser.parse_args()
    kept = True
    for case in CASES:
        if chosen.only in case.name:
            sent = run(case, chosen.rows)
            used = sent.per_s / case.possible
            kept &= used >= case.used_min
            share = sent.refused / (sent.accepted + sent.refused)
            print(f"{case.name:28}{sent.per_s:6.1f} of {case.possible:g}/s, {share:.2%} answered 429", flush=True)
            if chosen.record:
                record(f"submissions, {case.name}", sent.per_s, "/s", COMMAND, at_least=case.used_min * case.possible)
    sys.exit(0 if kept else 1)


def run(case: Case, rows: int) -> Sent:
    """One run of the program, with an emulator of its own."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "handler.py").write_text(HANDLER)
        write_input(folder / "input.jsonl", rows)
        program = [sys.executable, "-m", "orchestrator"]
        batch = "run input.jsonl --endpoint any --ledger ledger.db --output results.jsonl --quiet --breaker off"
        emulate = ["emulate", "--port", "0", "--handler", "handler.py:handler", "--workers", "100"]
        faults = [part for fault in case.faults for part in ("--fault", fault)]
        subprocess.run(
            [*program, *emulate, *faults, "--run", shlex.join([*program, *shlex.split(batch)])],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return sent_in(folder / "ledger.db")


def sent_in(ledger: Path) -> Sent:
    """From the first submission to the last one."""
    with closing(sqlite3.connect(ledger)) as connection:
        (first, last), (accepted,), (refused,) = (
            connection.execute(statement).fetchone()
            for statement in (
                "SELECT min(sent_at), max(sent_at) FROM submissions",
                "SELECT count(*) FROM submissions WHERE remote_id IS NOT NULL",
                "SELECT count(*) FROM submissions WHERE remote_id IS NULL",
            )
        )
    return Sent(accepted, refused, (accepted - 1) / ((last - first) / 1e6))


if __name__ == "__main__":
    main()
