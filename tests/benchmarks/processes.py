"""Processes under measurement: the program itself, as a user starts it, and the service that stands in.

Nothing outlives its `with` block, and nothing may take longer than it was given.
"""

import os
import signal
import subprocess
import sys
import threading
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
_MEASURER: Final = """
import json, os, subprocess, sys, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[2:])
_, status, usage = os.wait4(process.pid, 0)
took = (time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
with open(sys.argv[1], "w") as file:
    json.dump((os.waitstatus_to_exitcode(status), *took), file)
"""
"""A small process between us and the one that is measured: Linux begins to count a process's memory at what its parent
had when it was started."""

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
    """The most memory that was resident, in units of 10^6 bytes."""


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
    usage = folder / "usage"
    usage.unlink(missing_ok=True)
    with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", _MEASURER, str(usage), *command],
            cwd=folder,
            env={**clean_environment(), **(environment or {})},
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        watchdog = threading.Timer(seconds_max, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        try:
            killed = process.wait()
        finally:
            watchdog.cancel()
    took = msgspec.json.decode(usage.read_bytes()) if usage.exists() else (killed, seconds_max, 0.0, 0)
    with (folder / "stdout").open("rb") as told:
        beginning = told.read(STDOUT_BYTES_MAX)
    return Verdict(
        exit_code=took[0],
        stdout=beginning,
        stderr=(folder / "stderr").read_text(),
        wall_s=took[1],
        cpu_s=took[2],
        peak_mb=took[3] * _RSS_UNIT / 1e6,
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
