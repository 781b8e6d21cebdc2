"""Scripts that use the program: interrupted once and twice, killed, and given again."""

import signal
import subprocess
import sys
from collections import Counter
from typing import IO

import pytest

from tests.system.processes import KEY, SECONDS_MAX, Desk, Process, Program, Service
from tests.system.starter import Starter

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
AT_A_SERVICE = """
import orchestrator

inputs = ({{"n": n}} for n in range({jobs}))
results = orchestrator.map(
    "ep1", inputs, name="night", ledger="orchestrator.db", serverless_url="{url}", api_key="{key}",
    limits={{"run": "1000/1:100", "status": "2000/1:200"}}, uncertain_after="100ms",
)
for result in results:
    print(result.output["echo"]["n"], flush=True)
"""
LEFT = MAP.replace("for result in", "results =").replace(":\n    print(result.output, flush=True)", "\nnext(results)")

SECOND_S_MAX = 8.0
"""A second Ctrl-C ends a script within this, though requests are in flight."""


def started(desk: Desk, script: str, held: int) -> subprocess.Popen[bytes]:
    """As a user starts it: what an interrupted script leaves to be done when Python ends is done."""
    (desk.folder / "script.py").write_text(script.format(held=held))
    return subprocess.Popen(
        [sys.executable, "script.py"], cwd=desk.folder, env=desk.environment(), bufsize=0,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def forked(desk: Desk, starter: Starter, script: str) -> Process:
    """Sooner."""
    (desk.folder / "script.py").write_text(script)
    return starter.start("tests.system.script:main", ["script.py"], folder=desk.folder, environment=desk.environment())


def lines(stream: IO[bytes] | None, number: int) -> list[bytes]:
    assert stream is not None
    return [stream.readline() for _ in range(number)]


def again(desk: Desk, starter: Starter, script: str) -> list[int]:
    """What the same script prints when nothing holds it up any more."""
    ended = Program(forked(desk, starter, script.format(held=99))).ended()
    assert (ended.exit_code, ended.stderr) == (0, "")
    return sorted(map(int, ended.stdout.split()))


@pytest.mark.slow
@pytest.mark.parametrize("script", [MAP, ASYNC], ids=["map", "async"])
def test_a_script_that_is_interrupted_goes_on_when_it_is_given_again(desk: Desk, starter: Starter, script: str) -> None:
    process = started(desk, script, held=4)
    assert len(set(lines(process.stdout, 4))) == 4
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=SECONDS_MAX)  # which ends what its functions wait for
    assert process.returncode == -signal.SIGINT
    assert b"KeyboardInterrupt" in told
    assert b"ExceptionGroup" not in told
    assert again(desk, starter, script) == list(range(12))


@pytest.mark.parametrize("script", [MAP, pytest.param(ASYNC, marks=pytest.mark.slow)], ids=["map", "async"])
def test_a_script_that_is_killed_goes_on_when_it_is_given_again(desk: Desk, starter: Starter, script: str) -> None:
    process = forked(desk, starter, script.format(held=4))
    assert len(set(lines(process.stdout, 4))) == 4
    Program(process).kill()
    assert again(desk, starter, script) == list(range(12))


@pytest.mark.slow
def test_a_second_ctrl_c_in_map_leaves_at_once_and_the_same_script_goes_on(
    desk: Desk, starter: Starter, service: Service
) -> None:
    jobs = 40
    service.change(silent=True)  # the first waits up to 10 s for answers that never come
    script = AT_A_SERVICE.format(jobs=jobs, url=service.url, key=KEY)
    program = Program(forked(desk, starter, script))
    service.wait("accepted", jobs)
    program.signal(signal.SIGINT)
    program.until_said("stopping")
    program.signal(signal.SIGINT)
    ended = program.ended(within_s=SECOND_S_MAX)
    assert "KeyboardInterrupt" in ended.stderr
    assert desk.states() == {"uncertain": jobs}

    service.change(silent=False)
    ended = Program(forked(desk, starter, script)).ended()
    assert ended.exit_code == 0, ended
    assert f"up to {jobs} jobs may be paid again" in ended.stderr
    assert sorted(map(int, ended.stdout.split())) == list(range(jobs))
    assert Counter(each["n"] for each in service.accepted()) == dict.fromkeys(range(jobs), 2)


@pytest.mark.slow
def test_a_script_that_ends_with_its_loop_half_done_ends(desk: Desk) -> None:
    process = started(desk, LEFT, held=99)
    _, told = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, told) == (0, b"")
