"""Files and standard streams that are no plain files: nothing hangs, nothing is lost, and a signal is always obeyed."""

import fcntl
import os
import resource
import select
import signal
import socket
import sqlite3
import sys
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.system.processes import FAST, SECONDS_MAX, Desk, Service, looks

pytestmark = pytest.mark.system

SMALLEST_PIPE = 4096
MEMORY_TOO_LITTLE = 128 * 1024 * 1024


def run_of(service: Service, output: str = "out.jsonl", errors: str = "err.jsonl") -> tuple[str, ...]:
    files = ("--output", output, "--errors", errors)
    return ("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, *FAST, *files)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["output", "errors"])
def test_a_pipe_that_nobody_reads_holds_nothing_up_and_costs_nothing(desk: Desk, service: Service, which: str) -> None:
    desk.inputs(3)
    os.mkfifo(desk.folder / "pipe")

    ended = desk.call(*run_of(service, **{which: "pipe"}))

    assert ended.exit_code == 3, ended
    assert "nobody reads the pipe, or not to its end; all of it is in the ledger" in ended.stderr
    assert desk.states() == {"succeeded": 3}
    again = desk.call(*run_of(service))
    assert again.exit_code == 0, again
    assert len(desk.ids("out.jsonl")) == 3
    assert service.counted("accepted") == 3


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="a pipe here holds all of it")
def test_a_pipe_whose_reader_takes_its_time_leaves_the_program_to_its_signals(desk: Desk, service: Service) -> None:
    desk.inputs(60)
    pipe = desk.folder / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
    program = desk.start(*run_of(service, output="pipe"))
    select.select([reader], [], [], SECONDS_MAX)  # it has begun to write, and cannot come to an end
    program.signal(signal.SIGINT)
    program.until_said("a second Ctrl-C leaves at once")
    program.signal(signal.SIGINT)
    ended = program.ended()
    os.close(reader)

    assert ended.exit_code == 130, ended


@pytest.mark.slow
def test_a_pipe_that_is_read_gets_every_row(desk: Desk, service: Service) -> None:
    desk.inputs(60)
    command = " ".join(run_of(service, output="pipe"))

    ended = desk.shell(f"mkfifo pipe; cat pipe > copy.jsonl & orchestrator {command} && wait && wc -l < copy.jsonl")

    assert (ended.exit_code, ended.stdout.strip()) == (0, "60"), ended


@pytest.mark.parametrize("which", ["output", "errors"])
def test_a_socket_is_refused_before_anything_is_sent(desk: Desk, service: Service, which: str) -> None:
    desk.inputs(3)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(desk.folder / "socket"))  # a path of theirs is short
        ended = desk.call(*run_of(service, **{which: "socket"}))

    assert ended.exit_code == 2, ended
    assert "cannot write socket: it is a socket; name a file" in ended.stderr
    assert service.log()["counted"] == {}


def test_an_input_that_nobody_writes_obeys_a_signal(desk: Desk, service: Service) -> None:
    os.mkfifo(desk.folder / "prompts.jsonl")
    program = desk.start(*run_of(service))
    until_reading(desk.folder / "orchestrator.db")
    program.signal(signal.SIGINT)
    ended = program.ended()

    assert ended.exit_code == 130, ended
    assert service.log()["counted"] == {}


def until_reading(ledger: Path) -> None:
    """Returns once an intake has begun; its next step is to open the input."""
    for _ in looks():
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as found:
            if found.execute("SELECT count(*) FROM intakes").fetchone()[0]:
                return
    raise AssertionError("never began to read")


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_streams_that_are_closed_at_the_start_are_no_reason_to_fail(
    desk: Desk, service: Service, closed: str
) -> None:
    desk.inputs(3)
    command = " ".join(run_of(service))

    ended = desk.shell(f"orchestrator {command} {closed}")

    assert ended.exit_code == 0, ended
    assert desk.call("verify", "--output", "out.jsonl", "--errors", "err.jsonl").exit_code == 0
    assert len(desk.ids("out.jsonl")) == 3
    assert not list(desk.folder.glob("*crash*"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc, and a limit that is kept")
def test_an_input_that_cannot_be_read_is_refused_whole(desk: Desk, service: Service) -> None:
    arguments = ("--name", "n", "--endpoint", "ep1", "--serverless-url", service.url)

    desk.write("blob", b"a\xff")
    broken = desk.call("run", "/proc/self/mem", *arguments)
    folder = desk.call("run", ".", *arguments)

    assert (broken.exit_code, folder.exit_code) == (2, 2), (broken, folder)
    assert "/proc/self/mem: 1 problem; nothing was sent\nline 1: from here on it cannot be read" in broken.stderr
    assert "file 1: blob: byte 2 is not UTF-8; is it a text file?" in folder.stderr, "what is the ledger's is no input"
    assert service.log()["counted"] == {}
    assert desk.states() == {}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc, and a limit that is kept")
def test_a_limit_of_memory_ends_a_run_in_words_and_it_can_be_resumed(desk: Desk) -> None:
    """At an embedded endpoint; libuv's look-up of names ends the process where it gets no threads, which is a kill."""
    desk.inputs(3)
    desk.write("mine.py", "def count(job):\n    return job['input']['n']\n")
    command = ("run", "prompts.jsonl", "--endpoint", "local:mine.py:count", "--output", "out.jsonl")

    limit = partial(resource.setrlimit, resource.RLIMIT_AS, (MEMORY_TOO_LITTLE, MEMORY_TOO_LITTLE))

    starved = Desk(desk.folder).call(*command, before=limit)
    assert starved.exit_code == 3, starved
    assert "gives no more memory or no more threads" in starved.stderr
    assert not list(desk.folder.glob("*crash*"))
    assert not list(desk.folder.glob(".*.tmp"))

    again = desk.call(*command)
    assert again.exit_code == 0, again
    assert len(desk.ids("out.jsonl")) == 3
