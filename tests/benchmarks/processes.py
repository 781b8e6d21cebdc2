"""Processes under measurement: the program itself, as a user starts it, and the service that stands in.

Nothing outlives its `with` block, and nothing may take longer than it was given.
"""

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from tests.benchmarks.stand_in import Behaviour, Observed

ROOT: Final = Path(__file__).resolve().parents[2]
ORCHESTRATOR: Final = (sys.executable, "-c", "from orchestrator.cli import main; main()")
"""The installed command without the script around it, so that a checkout's own code is what runs."""

STOP_S_MAX: Final = 10.0
STDOUT_BYTES_MAX: Final = 1024 * 1024
_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A process that has ended, and what it took from start to exit."""

    exit_code: int
    stdout: bytes
    """Its beginning: results may be larger than the memory."""

    stderr: str
    wall_s: float
    cpu_s: float
    """User and system time."""

    peak_mb: float
    """The most memory that was resident, in units of 10^6 bytes. Linux begins to count at what we ourselves had when we
    started it, so whoever measures must stay small."""


def orchestrator(
    arguments: Sequence[str], *, folder: Path, seconds_max: float, open_files: int | None = None
) -> Verdict:
    """Runs the program with `arguments` in `folder`, and measures it. Kills it after `seconds_max`.

    `open_files` is the most that it may have open, by default what we may.
    """
    command = [*ORCHESTRATOR, *arguments]
    if open_files is not None:
        command = ["sh", "-c", f'ulimit -n {open_files}; exec "$@"', "sh", *command]
    return measured(command, folder=folder, seconds_max=seconds_max)


def measured(
    command: Sequence[str], *, folder: Path, seconds_max: float, environment: Mapping[str, str] | None = None
) -> Verdict:
    """Runs `command` in `folder` with `environment` on top of ours, and measures it. Kills it after `seconds_max`."""
    with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
        started = time.perf_counter()
        everything = {**clean_environment(), **(environment or {})}
        process = subprocess.Popen(command, cwd=folder, env=everything, stdout=stdout, stderr=stderr)
        watchdog = threading.Timer(seconds_max, process.kill)
        watchdog.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            watchdog.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.perf_counter() - started
    with (folder / "stdout").open("rb") as told:
        beginning = told.read(STDOUT_BYTES_MAX)
    return Verdict(
        exit_code=process.returncode,
        stdout=beginning,
        stderr=(folder / "stderr").read_text(),
        wall_s=wall_s,
        cpu_s=_cpu_s(usage),
        peak_mb=usage.ru_maxrss * _RSS_UNIT / 1e6,
    )


@contextmanager
def running(arguments: Sequence[str], *, folder: Path) -> Iterator[None]:
    """The program with `arguments` in `folder`, at work until the block ends; then it is killed."""
    with subprocess.Popen(
        [*ORCHESTRATOR, *arguments],
        cwd=folder,
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.kill()


def clean_environment() -> Mapping[str, str]:
    """The environment without what could change the program's settings or have it compiled anew, and with a key."""
    left_out = ("ORCHESTRATOR_", "RUNPOD_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, "ORCHESTRATOR_API_KEY": "benchmark", "PYTHONPATH": str(ROOT)}


def _cpu_s(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


class StandIn:
    """The stand-in service, running. `url` is its address."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        assert process.stdout is not None
        self.url = f"http://127.0.0.1:{int(process.stdout.readline())}"

    def stop(self) -> Observed:
        """Ends the service and returns what it saw."""
        told, _ = self._process.communicate(timeout=STOP_S_MAX)
        return msgspec.json.decode(told, type=Observed)


@contextmanager
def stand_in(behaviour: Behaviour) -> Iterator[StandIn]:
    """A stand-in service in a process of its own, that behaves as told."""
    command = [sys.executable, "-m", "tests.benchmarks.stand_in", msgspec.json.encode(behaviour).decode()]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield StandIn(process)
        finally:
            process.kill()
