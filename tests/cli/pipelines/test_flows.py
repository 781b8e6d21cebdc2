"""`tick`, `trigger`, `backfill`, `schedules` and `flows`: what they hand over, and what they show."""

import json
from pathlib import Path

import msgspec
import pytest

from orchestrator.api.flows.flows import FlowShown, StageStatus
from orchestrator.api.flows.schedules import ScheduleHistory, ScheduleTrouble
from orchestrator.api.foreground.tick import Ticked
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.settings.structs import ControlAction
from orchestrator.units import MINUTE_US
from tests.cli.command_line import give
from tests.cli.fake_api import FakeApp, invoke
from tests.cli.fake_flows import AT, FLOW, flow_status, schedule_status

LEDGER = Path("l.db")


def test_a_tick_says_what_it_did_or_who_does_it() -> None:
    program = FakeApp()
    result = invoke(program, "tick", "--for", "5m", "--ledger", "l.db")
    assert (result.exit_code, program.asked) == (0, [(LEDGER, 5 * MINUTE_US)])
    assert "nothing is due" in result.stderr

    program.ticked = Ticked(held_by=None, flows=(flow_status(), flow_status(FlowState.HELD)))
    result = invoke(program, "tick", "--json")
    assert "1 flow ended, 1 not yet" in result.stderr
    assert [flow["name"] for flow in json.loads(result.stdout)["flows"]] == [FLOW, FLOW]
    program.ticked = Ticked(held_by="host 77", flows=())
    assert "host 77 works on this ledger, and looks at the schedules" in invoke(program, "tick").stderr
    assert invoke(program, "tick", "--for", "soon").exit_code == 2


def test_a_trigger_asks_for_a_flow_and_says_who_begins_it() -> None:
    program = FakeApp()
    result = invoke(program, "trigger", "captions", "--at", "2026-01-01", "--ledger", "l.db", "--json")
    assert (result.exit_code, program.asked) == (0, [(LEDGER, "captions", "2026-01-01")])
    assert json.loads(result.stdout)["flows"] == [FLOW]
    assert f"{FLOW} is asked for; it begins with the next orchestrator serve or tick" in result.stderr
    program.held_by, program.was_known = "host 77", True
    assert f"{FLOW} was asked for before; host 77 begins it" in invoke(program, "trigger", "captions").stderr


@pytest.mark.parametrize(
    ("state", "code"),
    [(FlowState.SUCCEEDED, 0), (FlowState.PARTIAL, 1), (FlowState.FAILED, 1), (FlowState.RUNNING, 130)],
)
def test_who_waits_for_a_flow_is_told_how_it_ended_by_the_exit_code(state: FlowState, code: int) -> None:
    program = FakeApp()
    program.flow = flow_status(state, "because")
    result = invoke(program, "trigger", "captions", "--wait", "--json")
    assert result.exit_code == code
    assert json.loads(result.stdout)["state"] == state
    assert f"{FLOW}: {state}, because" in result.stderr
    assert "or now with --wait" not in result.stderr  # it was given


def test_a_backfill_shows_how_many_it_asks_for_and_asks_first() -> None:
    program = FakeApp()
    times = ("backfill", "captions", "--from", "2026-01-01", "--to", "2026-01-02")
    result = invoke(program, *times, "--parallel", "3", "--yes", "--ledger", "l.db", "--json")
    assert (result.exit_code, program.asked) == (
        0,
        [(LEDGER, "captions", "2026-01-01", "2026-01-02"), (LEDGER, 3, False)],
    )
    assert len(json.loads(result.stdout)["flows"]) == 2
    assert "2 flows wait behind those of the schedule" in result.stderr

    refused = invoke(program, *times)
    assert refused.exit_code == 2
    assert "begin 2 flows of captions, for 2026-01-01T00:00:00+00:00 to 2026-01-01T01:00:00+00:00?" in refused.stderr

    program.fires = msgspec.structs.replace(program.fires, known=2)
    result = invoke(program, *times)
    assert "no fire to be made up for: all 2 have a flow; add --again" in result.stderr
    assert program.asked[-1] == (Path("orchestrator.db"), 1, False)
    assert invoke(program, *times, "--again", "--yes").exit_code == 0
    assert program.asked[-1] == (Path("orchestrator.db"), 1, True)


def test_schedules_are_listed_with_when_they_fire_next_or_why_not() -> None:
    program = FakeApp()
    result = invoke(program, "schedules", COLUMNS="200")
    assert "2026-01-02T02:00:00+01:00" in result.stdout
    assert "1,000 waiting, 1 running" in result.stdout
    program.schedule = schedule_status(paused_at=AT, paused_until=AT + 60 * MINUTE_US)
    result = invoke(program, "schedules", "list", COLUMNS="200")
    assert "paused until 2026-01-01T02:00:00+01:00: stocktaking" in result.stdout
    assert json.loads(invoke(program, "schedules", "list", "--json").stdout)[0]["note"] == "stocktaking"


def test_the_next_fires_and_the_history_are_shown() -> None:
    program = FakeApp()
    assert "nothing fires by itself" in invoke(program, "schedules", "next").stderr
    program.next = [("captions", AT, "2026-01-01T01:00:00+01:00")]
    shown = invoke(program, "schedules", "next", "captions", "--most", "3").stdout
    assert shown.split()[-2:] == ["2026-01-01T01:00:00+01:00", "captions"]
    assert program.asked[-1] == (Path("orchestrator.db"), "captions", 3)
    assert json.loads(invoke(program, "schedules", "next", "--json").stdout)[0]["fire_at"] == AT

    assert "has not fired yet" in invoke(program, "schedules", "history", "captions").stderr
    program.history = [
        ScheduleHistory(fire_at=AT, what="succeeded", flow=FLOW),
        ScheduleHistory(fire_at=AT, until_at=AT, what="missed", fires=3, backfill="orchestrator backfill captions ..."),
    ]
    shown = invoke(program, "schedules", "history", "captions", "--most", "5", COLUMNS="200").stdout
    assert FLOW in shown
    assert "missed: 3 fires" in shown
    assert "orchestrator backfill captions ..." in shown


def test_names_of_flows_stand_whole_on_one_line_so_that_they_can_be_copied() -> None:
    program = FakeApp()
    program.history = [ScheduleHistory(fire_at=AT, what="failed", flow=FLOW, why="many words of why " * 20)]
    assert FLOW in invoke(program, "schedules", "captions", "--most", "5", COLUMNS="80").stdout


def test_a_check_exits_with_1_where_anything_is_wrong() -> None:
    program = FakeApp()
    assert invoke(program, "schedules", "check").exit_code == 0
    program.troubles = [ScheduleTrouble(pipeline="captions", kind="late", text="it has not ended")]
    result = invoke(program, "schedules", "check", "captions", "--json")
    assert (result.exit_code, json.loads(result.stdout)[0]["kind"]) == (1, "late")


def test_a_schedule_is_paused_continued_and_removed() -> None:
    program = FakeApp()
    program.schedule = schedule_status(paused_at=AT, paused_until=AT)
    paused = invoke(program, "schedules", "pause", "captions", "--note", "stocktaking", "--until", "2026-01-01")
    assert "captions is paused until 2026-01-01T01:00:00+01:00" in paused.stderr

    program.schedule = schedule_status()
    continued = invoke(program, "schedules", "continue", "captions", "--catch-up")
    ledger = Path("orchestrator.db")
    assert program.asked == [(ledger, "captions", "stocktaking", "2026-01-01"), (ledger, "captions", True)]
    assert "captions fires again, next at 2026-01-02T02:00:00+01:00" in continued.stderr

    assert invoke(program, "schedules", "remove", "captions").exit_code == 2
    removed = invoke(program, "schedules", "remove", "captions", "--yes", "--json")
    assert json.loads(removed.stdout)["name"] == "captions"


def test_flows_are_listed_and_shown_with_their_stages() -> None:
    program = FakeApp()
    program.flow = flow_status(FlowState.FAILED, "no input")
    result = invoke(program, "flows", "list", "captions", "--state", "failed", "--state", "held", "--most", "7")
    assert program.asked == [(Path("orchestrator.db"), "captions", (FlowState.FAILED, FlowState.HELD), 7)]
    assert "no input" in result.stdout
    [row] = json.loads(invoke(program, "flows", "--json").stdout)
    assert (row["name"], row["state"]) == (FLOW, "failed")

    stage = StageStatus(
        stage="caption", run="r", source="/in", sha256="ab", rows_in=1_000, done=400, jobs_per_s=2.0, eta_s=300.0
    )
    program.shown = FlowShown(flow=flow_status(), version=2, stages=(stage,))
    shown = invoke(program, "flows", "show", FLOW, COLUMNS="120").stdout
    for text in ("scheduled, by version 2 of captions", "/in (SHA-256 ab)", "1,000", "400", "2.0/s", "5 min"):
        assert text in shown
    assert json.loads(invoke(program, "flows", "show", FLOW, "--json").stdout)["stages"][0]["rows_in"] == 1_000


def test_a_flow_is_cancelled_with_its_runs_once_that_is_confirmed() -> None:
    program = FakeApp()
    program.flow = flow_status(FlowState.RUNNING)
    refused = invoke(program, "cancel", FLOW)
    assert refused.exit_code == 2
    assert f"cancel {FLOW}, which is running, with its runs?" in refused.stderr
    assert invoke(program, "cancel", FLOW, "--yes").exit_code == 0
    assert program.asked == [(Path("orchestrator.db"), FLOW, ControlAction.CANCEL)]


def test_serve_records_files_first() -> None:
    program = FakeApp()
    invoke(program, "serve", "--apply", "a.toml", "--apply", "b.toml", ORCHESTRATOR_API_KEY="k")
    [(request,)] = program.asked
    assert request.apply == (Path("a.toml"), Path("b.toml"))  # type: ignore[attr-defined]


def test_the_lineage_of_a_row_is_a_table_stage_by_stage() -> None:
    program = FakeApp()
    result = invoke(program, "flows", "lineage", FLOW, "r1/0", "--ledger", "l.db", COLUMNS="120")

    assert program.asked == [(LEDGER, FLOW, "r1/0")]
    assert [line.rstrip() for line in result.stdout.splitlines()[2:]] == [
        "caption  r1    succeeded      the input  2 rows",
        "embed    r1/0  failed (step)  r1",
    ]
    assert "there are more rows than these 2" in result.stderr
    assert json.loads(invoke(program, "flows", "lineage", FLOW, "r1/0", "--json").stdout)["rows"][1]["class"] == "step"


@pytest.mark.parametrize(
    ("command", "is_warned"),
    [(("tick",), True), (("trigger", "captions", "--wait"), True), (("trigger", "captions"), False)],
)
def test_a_key_that_would_travel_openly_is_worth_a_warning(
    command: tuple[str, ...], is_warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTRATOR_API_KEY", "secret")
    result = give(*command, "--serverless-url", "http://gpu.example")
    assert ("the API key travels unencrypted to http://gpu.example" in result.stderr) == is_warned
    assert "secret" not in result.stderr


def test_a_rerun_tells_the_new_runs_and_who_goes_on() -> None:
    program = FakeApp()
    result = invoke(program, "flows", "rerun", FLOW, "--from", "embed", "--failed", "--ledger", "l.db")
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"{FLOW} is carried out anew: {FLOW}/embed~2; it goes on with the next orchestrator" in result.stderr
    assert program.asked[-1] == ("rerun", LEDGER, FLOW, "embed", True)
    program.held_by = "process 7"
    told = invoke(program, "flows", "rerun", FLOW, "--from", "embed", "--json")
    assert json.loads(told.stdout) == {"flow": FLOW, "runs": [f"{FLOW}/embed~2"], "held_by": "process 7"}
