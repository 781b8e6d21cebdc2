"""A run is named by its name, by as much of it as is its own, or not at all where there is no other."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
import pytest

from orchestrator.api.admin.limits import limits
from orchestrator.api.inspect.status import latest, show, status
from orchestrator.api.outcomes.result_lines import results
from orchestrator.api.runs.process_commands import control
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.settings.command_requests import ControlAction, ResultsRequest
from tests.ledger.ledgers import a_run, write_ledger


def with_runs(path: Path, *names: str) -> Path:
    async def made(ledger: Ledger) -> None:
        for name in names:
            await a_run(ledger, 1, name=name)

    write_ledger(path, made)
    return path


def test_the_beginning_of_a_name_will_do_if_no_other_begins_like_it(tmp_path: Path) -> None:
    ledger = with_runs(tmp_path / "l.db", "night", "night-2", "noon")
    paused = anyio.run(partial(control, ledger, "noo", ControlAction.PAUSE))
    assert (paused.run, paused.paused) == ("noon", True)
    assert anyio.run(show, ledger, "night").run == "night"
    assert [each.runs for each in anyio.run(limits, ledger, "night-")] == [("night", "night-2", "noon")]
    with pytest.raises(UsageError, match="'n' can be any of 3 runs: night, night-2, noon"):
        anyio.run(show, ledger, "n")
    with pytest.raises(
        UsageError, match="no run called 'nigth' here; did you mean 'night'\\? there is: night, night-2"
    ):
        anyio.run(show, ledger, "nigth")


def test_the_only_run_needs_no_name(tmp_path: Path) -> None:
    lines: list[bytes] = []
    ledger = with_runs(tmp_path / "l.db", "night")
    assert anyio.run(show, ledger, None).jobs["queued"] == 1
    assert anyio.run(results, ResultsRequest(ledger=ledger), lines.append) == 0
    many = with_runs(tmp_path / "many.db", *(f"run-{n}" for n in range(12)))
    with pytest.raises(UsageError, match=r"name the run that you mean; there is: run-2, .*run-11 and 2 older ones"):
        anyio.run(show, many, None)


def test_of_many_runs_those_are_shown_that_are_not_finished_and_then_the_newest(tmp_path: Path) -> None:
    path = with_runs(tmp_path / "l.db", *(f"run-{n}" for n in range(1, 7)))
    with closing(sqlite3.connect(path)) as connection:  # all have ended but the second one
        connection.execute("UPDATE counts SET name = 'succeeded' WHERE run_id <> 2")
        connection.commit()
    found = anyio.run(latest, path, 3)
    assert [run.run for run in found.runs] == ["run-2", "run-5", "run-6"]
    assert (found.more, found.more_jobs) == (3, {"queued": 0, "succeeded": 3})
    every = anyio.run(latest, path, None)
    assert ([run.run for run in every.runs], every.more) == ([f"run-{n}" for n in range(1, 7)], 0)
    assert anyio.run(status, path) == list(every.runs)
