"""`pause`, `continue` and `cancel` leave a word for whoever works on the run."""

import json
from functools import partial
from pathlib import Path

import anyio
import pytest

from orchestrator.api.runs.commands import control, prioritize, retry
from orchestrator.clock import SystemClock
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, open_ledger, read_ledger
from orchestrator.ledger.commands.command import ENDED, Action
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transactions.run_controls import RunControls
from orchestrator.settings.structs import Chosen, ControlAction, RunSettings
from tests.cli.fake_api import FakeApp, invoke, run_status
from tests.factories import a_row
from tests.ledger.ledgers import added


@pytest.mark.parametrize("action", ControlAction)
def test_each_wish_is_handed_on_with_the_name_of_the_run(action: ControlAction) -> None:
    app = FakeApp(runs=[run_status(succeeded=3)])
    result = invoke(app, action, "captions", "--ledger", "l.db")
    assert app.asked[-1] == (Path("l.db"), "captions", action)
    assert result.exit_code == 0
    assert "it holds from the next start" in result.stderr
    assert json.loads(invoke(app, action, "captions", "--json").stdout)["paused"] is (action is ControlAction.PAUSE)


def test_what_the_process_at_work_says_is_told() -> None:
    app = FakeApp(runs=[run_status(succeeded=3)])
    app.held_by, app.outcome = "process 7 since noon", "nothing more of it is sent"
    told = invoke(app, "pause", "captions").stderr
    assert "captions is paused; process 7 since noon follows: nothing more of it is sent" in told
    app.outcome = None
    assert "process 7 since noon has not answered yet" in invoke(app, "cancel", "captions").stderr
    app.so_far = 23_000
    begun = "captions is to try 2 jobs again; process 7 since noon has begun: 23,000 jobs so far, and it goes on\n"
    again = ("retry", "captions", "--yes")
    assert invoke(app, *again).stderr.endswith(begun)
    assert json.loads(invoke(app, *again, "--json").stdout)["so_far"] == 23_000
    app.held_by = None
    assert "it holds from the next start: 23,000 jobs so far" in invoke(app, *again).stderr
    assert invoke(app, *again).stderr.endswith("\nstart it: orchestrator resume captions\n")
    app.flow_of = "nightly@20270328T010000Z"  # whose other stages are to go on, too
    assert invoke(app, *again).stderr.endswith("\nstart it: orchestrator tick\n")
    assert invoke(app, *again, "--ledger", "l.db").stderr.endswith("\nstart it: orchestrator tick --ledger l.db\n")
    app.held_by, app.outcome = None, "nothing more of it is sent"
    told = invoke(app, "pause", "captions").stderr
    assert "captions is paused; it holds from the next start: nothing more of it is sent" in told


@pytest.mark.parametrize("action", ControlAction)
def test_of_a_run_that_has_finished_there_is_nothing_to_do(action: ControlAction) -> None:
    app = FakeApp(runs=[run_status(succeeded=3)])
    app.outcome, app.has_ended = ENDED.text, True
    assert invoke(app, action, "captions").stderr == f"captions has finished; nothing to {action}\n"


def test_a_retry_and_a_priority_are_handed_on() -> None:
    app = FakeApp(runs=[run_status()])
    assert "captions is to try 2 jobs again; it holds" in invoke(app, "retry", "captions", "--yes").stderr
    assert "captions is of priority -3; it holds" in invoke(app, "priority", "captions", "-3").stderr
    asked = [("captions", "", None), ("captions",), ("captions", Chosen()), ("captions", -3)]
    assert [each[1:] for each in app.asked] == asked
    assert invoke(app, "priority", "captions", "99").exit_code == 2


def test_to_cancel_is_asked_with_counts_and_done_with_yes() -> None:
    app = FakeApp(runs=[run_status(queued=3581, outstanding=280, uncertain=1, succeeded=4)])
    refused = invoke(app, "cancel", "captions")
    assert refused.exit_code == 2
    assert "cancel captions: 3,581 queued and 281 at the service have no outcome yet?" in refused.stderr
    assert "give --yes. Nothing was done" in refused.stderr
    assert ControlAction.CANCEL not in {each[-1] for each in app.asked}
    assert invoke(app, "cancel", "captions", "--yes").exit_code == 0
    assert app.asked[-1] == (Path("orchestrator.db"), "captions", ControlAction.CANCEL)


@pytest.mark.parametrize("words", [("unpause",), ("runs", "unpause"), ("runs", "continue")])
def test_unpause_is_continue_and_both_are_verbs_of_runs(words: tuple[str, ...]) -> None:
    app = FakeApp()
    assert invoke(app, *words, "captions").exit_code == 0
    assert app.asked == [(Path("orchestrator.db"), "captions", ControlAction.CONTINUE)]


async def taken_in(ledger: Ledger, *, accepted: bool = True, jobs: int = 0) -> Run:
    """The run `r`, of so many rows."""
    run = await ledger.runs.create(name="r", service_url="http://s", endpoint="e", source="-", settings=RunSettings())
    intake = await ledger.intakes.start(run)
    await added(ledger, intake, [a_row(n) for n in range(1, jobs + 1)])
    if accepted:
        await ledger.intakes.accept(intake)
    return run


def test_a_run_that_is_not_taken_in_yet_takes_no_commands(tmp_path: Path) -> None:
    async def made() -> None:
        async with open_ledger(tmp_path / "l.db", clock=SystemClock()) as ledger, anyio.create_task_group() as tasks:
            await tasks.start(ledger.serve)
            await taken_in(ledger, accepted=False)
            tasks.cancel_scope.cancel()

    anyio.run(made)
    with pytest.raises(UsageError, match="r: it is not taken in yet"):
        anyio.run(partial(control, tmp_path / "l.db", "r", ControlAction.CANCEL))


@pytest.mark.parametrize("jobs", [0, 1])
def test_the_wish_is_kept_in_the_ledger_until_it_is_lifted_if_there_is_anything_left(jobs: int, tmp_path: Path) -> None:
    async def made() -> None:
        async with open_ledger(tmp_path / "l.db", clock=SystemClock()) as ledger, anyio.create_task_group() as tasks:
            await tasks.start(ledger.serve)
            await taken_in(ledger, jobs=jobs)
            tasks.cancel_scope.cancel()

    anyio.run(made)
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
    assert (waiting.held_by, waiting.outcome) == (None, None), "the next process does it"
    with pytest.raises(UsageError, match="no run called"):
        anyio.run(partial(control, tmp_path / "l.db", "other", ControlAction.PAUSE))


def test_what_was_asked_by_somebody_who_was_killed_is_done_before_what_is_asked_later(tmp_path: Path) -> None:
    async def made() -> None:
        async with open_ledger(tmp_path / "l.db", clock=SystemClock()) as ledger, anyio.create_task_group() as tasks:
            await tasks.start(ledger.serve)
            run = await taken_in(ledger, jobs=1)
            await ledger.commands.ask(Action.CONTINUE, run=run.id)  # and no more
            tasks.cancel_scope.cancel()

    async def left() -> tuple[int, RunControls]:
        async with read_ledger(tmp_path / "l.db", clock=SystemClock()) as ledger:
            return len(await ledger.commands.pending()), await ledger.runs.controls(1)

    anyio.run(made)
    anyio.run(partial(control, tmp_path / "l.db", "r", ControlAction.CANCEL))
    assert anyio.run(left) == (0, RunControls(cancel=True))


def test_a_grace_is_handed_on() -> None:
    app = FakeApp(runs=[run_status(outstanding=2)])
    assert invoke(app, "cancel", "captions", "--yes", "--grace", "2h").exit_code == 0
    assert app.asked[-1] == (Path("orchestrator.db"), "captions", ControlAction.CANCEL, 7_200_000_000)
    refused = invoke(app, "cancel", "captions", "--yes", "--grace", "soon")
    assert (refused.exit_code, "--grace" in refused.stderr) == (2, True)
