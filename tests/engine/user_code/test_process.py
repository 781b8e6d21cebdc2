"""People's steps and checks in a process of their own: what they do there changes nothing here, and ends nobody."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from orchestrator.clock import SystemClock
from orchestrator.engine.flows.row_handover import RowHandover
from orchestrator.engine.user_code.functions import CheckCall, CheckLoad, StepCall, UserProcessDied
from orchestrator.engine.user_code.process import UserProcess, user_code
from orchestrator.ledger import open_ledger
from tests.benchmarks.handover import Files, owed_to
from tests.engine.rows import empty_ledger
from tests.raising import IN_THREADS, file_of_functions

pytestmark = pytest.mark.anyio

BOLD = """
import os, signal, sys, time

def changes(row):
    before = os.getcwd()
    os.chdir("/")
    os.environ["ORCHESTRATOR_API_KEY"] = "another"
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.path.insert(0, "/")
    print("this is no row")
    return {"before": before}

def exits(row):
    os._exit(7)

def crashes(row):
    os.kill(os.getpid(), signal.SIGSEGV)

def hangs(row):
    open(row["begun"], "w").close()
    while True:
        time.sleep(1)
"""


@pytest.fixture
def code() -> Iterator[UserProcess]:
    made = user_code()
    assert isinstance(made, UserProcess)
    yield made
    made.close()


def step(folder: Path, name: str, given: bytes = b"{}") -> StepCall:
    (folder / "steps.py").write_text(BOLD)
    return StepCall(reference=f"{folder}/steps.py:{name}", given=given)


def test_what_a_step_does_to_its_process_is_nothing_to_ours(
    tmp_path: Path, code: UserProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    kept = os.getcwd(), dict(os.environ), signal.getsignal(signal.SIGTERM), list(sys.path)  # noqa: PTH109
    answers = [code.do(step(tmp_path, "changes")) for _ in range(2)]
    assert [answer.rows for answer in answers] == [(f'{{"before":"{kept[0]}"}}'.encode(),), (b'{"before":"/"}',)]
    assert (os.getcwd(), dict(os.environ), signal.getsignal(signal.SIGTERM), list(sys.path)) == kept  # noqa: PTH109
    code.close()  # what it prints is there then
    assert capfd.readouterr().out == ""


def test_a_step_that_ends_its_process_has_failed_and_the_next_has_another(tmp_path: Path, code: UserProcess) -> None:
    with pytest.raises(UserProcessDied, match="its process has ended with exit code 7"):
        code.do(step(tmp_path, "exits"))
    with pytest.raises(UserProcessDied, match="its process was ended by SIGSEGV"):
        code.do(step(tmp_path, "crashes"))
    assert code.do(step(tmp_path, "changes")).error is None


def hanging(folder: Path, code: UserProcess) -> tuple[threading.Thread, list[str]]:
    """A thread that waits for a step that never returns, and what it comes to."""
    begun, ended = folder / "begun", []

    def waits() -> None:
        try:
            code.do(step(folder, "hangs", f'{{"begun":"{begun}"}}'.encode()))
        except UserProcessDied as died:
            ended.append(str(died))

    os.mkfifo(begun)
    thread = threading.Thread(target=waits)
    thread.start()
    begun.open().close()  # waits until it has begun
    return thread, ended


def test_a_step_that_hangs_can_be_left(tmp_path: Path, code: UserProcess) -> None:
    thread, ended = hanging(tmp_path, code)
    code.close()
    thread.join(10)
    assert ended == ["its process was ended by SIGKILL"]


async def test_a_hand_over_that_hangs_is_left_where_nobody_wants_it_any_more(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    async with (
        open_ledger(empty_ledger(tmp_path / "ledger.db"), clock=SystemClock()) as ledger,
        anyio.create_task_group() as group,
    ):
        await group.start(ledger.writer.serve)
        run = await owed_to(ledger, tmp_path, 1, "steps.py:hangs_there")
        (tmp_path / "steps.py").write_text(f"{BOLD}\ndef hangs_there(row):\n    hangs({{'begun': {str(begun)!r}}})\n")
        relay = RowHandover(ledger=ledger, files=Files(ledger), session_of=lambda _: None, warn=print)
        await group.start(relay.serve)
        with anyio.fail_after(30):
            await anyio.to_thread.run_sync(lambda: begun.open().close())  # waits until it has begun
            relay.leave(run.id)
            while await ledger.flows.handovers.is_owed(run.id):
                await ledger.writer.flush()
        counts = await ledger.runs.counts(run.id)
        assert {state: count for state, count in counts.items() if count} == {"failed": 1}
        group.cancel_scope.cancel()


def test_its_process_ends_with_ours_whatever_it_does(tmp_path: Path, code: UserProcess) -> None:
    thread, ended = hanging(tmp_path, code)
    process = code._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()  # as when this process is killed
    thread.join(10)
    assert ended == ["its process has ended with exit code 0"]


def test_nothing_is_left_of_one_that_nobody_has_any_more(tmp_path: Path) -> None:
    code = UserProcess()
    code.do(step(tmp_path, "changes"))
    process = code._process
    assert isinstance(process, subprocess.Popen)
    del code
    assert process.returncode == -signal.SIGKILL


def test_whatever_is_raised_there_is_an_answer_here(tmp_path: Path, code: UserProcess) -> None:
    file = file_of_functions(tmp_path / "many.py")
    for kind in IN_THREADS:
        assert code.do(StepCall(reference=f"{file}:{kind}", given=b"{}")).error, kind
        answer = code.do(CheckCall(reference=f"{file}:{kind}", called="--check", output=b"1"))
        assert (answer.error is None) is not (answer.died is None), kind
    assert code.do(StepCall(reference=f"{file}:error", given=b'{"a":"\\ud800"}')).error
    refused = code.do(CheckLoad(reference=f"{file}:missing", called="--check many.py:missing")).refused
    assert "defines no missing" in (refused or "")
