"""Ctrl-C, SIGTERM, a lost terminal and the impatient second Ctrl-C: the run stops in order or at once, and can be resumed either way."""

import fcntl
import os
import re
import shlex
import signal
import socket
import subprocess
import termios
from collections import Counter
from functools import partial

import pytest

from tests.system.processes import FAST, ORCHESTRATOR, SECONDS_MAX, Desk, Program, Service, resume_command_in

pytestmark = pytest.mark.system

JOBS = 60


def at_work(desk: Desk, service: Service, *more: str) -> Program:
    """A run of `JOBS` jobs, of which ten have finished and the others stay at the service."""
    desk.inputs(JOBS)
    program = desk.start(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "results.jsonl",
        *more, "--limit", "run=1000/1:100", "--limit", "status=2000/1:200",
    )  # fmt: skip
    service.wait("accepted", JOBS)
    return program


@pytest.mark.parametrize(
    ("number", "exit_code"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["Ctrl-C", "SIGTERM", "SIGHUP"],
)
def test_one_signal_stops_in_order_and_says_how_to_go_on(
    desk: Desk, service: Service, number: int, exit_code: int
) -> None:
    service.change(hold=True)
    program = at_work(desk, service, "--json", "--ledger", "my ledger.db")

    program.signal(number)
    ended = program.ended()

    assert ended.exit_code == exit_code, ended
    assert ended.summary["interrupted"] is True
    assert ended.summary["jobs"]["outstanding"] == JOBS
    assert desk.rows() == desk.rows("results.jsonl.errors.jsonl") == []
    assert re.search(
        rf"{JOBS} jobs still at the service; collect again within (29|30) min, or results expire", ended.stderr
    )
    command = resume_command_in(ended.stderr)
    assert "--ledger 'my ledger.db'" in command

    service.change(hold=False)
    # Once as a user would paste it, which takes twice as long.
    resumed = desk.shell(command) if number == signal.SIGINT else desk.call(*shlex.split(command)[1:])
    assert resumed.exit_code == 0, resumed
    assert desk.ids() == [f"row-{n}" for n in range(JOBS)]
    assert len(service.accepted()) == JOBS


@pytest.mark.slow
def test_what_has_finished_is_in_the_files_of_an_interrupted_run(desk: Desk, service: Service) -> None:
    desk.inputs(5)
    place = ("--endpoint", "ep1", "--serverless-url", service.url, "--output", "results.jsonl", *FAST)
    assert desk.call("run", "prompts.jsonl", *place).exit_code == 0
    service.change(hold=True)
    desk.inputs(8)
    program = desk.start("run", "prompts.jsonl", *place)
    service.wait("accepted", 8)

    program.signal(signal.SIGINT)

    assert program.ended().exit_code == 130
    assert desk.ids() == [f"row-{n}" for n in range(5)]


@pytest.mark.slow
def test_a_second_signal_leaves_at_once_and_loses_nothing(desk: Desk, service: Service) -> None:
    service.change(silent=True)  # the first Ctrl-C waits up to 10 s for answers that never come
    program = at_work(desk, service)

    program.signal(signal.SIGINT)
    program.until_said("stopping")
    program.signal(signal.SIGINT)
    ended = program.ended()

    assert ended.exit_code == 130, ended
    assert "still at the service" not in ended.stderr, "as it says who stops in order"
    submitting = desk.states()["submitting"]
    service.change(silent=False)
    resumed = desk.call(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "results.jsonl",
        "--uncertain-after", "100ms", "--json", *FAST,
    )  # fmt: skip
    assert resumed.exit_code == 0, resumed
    assert f"up to {submitting} jobs may be paid again" in resumed.stderr
    assert desk.ids() == [f"row-{n}" for n in range(JOBS)]
    accepted = Counter(each["n"] for each in service.accepted())
    assert submitting == resumed.summary["uncertain"]["resubmitted"] == accepted.total() - JOBS


def take_terminal() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may have been started to ignore it
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.slow
def test_a_lost_terminal_stops_in_order_although_nothing_can_be_said_any_more(desk: Desk, service: Service) -> None:
    service.change(hold=True)
    desk.inputs(JOBS)
    ours, theirs = os.openpty()
    command = ("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, *FAST)
    program = subprocess.Popen(
        [ORCHESTRATOR, *command], cwd=desk.folder, env=desk.environment({"TERM": "xterm"}), start_new_session=True,
        stdin=theirs, stdout=theirs, stderr=theirs,
        preexec_fn=take_terminal,  # noqa: PLW1509  no thread of ours runs beside it
    )  # fmt: skip
    os.close(theirs)
    service.wait("accepted", JOBS)

    os.close(ours)

    assert program.wait(SECONDS_MAX) == 129
    assert desk.states() == {"outstanding": JOBS}


@pytest.mark.slow
def test_under_nohup_a_lost_terminal_is_nothing(desk: Desk, service: Service) -> None:
    service.change(hold=True)
    desk.inputs(JOBS)
    program = desk.start(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, *FAST,
        before=partial(signal.signal, signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    service.wait("accepted", JOBS)
    program.signal(signal.SIGHUP)
    service.change(hold=False)
    assert program.ended().exit_code == 0


@pytest.mark.slow
def test_a_lost_terminal_is_not_a_second_signal(desk: Desk, service: Service) -> None:
    service.change(silent=True)
    program = at_work(desk, service)
    program.signal(signal.SIGHUP)
    program.until_said("stopping")
    program.signal(signal.SIGHUP)
    service.change(silent=False)
    assert program.ended().exit_code == 129
    assert "submitting" not in desk.states()


def test_a_service_that_cannot_be_reached_is_told_and_waiting_for_it_can_be_interrupted(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"127.0.0.1:{taken.getsockname()[1]}"
    desk.inputs(30)
    program = desk.start("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", f"http://{closed}", "--json")

    program.until_said(f"no connection to {closed}")
    program.signal(signal.SIGINT)
    ended = program.ended()

    assert ended.exit_code == 130, ended
    assert ended.summary["jobs"]["queued"] == 30
    assert ended.stderr.count("no connection to") == 1
    assert "continue with: orchestrator resume prompts" in ended.stderr


@pytest.mark.slow
def test_interrupted_while_it_reads_the_input_it_takes_in_nothing(desk: Desk, service: Service) -> None:
    os.mkfifo(desk.folder / "slow.jsonl")
    program = desk.start("run", "slow.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--json")
    with (desk.folder / "slow.jsonl").open("w", encoding="utf-8") as pipe:  # opened once the program reads
        pipe.write('{"n": 1}\n')
        pipe.flush()
        program.signal(signal.SIGINT)
        ended = program.ended()

    assert ended.exit_code == 130, ended
    assert ended.summary["jobs"]["total"] == 0
    assert "give the same command again" in ended.stderr
    assert service.log()["counted"] == {}
    desk.folder.joinpath("slow.jsonl").unlink()
    desk.inputs(3, name="slow.jsonl")
    again = desk.call("run", "slow.jsonl", "--endpoint", "ep1", "--serverless-url", service.url)
    assert again.exit_code == 0, again
