"""Runs of the real program over a line that is too narrow, and one whose process is stopped meanwhile.

    python -m tests.narrow [NAME ...] [--record]

Each takes some minutes: `down` (300 outputs of 4 MB over 8 MB/s), `webhook` (the same, pushed by the service), `up` (150
inputs of 3 MB over 8 MB/s), `memory` (120 inputs of 9 MB, no narrow line), `asleep` (120 submissions in flight, stopped
for 40 s).
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec

from tests.benchmarks.processes import ORCHESTRATOR, ROOT
from tests.benchmarks.runs import seconds_at_work
from tests.guarantees import record
from tests.narrow.relay import Relay, narrow
from tests.narrow.service import LargeService

MB: Final = 1_000_000
BYTES_PER_S: Final = 8 * MB
WIDE: Final = 1_000 * MB
STOPPED_S: Final = 40.0
SLOWER_MAX: Final = 1.3
"""How many times as long as the line needs a run may take."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One run, and what goes over the line in it."""

    jobs: int
    input_bytes: int = 100
    output_bytes: int = 100
    bytes_per_s: float = BYTES_PER_S
    webhooks: bool = False
    is_stopped: bool = False
    memory_mb_max: float | None = None

    @property
    def ideal_s(self) -> float:
        """What the line needs for all of it, if everything goes over it once."""
        return self.jobs * max(self.input_bytes, self.output_bytes) / self.bytes_per_s


CASES: Final = {
    "down": Case(jobs=300, output_bytes=4 * MB),
    "webhook": Case(jobs=300, output_bytes=4 * MB, webhooks=True),
    "up": Case(jobs=150, input_bytes=3 * MB),
    "memory": Case(jobs=120, input_bytes=9 * MB, bytes_per_s=WIDE, memory_mb_max=500),
    "asleep": Case(jobs=120, bytes_per_s=WIDE, is_stopped=True),
}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a run; `seconds` are those from the first request to the last result."""

    seconds: float
    exit_code: int
    succeeded: int
    uncertain: int
    submitted: int
    up_mb: float
    down_mb: float
    peak_mb: float


async def play(case: Case) -> Verdict:
    """One run of the program, as a user starts it."""
    service = LargeService(output_bytes=case.output_bytes, answer_after_s=10.0 if case.is_stopped else 0.0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_input(folder / "input.jsonl", case)
        async with anyio.create_task_group() as tasks:
            await tasks.start(service.serve)
            async with narrow(service.address, case.bytes_per_s) as line, _hooks(case, line) as flags:
                process = _start(folder, f"http://{line.address}", flags)
                if case.is_stopped:
                    tasks.start_soon(_stop_for_a_while, process, service)
                _, status, usage = await anyio.to_thread.run_sync(os.wait4, process.pid, 0)
            tasks.cancel_scope.cancel()
        summary: dict[str, Any] = json.loads((folder / "stdout").read_bytes() or b"{}")
        return Verdict(
            seconds=seconds_at_work(folder / "ledger.db"),
            exit_code=os.waitstatus_to_exitcode(status),
            succeeded=summary.get("jobs", {}).get("succeeded", 0),
            uncertain=summary.get("uncertain", {}).get("seen", 0),
            submitted=service.counted["run"],
            up_mb=line.up.carried / MB,
            down_mb=line.down.carried / MB,
            peak_mb=usage.ru_maxrss * 1024 / MB,
        )


@asynccontextmanager
async def _hooks(case: Case, line: Relay) -> AsyncIterator[list[str]]:
    """The flags for webhooks, which take the same line in the other direction."""
    if not case.webhooks:
        yield []
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        listener = f"127.0.0.1:{free.getsockname()[1]}"
    async with narrow(listener, case.bytes_per_s, beside=line) as hooks:
        yield ["--listen", listener, "--webhook-url", f"http://{hooks.address}"]


def _write_input(path: Path, case: Case) -> None:
    with path.open("w") as file:
        for row in range(case.jobs):
            filler = os.urandom(case.input_bytes // 2).hex()
            file.write(f'{{"custom_id":"row-{row}","input":{{"filler":"{filler}"}}}}\n')


def _start(folder: Path, url: str, flags: list[str]) -> "subprocess.Popen[bytes]":
    command = [*ORCHESTRATOR, "run", "input.jsonl", "--endpoint", "ep", "--serverless-url", url, "--json", "--quiet"]
    environment = {**os.environ, "ORCHESTRATOR_API_KEY": "narrow", "PYTHONPATH": str(ROOT)}
    with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
        return subprocess.Popen(
            [*command, "--ledger", "ledger.db", "--output", "results.jsonl", *flags],
            cwd=folder,
            env=environment,
            stdout=stdout,
            stderr=stderr,
        )


async def _stop_for_a_while(process: "subprocess.Popen[bytes]", service: LargeService) -> None:
    """The answers to all that is in flight come while nobody can read them."""
    await service.held.wait()
    process.send_signal(signal.SIGSTOP)
    await anyio.sleep(STOPPED_S)
    process.send_signal(signal.SIGCONT)


def _report(name: str, case: Case, ended: Verdict, *, is_kept: bool) -> bool:
    print(f"{name}: ideally {case.ideal_s:.0f} s, {msgspec.json.encode(ended).decode()}")
    command = f"python -m tests.narrow {name}"
    figures: list[tuple[str, float, str, float | None]] = [
        ("jobs without a result", case.jobs - ended.succeeded, "", 0),
        ("uncertain submissions", ended.uncertain, "", 0),
        ("submissions beyond one a job", ended.submitted - case.jobs, "", 0),
    ]
    if case.bytes_per_s == BYTES_PER_S:
        figures.append(("time, as a multiple of what the line needs", ended.seconds / case.ideal_s, "", SLOWER_MAX))
    if case.memory_mb_max is not None:
        figures.append(("peak memory", ended.peak_mb, "MB", case.memory_mb_max))
    if is_kept:
        for what, value, unit, at_most in figures:
            record(f"{name}: {what}", value, unit, command, at_most=at_most)
    return all(at_most is None or value <= at_most for _, value, _, at_most in figures)


def main() -> int:
    """The exit code: 0 when every case kept what it should."""
    parser = argparse.ArgumentParser(prog="python -m tests.narrow", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--record", action="store_true", help="keep the figures in docs/figures/")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in CASES]:
        parser.error(f"there is no case {unknown[0]!r}; there are {', '.join(CASES)}")
    kept = []
    for name in given.names or CASES:
        case = CASES[name]
        ended = anyio.run(play, case, backend_options={"use_uvloop": True})
        kept.append(_report(name, case, ended, is_kept=given.record))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
