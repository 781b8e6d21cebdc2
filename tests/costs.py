"""What tests cost, in processor time: that of this process and of all that it has started.

A test that is not marked `slow` may take `CPU_S_MAX`, as it would on a quiet machine of usual speed: on a busy one the
same work takes longer, so a loop whose time is known is timed beside it, and where coverage is measured, twice that.
The first test of a process that loads much of the program, or sets up what several tests share, does so for the others
too, and is not blamed for it.

python -m tests.costs COMMAND ...

runs a command, and says at its end what it took.
"""

import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Final

import pytest

CPU_S_MAX: Final = 1.5
"""For a test that is not slow, with what is set up and torn down for it; `NOISE` more is let pass."""

MEASURED: Final = 2.0
"""How much longer measured code takes."""

NOISE: Final = 2.0
"""How much longer the same test takes now and then beside others, though the loop takes no longer."""

REFERENCE_S: Final = 0.0035
"""What `_loop` takes on a quiet machine of usual speed."""

LOOPS_S: Final = 0.02
"""So long the loop is timed, where nothing is known of what it is compared with."""

LONGEST_S: Final = 1.0
"""No longer is looked at how slow the machine is where a test took too much."""

LOADED: Final = 50
"""Who loads more modules than that does so for others, too."""

_BEFORE: Final = pytest.StashKey[tuple[float, int]]()
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_s() -> float:
    """Of this process, and of its children and theirs, whether they live or not."""
    times = os.times()
    return sum(times[:4]) + sum(map(cpu_s_of, _children("self")))


def cpu_s_of(process: str) -> float:
    """Of a process that lives, with its children."""
    try:
        fields = _read(f"/proc/{process}/stat").rpartition(b")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS + sum(map(cpu_s_of, _children(process)))


def _children(process: str) -> Iterator[str]:
    """Nothing where the system does not tell: then only those who have ended count."""
    threads = f"/proc/{process}/task"
    with suppress(OSError):
        for thread in os.listdir(threads):  # noqa: PTH208  asked for twice a test, too
            with suppress(OSError):
                yield from _read(f"{threads}/{thread}/children").decode().split()


def _read(path: str) -> bytes:
    """Of a file that is asked for twice a test: a `Path` would be a sixth of what a small test costs."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return file.read()


def slowness(for_s: float = LOOPS_S) -> float:
    """How much longer the same work takes here and now than on a quiet machine of usual speed; at least 1.

    It is looked at for as long as that: a machine that others use as well is fast and slow by turns of a second.
    """
    loops = [_loop()]
    while sum(loops) < for_s:
        loops.append(_loop())
    return max(1.0, sum(loops) / len(loops) / REFERENCE_S)


def _loop() -> float:
    began_s = time.process_time()
    table: dict[str, tuple[int, str]] = {}
    for number in range(20_000):
        key = str(number % 5_000)
        table[key] = (number, key)
    return time.process_time() - began_s


class Costs:
    """Fails each test that takes more than it may."""

    def __init__(self, measured: str | None) -> None:
        """Of the tests whose ids begin with `measured`, coverage is measured where they spend their time."""
        self._measured = measured
        self._shared_s = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        before_s, shared_s = cpu_s(), self._shared_s
        try:
            return (yield)
        finally:
            self._shared_s = shared_s + cpu_s() - before_s

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        self._shared_s = 0.0
        item.stash[_BEFORE] = cpu_s(), len(sys.modules)
        yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        yield
        before_s, modules = item.stash[_BEFORE]
        if item.get_closest_marker("slow") is None and len(sys.modules) - modules <= LOADED:
            is_measured = self._measured is not None and item.nodeid.startswith(self._measured)
            check(cpu_s() - before_s - self._shared_s, MEASURED if is_measured else 1.0)


def check(took_s: float, factor: float = 1.0) -> None:
    """Fails the test that has taken so much."""
    allowed_s = CPU_S_MAX * NOISE * factor
    if took_s > allowed_s and took_s > allowed_s * (slow := slowness(min(took_s, LONGEST_S))):
        pytest.fail(
            f"this test took {took_s / factor / slow:.1f} s of a processor, and one that is not marked slow may take "
            f"{CPU_S_MAX}: make it cheaper, or mark it (then `make test` does without it)",
            pytrace=False,
        )


def main(command: list[str]) -> int:
    """The exit code of the command."""
    began_s = time.perf_counter()
    code = subprocess.run(command, check=False).returncode
    times = os.times()
    minutes = (times.children_user + times.children_system) / 60
    print(f"{' '.join(command[1:])}: {minutes:.1f} CPU-minutes, {(time.perf_counter() - began_s) / 60:.1f} minutes")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
