"""A ledger that is deleted, moved or replaced while a run works on it: the run ends, says so, and loses nothing."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.processes import FAST, Desk, Program, Service

pytestmark = pytest.mark.system

JOBS = 30
DONE = 10
LEDGER = "orchestrator.db"


def at_work(desk: Desk, service: Service, folder: str = "w") -> Program:
    """A run with its ledger in a folder of its own: ten of its jobs are collected, the others are at the service."""
    (desk.folder / folder).mkdir()
    desk.inputs(DONE)
    command = (
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--ledger", f"{folder}/{LEDGER}",
        "--output", "results.jsonl", "--json", *FAST,
    )  # fmt: skip
    assert desk.call(*command).exit_code == 0
    service.change(hold=True)
    desk.inputs(JOBS)
    program = desk.start(*command)
    service.wait("accepted", JOBS)
    desk.until_outstanding(JOBS - DONE, f"{folder}/{LEDGER}")
    return program


def goes_on(desk: Desk, service: Service, ledger: str) -> None:
    service.change(hold=False)
    resumed = desk.call("resume", "prompts", "--ledger", ledger, "--output", "results.jsonl", "--json")
    assert resumed.exit_code == 0, resumed
    assert desk.ids() == [f"row-{n}" for n in range(JOBS)]
    assert len(service.accepted()) == JOBS, "nothing was paid twice"


def _deleted(folder: Path) -> None:
    for file in folder.glob(f"{LEDGER}*"):
        file.unlink()


def _log_deleted(folder: Path) -> None:
    (folder / f"{LEDGER}-wal").unlink()


def _moved_without_its_log(folder: Path) -> None:
    (folder / LEDGER).rename(folder / "elsewhere.db")


def _replaced(folder: Path) -> None:
    shutil.copy(folder / LEDGER, folder / "new")
    (folder / "new").rename(folder / LEDGER)


def _folder_deleted(folder: Path) -> None:
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "lose",
    [
        _replaced,
        *(
            pytest.param(lose, marks=pytest.mark.slow)
            for lose in (_deleted, _log_deleted, _moved_without_its_log, _folder_deleted)
        ),
    ],
    ids=lambda f: f.__name__,
)
def test_a_ledger_that_is_lost_under_a_run_is_noticed_and_saved(
    desk: Desk, service: Service, lose: Callable[[Path], None]
) -> None:
    program = at_work(desk, service)

    lose(desk.folder / "w")
    ended = program.ended(within_s=15)

    assert ended.exit_code == 3, ended
    assert "gone, or another file, while this run worked with it; nothing more was sent" in ended.stderr
    assert ended.summary["jobs"]["outstanding"] == JOBS - DONE
    saved = re.search(r"go on with --ledger (\S+\.rescued-\S+)", ended.stderr)
    assert saved, ended
    goes_on(desk, service, saved[1])


@pytest.mark.slow
def test_a_ledger_that_is_moved_with_all_that_belongs_to_it_is_not_copied_but_named(
    desk: Desk, service: Service
) -> None:
    program = at_work(desk, service)

    (desk.folder / "w").rename(desk.folder / "there")
    ended = program.ended(within_s=15)

    assert ended.exit_code == 3, ended
    there = desk.folder.resolve() / "there" / LEDGER
    assert f"The ledger is now {there}: move it back, or go on with --ledger {there}" in ended.stderr
    assert not list(desk.folder.rglob("*.rescued-*"))
    goes_on(desk, service, str(there))


@pytest.mark.slow
def test_without_its_lock_a_run_ends_and_its_ledger_is_as_it_was(desk: Desk, service: Service) -> None:
    program = at_work(desk, service)

    (desk.folder / "w" / f"{LEDGER}.lock").unlink()
    ended = program.ended(within_s=15)

    assert ended.exit_code == 3, ended
    assert "The ledger is unharmed: give the same command again" in ended.stderr
    goes_on(desk, service, f"w/{LEDGER}")
