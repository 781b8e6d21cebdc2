"""Chooses the tests that coverage is measured by, and lists the others in `not_measured.txt`.

python -m tests.measuring

Every test is measured once, on its own, with the processor time that it takes (some ten minutes). Then those are left
out one after the other that cost most for what they alone cover.
"""

import heapq
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from coverage import Coverage
from coverage.python import PythonFileReporter

from tests.measuring import LIST, ROOMS, name_of

ROOT: Final = Path(__file__).resolve().parents[2]
TIMES: Final = "MEASURING_TIMES"
"""The variable that names the folder where each process notes what its tests took."""

KEPT: Final = 0.956
"""The share of the program that must stay covered: more than the floor, for what is added before the next choice."""

LEAST_S: Final = 0.03
"""Who takes less is measured in any case: for so little nobody wants a longer list."""

Part = tuple[str, int, int]
"""A line or a branch of a file."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """As a plugin: notes the processor time of each test."""
    before_s = time.process_time()
    try:
        return (yield)
    finally:
        with (Path(os.environ[TIMES]) / f"{os.getpid()}.{TIMES}").open("a") as file:
            file.write(f"{time.process_time() - before_s} {item.nodeid}\n")


def left_out(covers: Mapping[str, set[Part]], costs_s: Mapping[str, float], number: int) -> list[str]:
    """The tests that need not be measured, of those whose costs are given.

    Args:
        covers: what each test covers, and under other names what is covered in any case.
        costs_s: what each test takes.
        number: of all parts that there are to be covered. `KEPT` of them stay covered, and of the core whatever
            `tests/core` covers, by `tests/core`.
    """
    often = Counter(part for parts in covers.values() for part in parts)
    of_core = Counter(part for test, parts in covers.items() if not test or _is_core(test) for part in parts)
    covered = len(often)

    def lost(test: str) -> int:
        return sum(often[part] == 1 for part in covers[test])

    def rank(test: str) -> float:
        return (lost(test) + 0.3) / costs_s[test]  # of those that nobody would miss, the dearest first

    left = []
    waiting = [(rank(test), test) for test, cost_s in costs_s.items() if cost_s >= LEAST_S]
    heapq.heapify(waiting)
    while waiting:
        _, test = heapq.heappop(waiting)
        if waiting and rank(test) > waiting[0][0]:
            heapq.heappush(waiting, (rank(test), test))  # others were left out since it was ranked
            continue
        is_last_of_core = _is_core(test) and any(_is_core(part[0]) and of_core[part] == 1 for part in covers[test])
        if is_last_of_core or covered - lost(test) < KEPT * number:
            continue
        covered -= lost(test)
        often.subtract(covers[test])
        if _is_core(test):
            of_core.subtract(covers[test])
        left.append(test)
    return sorted(left)


def _is_core(path: str) -> bool:
    return path.startswith(("tests/core/", "orchestrator/core/"))


def main() -> int:
    """The exit code: 0 when the list was written."""
    with tempfile.TemporaryDirectory() as folder:
        rooms = (f"--ignore=tests/{room}" for room in ROOMS)
        options = ("-q", "-n", "2", "-p", "tests.measuring.__main__", "--cov", "--cov-report=", "--cov-context=test")
        played = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *rooms],
            cwd=ROOT,
            env={**os.environ, TIMES: folder, "COVERAGE_FILE": f"{folder}/measured"},
            check=False,
        )
        if played.returncode:
            return played.returncode
        costs_s = _costs_s(Path(folder))
        covers, parts = _covers(Path(folder) / "measured")
    tests = left_out(covers, costs_s, parts)
    LIST.write_text("".join(f"{test}\n" for test in tests))
    print(f"{len(costs_s) - len(tests)} of {len(costs_s)} tests are measured")
    return 0


def _costs_s(folder: Path) -> dict[str, float]:
    """What each test took, all its parameters together."""
    costs_s: dict[str, float] = defaultdict(float)
    for path in folder.glob(f"*.{TIMES}"):
        for line in path.read_text().splitlines():
            cost_s, _, nodeid = line.partition(" ")
            costs_s[name_of(nodeid)] += float(cost_s)
    return dict(costs_s)


def _covers(path: Path) -> tuple[dict[str, set[Part]], int]:
    """What each test covers, "" being the import of the program, and how much there is to be covered.

    Noted are lines as they were executed. Counted are statements, each by its first line, and those ways on that
    coverage takes for branches; a way out by an exception is none.
    """
    measured = Coverage(data_file=path, config_file=str(ROOT / "pyproject.toml"))
    measured.load()
    covers: dict[str, set[Part]] = defaultdict(set)
    number = 0
    with closing(sqlite3.connect(path)) as connection:
        for file in sorted((ROOT / "orchestrator").rglob("*.py")):
            name, reporter = str(file.relative_to(ROOT)), PythonFileReporter(str(file), measured)
            statements, exits, ways = reporter.lines(), reporter.exit_counts(), reporter.arcs()
            number += len(statements) + sum(count for count in exits.values() if count > 1)
            executed: dict[str, set[tuple[int, int]]] = defaultdict(set)
            for context, start, end in connection.execute(_ARCS, (str(file),)):
                executed[name_of(context.partition("|")[0])].add((start, end))
            for test, found in executed.items():
                passed = reporter.translate_lines({line for way in found for line in way if line > 0})
                covers[test].update((name, line, 0) for line in passed & statements)
                taken = reporter.translate_arcs(found) & ways
                covers[test].update((name, start, end) for start, end in taken if exits.get(start, 0) > 1)
    return covers, number


_ARCS: Final = """
SELECT context, fromno, tono FROM arc
JOIN file ON file.id = arc.file_id JOIN context ON context.id = arc.context_id
WHERE file.path = ?
"""

if __name__ == "__main__":
    sys.exit(main())
