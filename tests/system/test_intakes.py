"""Rows taken in beside a process that works: cut off, refused, or given twice, they cost nobody anything."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import BinaryIO

import pytest

from tests.system.processes import FAST, HOST, Desk, Program, Service, lines_of, looks
from tests.system.test_full_disk import files_up_to

pytestmark = pytest.mark.system

ENOUGH = 20_500
"""So many rows are more than wait in memory until some of them are taken in."""

SERVES = "is handed to process"


def run(desk: Desk, service: Service, name: str) -> Program:
    place = ("--endpoint", "ep1", "--serverless-url", service.url, "--output", f"{name}.out", "--json", *FAST)
    return desk.start("run", f"{name}.jsonl", *place)


@contextmanager
def at_work(desk: Desk, service: Service, jobs: int = 10) -> Iterator[Program]:
    """A process that works on the ledger; its jobs finish after the block."""
    service.change(hold=True)
    desk.inputs(jobs, "one.jsonl")
    first = run(desk, service, "one")
    service.wait("accepted", jobs)
    yield first
    service.change(hold=False)
    ended = first.ended()
    assert ended.exit_code == 0, ended
    assert len(desk.ids("one.out")) == jobs


@contextmanager
def feeding(desk: Desk, name: str) -> Iterator[BinaryIO]:
    """Writes what a process reads of `name`, from when it begins to."""
    pipe = desk.folder / name
    if not pipe.exists():
        os.mkfifo(pipe)
    with pipe.open("wb", buffering=0) as feed:
        yield feed


def until_rows(desk: Desk, more_than: int) -> None:
    for _ in looks():
        with closing(sqlite3.connect(desk.folder / "orchestrator.db")) as ledger:
            if ledger.execute("SELECT count(*) FROM jobs").fetchone()[0] > more_than:
                return
    raise AssertionError("nothing was taken in")


def rows(number: int) -> bytes:
    return lines_of({"input": {"n": n}} for n in range(number)).encode()


@pytest.mark.parametrize("end", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_who_is_cut_off_in_the_middle_of_an_intake_leaves_nothing_that_counts(
    desk: Desk, service: Service, end: signal.Signals
) -> None:
    with at_work(desk, service):
        cut_off = run(desk, service, "two")
        with feeding(desk, "two.jsonl") as feed:
            feed.write(rows(ENOUGH))
            until_rows(desk, 10)
            cut_off.signal(end)
            assert cut_off.ended().exit_code in {-signal.SIGKILL, 130}
        assert len(list(desk.folder.glob("orchestrator.db.intake-*"))) == (end is signal.SIGKILL)

        (desk.folder / "two.jsonl").unlink()
        desk.inputs(30, "two.jsonl")
        again = run(desk, service, "two")
        again.until_said(SERVES)
        service.wait("accepted", 40)
    assert again.ended().exit_code == 0
    assert len(desk.ids("two.out")) == 30
    assert desk.states() == {"succeeded": 40}
    assert not list(desk.folder.glob("orchestrator.db.intake-*"))
    assert len(service.accepted()) == 40


@pytest.mark.slow
def test_the_same_command_given_twice_at_once_simply_works(desk: Desk, service: Service) -> None:
    with at_work(desk, service):
        first = run(desk, service, "two")
        with feeding(desk, "two.jsonl") as feed:
            feed.write(rows(5))
            second = run(desk, service, "two")
            told = second.until_said("this one waits for it")
            assert f"process {first.pid} on {HOST} since" in told
            feed.write(b"no row\n")
        refused = first.ended()
        assert (refused.exit_code, "line 6" in refused.stderr) == (2, True), refused
        with feeding(desk, "two.jsonl") as feed:
            feed.write(rows(5))
        second.until_said(SERVES)
    ended = second.ended()
    assert ended.exit_code == 0, ended
    assert ended.stderr.count("this one waits for it") == 1
    assert len(desk.ids("two.out")) == 5


@pytest.mark.slow
def test_a_disk_that_is_full_for_who_takes_in_holds_up_nobody_else(desk: Desk, service: Service) -> None:
    with at_work(desk, service):
        desk.inputs(2_000, "two.jsonl", padding="x" * 1_000)
        place = ("--endpoint", "ep1", "--serverless-url", service.url, "--output", "two.out", "--json", *FAST)
        size = (desk.folder / "orchestrator.db-wal").stat().st_size
        ended = desk.call("run", "two.jsonl", *place, before=files_up_to(size + 500_000))
        assert ended.exit_code == 3, ended
        assert "free some space on its disk, then resume" in ended.stderr
        desk.inputs(3, "two.jsonl")
        again = run(desk, service, "two")
        again.until_said(SERVES)
    assert again.ended().exit_code == 0
    assert desk.states() == {"succeeded": 13}


@pytest.mark.slow
def test_a_ledger_that_disappears_while_rows_are_taken_in_is_told_by_everybody(desk: Desk, service: Service) -> None:
    service.change(hold=True)
    desk.inputs(10, "one.jsonl")
    first = run(desk, service, "one")
    service.wait("accepted", 10)
    second = run(desk, service, "two")
    with feeding(desk, "two.jsonl") as feed:
        feed.write(rows(ENOUGH))
        until_rows(desk, 10)
        for file in desk.folder.glob("orchestrator.db*"):
            file.unlink()
        with suppress(BrokenPipeError):  # it may have noticed already
            feed.write(rows(ENOUGH))
    for program, told in ((first, "gone, or another file"), (second, "is not in its place any more")):
        ended = program.ended()
        assert ended.exit_code == 3, ended
        assert told in ended.stderr
