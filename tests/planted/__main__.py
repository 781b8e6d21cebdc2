"""Plants each fault in a copy of the project, and sees whether the tests that should catch it do: a copy for each processor.

python -m tests.planted [--only TEXT] [--worlds] [--record]

First the tests must pass on the copy as it is. With `--worlds` the simulation must find the fault too, where it is said
to. The project itself is not touched.
"""

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import compress
from pathlib import Path
from typing import Final

from tests.guarantees import record
from tests.planted.faults import FAULTS, Fault
from tests.planted.places import planted

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("orchestrator", "migrations", "tests", "examples", "docs", "pyproject.toml", "README.md")
RUN_S_MAX = 600
"""A planted fault may make the program wait for ever; pytest's own limit is shorter."""

_SAID: Final = "said.txt"
SAID_BYTES_MAX: Final = 4_000

PASSED, FAILED = 0, 1
"""Exit codes of pytest and of `tests.simulation`; others mean that nothing was tested."""


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 when every fault was caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("--only", default="", help="faults with this text in their names")
    parser.add_argument("--worlds", action="store_true", help="let the simulation find them too")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    given = parser.parse_args(arguments)
    started_s = time.perf_counter()
    faults = [fault for fault in FAULTS if given.only in fault.name]
    if not faults:
        parser.error(f"no fault has {given.only!r} in its name")
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copies = [Path(folder) / str(number) for number in range(os.cpu_count() or 1)]
        for copy in copies:
            copy_project(copy)
        if (code := _tests(copies[0], sorted({test for fault in faults for test in fault.tests}))) != PASSED:
            print(
                f"{(copies[0] / _SAID).read_text()}\nthe tests do not pass without a planted fault (exit code {code})"
            )
            return 1
        missed = _missed(copies, faults, worlds=given.worlds)
    if given.record:
        record("faults planted", len(faults), "", "python -m tests.planted")
        record("planted faults that no test caught", len(missed), "", "python -m tests.planted", at_most=0)
    print(f"{len(faults) - len(missed)} of {len(faults)} faults caught; {time.perf_counter() - started_s:.0f} s")
    return 1 if missed else 0


def copy_project(to: Path) -> None:
    """Copies what tests need."""
    to.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, to / name)


def _missed(copies: Sequence[Path], faults: Sequence[Fault], *, worlds: bool) -> list[Fault]:
    """The faults that were not caught. Each copy has one of them at a time."""
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def is_missed(fault: Fault) -> bool:
        copy = free.get()
        try:
            return not _is_caught(copy, fault, worlds=worlds)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as threads:
        return list(compress(faults, threads.map(is_missed, faults)))


def _is_caught(copy: Path, fault: Fault, *, worlds: bool) -> bool:
    path = copy / fault.file
    text = path.read_text()
    path.write_text(planted(fault.path, fault.old, fault.new, text))
    try:
        missed = [test for test in fault.tests if _tests(copy, [test]) != FAILED]
        if worlds and fault.worlds is not None and _worlds(copy, *fault.worlds) != FAILED:
            missed.append(f"the worlds of {fault.worlds[0]}")
    finally:
        path.write_text(text)
    print(
        f"{'MISSED' if missed else 'caught'}  {fault.name}{''.join(f'; not by {test}' for test in missed)}", flush=True
    )
    return not missed


def _tests(copy: Path, tests: Sequence[str]) -> int:
    options = ("-x", "-q", "-n", "0", "--no-cov", "-p", "no:cacheprovider")
    return _run(copy, "-m", "pytest", *options, *tests)


def _worlds(copy: Path, scenario: str, first: int, number: int) -> int:
    numbers = ("--seed", str(first), "--seeds", str(number), "--processes", "1")
    return _run(copy, "-m", "tests.simulation", "--scenario", scenario, *numbers)


def _run(copy: Path, *command: str) -> int:
    """The exit code of one run of this Python in the copy; one that does not end counts as failed.

    The end of what it said is in `_SAID`.
    """
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, *command], cwd=copy, env=environment, capture_output=True, timeout=RUN_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        (copy / _SAID).write_text(f"it did not end within {RUN_S_MAX} s\n")
        return FAILED
    (copy / _SAID).write_bytes(done.stdout[-SAID_BYTES_MAX:] + done.stderr[-SAID_BYTES_MAX:])
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
