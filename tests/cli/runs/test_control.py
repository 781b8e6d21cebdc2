"""`pause`, `continue` and `cancel` leave a word for whoever works on the run."""

import inspect
import json
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.runs.keyword_options import grace_of
from orchestrator.api.runs.process_commands import control, prioritize, retry
from orchestrator.cli.runs.control import show_control, unpause
from orchestrator.cli.runs.retry import start_command
from orchestrator.clock import SystemClock
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.ledger.commands.command_types import ENDED, Action
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transactions.run_controls import RunControls
from orchestrator.settings.command_requests import ControlAction
from orchestrator.settings.run_request import Configuration
from orchestrator.settings.run_settings import RunSettings
from orchestrator.views.status import RunControl
from tests.cli.command_line import Result, give, requested, shown
from tests.cli.small_ledger import a_ledger
from tests.factories import a_row
from tests.ledger.ledgers import added, write_ledger

CONTROL = RunControl(run="captions", paused=False, cancelled=False, holder="process 7 since noon", outcome=None)
HELD = "process 7 since noon"


def said(found: RunControl, done: str = "to try 2 jobs again", *, as_json: bool = False, verb: str = "do") -> Result:
    return shown(partial(show_control, found, done, as_json=as_json, verb=verb))


@pytest.mark.parametrize("action", ControlAction)
def test_each_wish_is_done_to_the_run_of_that_name(action: ControlAction) -> None:
    agreed = ("--yes",) if action is ControlAction.CANCEL else ()
    words = (action, "captions", "--ledger", str(a_ledger(Path("l.db"), queued=1)), *agreed)
    result = give(*words)
    assert (result.exit_code, "it holds from the next start" in result.stderr) == (0, True)
    assert json.loads(give(*words, "--json").stdout)["paused"] is (action is ControlAction.PAUSE)


def test_what_the_process_at_work_says_is_told() -> None:
    nothing = "nothing more of it is sent"
    follows = said(replace(CONTROL, outcome=nothing), "paused").stderr
    assert f"captions is paused; {HELD} follows: {nothing}" in follows
    assert f"{HELD} has not answered yet" in said(CONTROL, "cancelled").stderr
    begun = replace(CONTROL, so_far=23_000)
    going = f"captions is to try 2 jobs again; {HELD} has begun: 23,000 jobs so far, and it goes on\n"
    assert said(begun).stderr == going
    assert json.loads(said(begun, as_json=True).stdout)["so_far"] == 23_000
    assert "it holds from the next start: 23,000 jobs so far" in said(replace(begun, holder=None)).stderr
    idle = said(replace(CONTROL, holder=None, outcome=nothing), "paused").stderr
    assert f"captions is paused; it holds from the next start: {nothing}" in idle


def test_what_starts_it_is_named_as_a_command() -> None:
    def command(found: RunControl) -> str:
        return start_command(found, "https://api.example", Path("orchestrator.db"), Configuration())

    assert command(CONTROL) == "orchestrator resume captions"
    of_flow = replace(CONTROL, flow="nightly@20270328T010000Z")  # whose other stages are to go on, too
    assert command(of_flow) == "orchestrator tick"


@pytest.mark.parametrize("action", ControlAction)
def test_of_a_run_that_has_finished_there_is_nothing_to_do(action: ControlAction) -> None:
    a_ledger(succeeded=1)
    assert give(action, "captions").stderr == f"captions has finished; nothing to {action}\n"


def test_a_retry_and_a_priority_are_handed_on() -> None:
    a_ledger(failed=2, queued=1)
    retried = give("retry", "captions", "--yes").stderr
    assert "captions is to try 2 jobs again; it holds" in retried
    assert retried.endswith("\nstart it: orchestrator resume captions\n")
    assert "captions is of priority -3; it holds" in give("priority", "captions", "-3").stderr
    assert give("priority", "captions", "99").exit_code == 2


def test_to_cancel_is_asked_with_counts_and_done_with_yes() -> None:
    a_ledger(queued=3, outstanding=2, uncertain=1, succeeded=1)
    refused = give("cancel", "captions")
    assert refused.exit_code == 2
    assert "cancel captions: 3 queued and 3 at the service have no outcome yet?" in refused.stderr
    assert "give --yes. Nothing was done" in refused.stderr
    assert "captions is cancelled" not in refused.stderr
    assert "captions is cancelled" in give("cancel", "captions", "--yes").stderr


@pytest.mark.parametrize("words", [("unpause",), ("continue",), ("runs", "unpause"), ("runs", "continue")])
def test_unpause_is_continue_and_both_are_verbs_of_runs(words: tuple[str, ...]) -> None:
    assert requested(*words, "captions")[:2] == (inspect.unwrap(unpause), {"name": "captions"})


async def taken_in(ledger: Ledger, *, accepted: bool = True, jobs: int = 0) -> Run:
    """The run `r`, of so many rows."""
    run = await ledger.runs.create(name="r", service_url="http://s", endpoint="e", source="-", settings=RunSettings())
    intake = await ledger.runs.intakes.start(run)
    await added(ledger, intake, [a_row(n) for n in range(1, jobs + 1)])
    if accepted:
        await ledger.runs.intakes.accept(intake)
    return run


def test_a_run_that_is_not_taken_in_yet_takes_no_commands(tmp_path: Path) -> None:
    async def made(ledger: Ledger) -> None:
        await taken_in(ledger, accepted=False)

    write_ledger(tmp_path / "l.db", made)
    with pytest.raises(UsageError, match="r: it is not taken in yet"):
        anyio.run(partial(control, tmp_path / "l.db", "r", ControlAction.CANCEL))


@pytest.mark.parametrize("jobs", [0, 1])
def test_the_wish_is_kept_in_the_ledger_until_it_is_lifted_if_there_is_anything_left(jobs: int, tmp_path: Path) -> None:
    async def made(ledger: Ledger) -> None:
        await taken_in(ledger, jobs=jobs)

    write_ledger(tmp_path / "l.db", made)
    asked = [
        anyio.run(partial(control, tmp_path / "l.db", "r", action))
        for action in (ControlAction.PAUSE, ControlAction.CANCEL, ControlAction.CONTINUE)
    ]
    wished = [(True, False), (True, True), (False, False)] if jobs else [(False, False)] * 3
    assert [(each.paused, each.cancelled) for each in asked] == wished
    assert [each.has_ended for each in asked] == [not jobs] * 3
    assert asked[1].outcome == ("nothing more of it is sent; 1 unfinished job to be cancelled" if jobs else ENDED.text)
    given = anyio.run(partial(prioritize, tmp_path / "l.db", "r", 4))
    assert given.outcome == "it takes its turns with priority 4"
    with pytest.raises(UsageError, match="priority was refused: priority 40 is not from -10 to 10"):
        anyio.run(partial(prioritize, tmp_path / "l.db", "r", 40))
    waiting = anyio.run(partial(retry, tmp_path / "l.db", "r"))
    assert (waiting.holder, waiting.outcome) == (None, None), "the next process does it"
    with pytest.raises(UsageError, match="no run called"):
        anyio.run(partial(control, tmp_path / "l.db", "other", ControlAction.PAUSE))


def test_what_was_asked_by_somebody_who_was_killed_is_done_before_what_is_asked_later(tmp_path: Path) -> None:
    async def made(ledger: Ledger) -> None:
        run = await taken_in(ledger, jobs=1)
        await ledger.commands.ask(Action.CONTINUE, run=run.id)  # and no more

    async def left() -> tuple[int, RunControls]:
        async with read_ledger(tmp_path / "l.db", clock=SystemClock()) as ledger:
            return len(await ledger.commands.pending()), await ledger.runs.controls(1)

    write_ledger(tmp_path / "l.db", made)
    anyio.run(partial(control, tmp_path / "l.db", "r", ControlAction.CANCEL))
    assert anyio.run(left) == (0, RunControls(cancel=True))


def test_a_grace_is_handed_on() -> None:
    assert grace_of("2h", str) == 7_200_000_000
    a_ledger(outstanding=2)
    assert "the jobs of captions are not resumable" in give("cancel", "captions", "--yes", "--grace", "2h").stderr
    refused = give("cancel", "captions", "--yes", "--grace", "soon")
    assert (refused.exit_code, "--grace" in refused.stderr) == (2, True)
