"""Scripts that use the program: interrupted, killed, and given again."""

import signal
import subprocess
import sys
from typing import IO

import pytest

from tests.system.processes import SECONDS_MAX, Desk

pytestmark = pytest.mark.system

MAP = """
import orchestrator, sys

def slow(job):
    if job["input"]["n"] >= {held}: sys.stdin.readline()
    return job["input"]["n"]

for result in orchestrator.map(slow, ({{"n": n}} for n in range(12)), name="night", ledger="l.db"):
    print(result.output, flush=True)
"""
ASYNC = """
import asyncio, sys
from orchestrator import Orchestrator

def slow(job):
    if job["input"]["n"] >= {held}: sys.stdin.readline()
    return job["input"]["n"]

async def main():
    async with Orchestrator("l.db") as orc:
        run = await orc.submit(({{"n": n}} for n in range(12)), endpoint=slow, name="night")
        async for result in run.results():
            print(result.output, flush=True)

asyncio.run(main())
"""
LEFT = MAP.replace("for result in", "results =").replace(":\n    print(result.output, flush=True)", "\nnext(results)")


def started(desk: Desk, script: str, held: int) -> subprocess.Popen[bytes]:
    (desk.folder / "script.py").write_text(script.format(held=held))
    return subprocess.Popen(
        [sys.executable, "script.py"], cwd=desk.folder, env=desk.environment(), bufsize=0,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def lines(stream: IO[bytes] | None, number: int) -> list[bytes]:
    assert stream is not None
    return [stream.readline() for _ in range(number)]


def again(desk: Desk, script: str) -> list[int]:
    """What the same script prints when nothing holds it up any more."""
    (desk.folder / "script.py").write_text(script.format(held=99))
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=desk.folder, env=desk.environment(), capture_output=True,
        timeout=SECONDS_MAX, check=True,
    )  # fmt: skip
    assert done.stderr == b""
    return sorted(map(int, done.stdout.split()))


@pytest.mark.parametrize(
    ("script", "how"),
    [(MAP, signal.SIGINT), (ASYNC, signal.SIGINT), (ASYNC, signal.SIGKILL)],
    ids=["map interrupted", "async interrupted", "async killed"],
)
def test_a_script_that_is_interrupted_or_killed_goes_on_when_it_is_given_again(
    desk: Desk, script: str, how: signal.Signals
) -> None:
    process = started(desk, script, held=4)
    assert len(set(lines(process.stdout, 4))) == 4
    process.send_signal(how)
    _, told = process.communicate(timeout=SECONDS_MAX)  # which ends what its functions wait for
    assert process.returncode == -how
    if how is signal.SIGINT:
        assert b"KeyboardInterrupt" in told
        assert b"ExceptionGroup" not in told
    assert again(desk, script) == list(range(12))


def test_a_script_that_ends_with_its_loop_half_done_ends(desk: Desk) -> None:
    process = started(desk, LEFT, held=99)
    _, told = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, told) == (0, b"")
