"""Runs are renamed, deleted and exported; never while somebody works on their ledger, or takes in for them."""

import json
from functools import partial
from pathlib import Path

import anyio
import pytest

from orchestrator.api.admin.run_admin import Deleted, Renamed, delete, rename
from orchestrator.api.admin.run_export import Exported, export_run
from orchestrator.api.hosting.follower import followed_run
from orchestrator.api.inspect.status import show, status
from orchestrator.api.outcomes.result_files import write_files
from orchestrator.api.outcomes.result_lines import results
from orchestrator.api.runs.process_commands import control
from orchestrator.clock import SystemClock
from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.errors import IntakeBusyError, StoppedError, StorageError, UsageError
from orchestrator.ledger import Ledger, command_ledger, intake_lock, open_ledger
from orchestrator.settings.command_requests import ControlAction, ResultsRequest
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import Include, OnMisfit, ResultOrder
from tests.ledger.ledgers import PATHS, a_run, gone, job_now, write_ledger

CLOCK = SystemClock()


def a_ledger(folder: Path, settings: RunSettings | None = None) -> Path:
    """A ledger with the run `night`, of one job in each state, and the empty one `noon`."""

    async def made(ledger: Ledger) -> None:
        await a_run(ledger, len(PATHS), name="night", settings=settings or RunSettings())
        for job, path in enumerate(PATHS.values(), start=1):
            await gone(ledger, await job_now(ledger, job), *path, at=CLOCK.now() + job * 10_000_000)
        await a_run(ledger, 0, name="noon")

    write_ledger(folder / "l.db", made, clock=CLOCK)
    return folder / "l.db"


def test_a_run_is_deleted_once_nothing_of_it_is_lost_without_asking(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    with pytest.raises(UsageError, match="night: jobs of it are at the service, and their results would be lost"):
        anyio.run(delete, ledger, "nigh")
    anyio.run(partial(control, ledger, "night", ControlAction.CANCEL))
    assert anyio.run(delete, ledger, "nigh") == Deleted(run="night", jobs=7)
    assert [run.run for run in anyio.run(status, ledger)] == ["noon"]
    with pytest.raises(UsageError, match="no run called 'night'"):
        anyio.run(delete, ledger, "night")


def test_a_run_is_renamed_to_a_name_that_is_free(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    assert anyio.run(rename, ledger, "nigh", "day") == Renamed(run="day", was="night")
    assert anyio.run(show, ledger, "day").jobs["total"] == 7
    assert anyio.run(rename, ledger, "day", "day") == Renamed(run="day", was="day")
    with pytest.raises(UsageError, match="there is a run called 'noon' already"):
        anyio.run(rename, ledger, "day", "noon")
    with pytest.raises(UsageError, match="1 to 200 printable characters"):
        anyio.run(rename, ledger, "day", "\n")


def test_neither_while_somebody_takes_in_or_does_not_answer(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    for ask in (partial(delete, ledger, "night"), partial(rename, ledger, "night", "day")):
        with intake_lock(ledger, "night", now=0), pytest.raises(IntakeBusyError, match="rows for the run 'night'"):
            anyio.run(ask)
    with intake_lock(ledger, "day", now=0), pytest.raises(IntakeBusyError, match="rows for the run 'day'"):
        anyio.run(rename, ledger, "night", "day")
    assert anyio.run(show, ledger, "night").jobs["total"] == 7


def test_a_run_is_exported_to_files_that_are_named_or_known(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    with pytest.raises(UsageError, match="night was never written to files; name one for its results with --output"):
        anyio.run(export_run, ledger, "night", None, None)
    output = tmp_path / "o.jsonl"
    written = anyio.run(export_run, ledger, "night", output, None)
    errors = tmp_path / "o.jsonl.errors.jsonl"
    assert written == Exported(run="night", output=str(output), errors=str(errors), results=1, failures=2)
    assert [len(path.read_bytes().splitlines()) for path in (output, errors)] == [1, 2]
    with pytest.raises(UsageError, match="belongs to the ledger"):
        anyio.run(export_run, ledger, "night", ledger, None)

    folder = tmp_path / "known"
    folder.mkdir()
    known = RunSettings(output=str(folder / "o"), errors=str(folder / "e"))
    assert anyio.run(export_run, a_ledger(folder, known), "night", None, None).errors == str(folder / "e")


def test_an_export_goes_to_no_file_of_another_machine(tmp_path: Path) -> None:
    there = RunSettings(output=str(tmp_path / "o"), errors=str(tmp_path / "e"), files_on="elsewhere")
    ledger = a_ledger(tmp_path, there)
    with pytest.raises(UsageError, match=r"night was written last to .*/o on elsewhere, and this is .* --output"):
        anyio.run(export_run, ledger, "night", None, None)
    assert not (tmp_path / "o").exists()
    assert anyio.run(export_run, ledger, "night", tmp_path / "o", None).results == 1


def test_who_follows_a_run_goes_on_under_its_new_name_and_is_told_when_it_is_deleted(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)

    async def followed() -> None:
        async with command_ledger(ledger, clock=CLOCK) as opened:
            run = await opened.runs.named("noon")
            assert run is not None
            follower = await followed_run(opened, run, SilentConsole())
            await rename(ledger, "noon", "day")
            await opened.runs.create(
                name="noon", service_url="http://s", endpoint="e", source="-", settings=RunSettings()
            )
            await follower.look()
            assert (follower.run.id, follower.run.name) == (run.id, "day")
            await delete(ledger, "day")
            await follower.look()

    with pytest.raises(StoppedError, match="the run 'day' was deleted meanwhile"):
        anyio.run(followed)


def test_the_files_of_a_run_that_is_deleted_meanwhile_stay_as_they_are(tmp_path: Path) -> None:
    ledger, output = a_ledger(tmp_path), tmp_path / "o.jsonl"
    output.write_text("kept\n")

    async def written() -> None:
        async with command_ledger(ledger, clock=CLOCK) as opened:
            run = await opened.runs.named("noon")
            assert run is not None
            await opened.runs.take_back(run.id)
            await opened.runs.intakes.clear("noon")
            await write_files(opened, run.id, output, tmp_path / "e.jsonl")

    with pytest.raises(StorageError, match="the run was deleted meanwhile"):
        anyio.run(written)
    assert output.read_text() == "kept\n"


@pytest.mark.parametrize(
    ("where", "failed", "lines"),
    [
        ("", False, [5]),
        ("line>5", False, []),
        ("line<6", False, [5]),
        ("line<=6", True, [6]),
        ("class=timed_out", True, []),
    ],
)
def test_results_are_those_that_a_filter_means(tmp_path: Path, where: str, failed: bool, lines: list[int]) -> None:
    ledger = a_ledger(tmp_path)
    for order in (None, *ResultOrder):
        found: list[bytes] = []
        request = ResultsRequest(
            ledger=ledger, name="night", where=where, failed=failed, include=(Include.LINE,), order=order
        )
        anyio.run(results, request, found.append)
        assert [json.loads(line)["line"] for line in found] == lines


def test_what_is_followed_is_what_a_filter_means(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"

    async def ended() -> None:
        async with open_ledger(ledger, clock=CLOCK) as opened, anyio.create_task_group() as tasks:
            await tasks.start(opened.writer.serve)
            await a_run(opened, 4)
            for job in (4, 2, 3, 1):
                await gone(opened, await job_now(opened, job), *PATHS[State.SUCCEEDED], at=CLOCK.now() - 60_000_000)
            tasks.cancel_scope.cancel()

    anyio.run(ended)
    for where, lines in ("line>1", [4, 2, 3]), ("input.line<=3 line>1", [2, 3]):
        found: list[bytes] = []
        request = ResultsRequest(ledger=ledger, where=where, follow=True, include=(Include.LINE,))
        anyio.run(results, request, found.append)
        assert [json.loads(line)["line"] for line in found] == lines
        assert "input" not in json.loads(found[0])


def test_an_export_knows_the_columns_that_are_null_in_every_row(tmp_path: Path) -> None:
    writing = OutputSettings(flatten=("output", "output.none"), on_misfit=OnMisfit.JSON)
    written = anyio.run(
        partial(export_run, a_ledger(tmp_path), "night", tmp_path / "o.csv", tmp_path / "e.csv", writing=writing)
    )
    assert (written.results, written.empty_columns) == (1, ("output.none",))


def test_a_filter_means_what_is_exported(tmp_path: Path) -> None:
    ledger, output, errors = a_ledger(tmp_path), tmp_path / "o.jsonl", tmp_path / "e.jsonl"
    written = anyio.run(partial(export_run, ledger, "night", output, errors, where="state=failed or line=5"))
    assert (written.results, written.failures) == (1, 1)
    with pytest.raises(UsageError, match="name a file for the results of these jobs with --output"):
        anyio.run(partial(export_run, ledger, "night", None, None, where="line=5"))


def test_a_filter_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the filter cannot be understood"):
        anyio.run(results, ResultsRequest(ledger=a_ledger(tmp_path), name="night", where="state="), lambda _: None)
