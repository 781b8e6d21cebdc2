"""`tick`, `trigger`, `backfill`, `schedules` and `flows`: what they hand over, and what they show."""

import json
from functools import partial
from pathlib import Path

import pytest

from orchestrator.api.flows.lineage import Lineage, RowOfFlow
from orchestrator.api.flows.triggers import Rerun, TriggeredFlows
from orchestrator.api.foreground.tick import Ticked
from orchestrator.cli.output.consoles import PlainConsole, QuietConsole
from orchestrator.cli.pipelines.flows import show_backfills, show_flow, show_flows, show_lineage, show_rerun
from orchestrator.cli.pipelines.schedules import show_fires, show_history, show_schedules, show_troubles
from orchestrator.cli.pipelines.serve import show_ticked
from orchestrator.cli.pipelines.trigger import show_flow_asked_for, show_flow_ended
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import FlowKind, FlowState
from orchestrator.units import HOUR_US, MINUTE_US
from orchestrator.views.costs import CostView
from orchestrator.views.flows import (
    AwaitedInput,
    FlowShown,
    FlowStatus,
    ScheduleHistory,
    ScheduleStatus,
    ScheduleTrouble,
    StageStatus,
)
from orchestrator.views.pages.pipelines import BackfillLine
from tests.cli.command_line import give, requested, shown

LEDGER = Path("l.db")
AT = 1_767_225_600_000_000
FLOW = "captions@20260101T000000Z"


def flow_status(state: FlowState = FlowState.SUCCEEDED, why: str = "") -> FlowStatus:
    return FlowStatus(
        name=FLOW,
        pipeline="captions",
        state=state,
        kind=FlowKind.SCHEDULED,
        fire_at=AT,
        recorded_at=AT,
        started_at=AT,
        ended_at=AT + HOUR_US if state not in (FlowState.RUNNING, FlowState.ON_HOLD) else None,
        why=why,
        late=False,
    )


def schedule_status(*, paused_at: int | None = None, paused_until: int | None = None) -> ScheduleStatus:
    return ScheduleStatus(
        name="captions",
        version=2,
        fires="30 2 * * *",
        zone="Europe/Berlin",
        next_at=None if paused_at else AT + 25 * HOUR_US,
        looked_until=AT,
        paused_at=paused_at,
        paused_until=paused_until,
        note="stocktaking" if paused_at else "",
        waiting=1_000,
        running=1,
        on_hold=0,
        last=flow_status(),
    )


def console() -> QuietConsole:
    return PlainConsole()


PIPELINE = """name = "captions"
input = "in/{previous:%Y-%m-%d}.jsonl"
keep = "90d"
[schedule]
cron = "30 2 * * *"
zone = "Europe/Berlin"
[stage.caption]
endpoint = "local:f.py:f"
output = "out/{flow}.jsonl"
"""


@pytest.fixture
def applied() -> None:
    """A ledger that knows a pipeline."""
    Path("f.py").write_text("def f(job): ...")
    Path("captions.toml").write_text(PIPELINE)
    result = give("apply", "captions.toml")
    assert result.exit_code == 0, result.stderr


def test_a_tick_says_what_it_did_or_who_does_it() -> None:
    assert requested("tick", "--for", "5m").flags == {"within": 5 * MINUTE_US}
    nothing = Ticked(holder=None, flows=())
    assert "nothing is due" in shown(lambda: show_ticked(nothing, console(), as_json=False)).stderr

    ticked = Ticked(holder=None, flows=(flow_status(), flow_status(FlowState.ON_HOLD)))
    result = shown(lambda: show_ticked(ticked, console(), as_json=True))
    assert "1 flow ended, 1 not yet" in result.stderr
    assert [flow["name"] for flow in json.loads(result.stdout)["flows"]] == [FLOW, FLOW]
    busy = Ticked(holder="host 77", flows=())
    told = shown(lambda: show_ticked(busy, console(), as_json=False)).stderr
    assert "host 77 works on this ledger, and looks at the schedules" in told
    assert give("tick", "--for", "soon").exit_code == 2


def test_a_trigger_asks_for_a_flow_and_says_who_begins_it() -> None:
    asked = requested("trigger", "captions", "--at", "2026-01-01")
    assert asked.flags == {"name": "captions", "at": "2026-01-01", "wait": False}
    found = TriggeredFlows(pipeline="captions", flows=(FLOW,), known=0, holder=None)
    result = shown(lambda: show_flow_asked_for(found, console(), waits=False, as_json=True))
    assert json.loads(result.stdout)["flows"] == [FLOW]
    assert f"{FLOW} is asked for; it begins with the next orchestrator serve or tick" in result.stderr
    known = TriggeredFlows(pipeline="captions", flows=(FLOW,), known=1, holder="host 77")
    told = shown(lambda: show_flow_asked_for(known, console(), waits=False, as_json=False)).stderr
    assert f"{FLOW} was asked for before; host 77 begins it" in told


@pytest.mark.parametrize(
    ("state", "code"),
    [(FlowState.SUCCEEDED, 0), (FlowState.PARTIAL, 1), (FlowState.FAILED, 1), (FlowState.RUNNING, 130)],
)
def test_who_waits_for_a_flow_is_told_how_it_ended_by_the_exit_code(state: FlowState, code: int) -> None:
    assert requested("trigger", "captions", "--wait").flags["wait"]
    found = TriggeredFlows(pipeline="captions", flows=(FLOW,), known=0, holder=None)
    waiting = shown(lambda: show_flow_asked_for(found, console(), waits=True, as_json=True))
    assert (waiting.stdout, "or now with --wait" in waiting.stderr) == ("", False)  # it was given
    result = shown(lambda: show_flow_ended(flow_status(state, "because"), console(), as_json=True))
    assert result.exit_code == code
    assert json.loads(result.stdout)["state"] == state
    assert f"{FLOW}: {state}, because" in result.stderr


@pytest.mark.usefixtures("applied")
def test_a_backfill_shows_how_many_it_asks_for_and_asks_first() -> None:
    times = ("backfill", "captions", "--from", "2026-01-01", "--to", "2026-01-03")
    refused = give(*times)
    assert refused.exit_code == 2
    begin = "begin 2 flows of captions, for 2026-01-01T02:30:00+01:00 to 2026-01-02T02:30:00+01:00?"
    assert begin in refused.stderr

    result = give(*times, "--parallel", "3", "--yes", "--json")
    assert len(json.loads(result.stdout)["flows"]) == 2
    assert "2 flows wait behind those of the schedule" in result.stderr

    result = give(*times)
    assert "no fire to be made up for: all 2 have a flow; add --again" in result.stderr
    again = give(*times, "--again", "--yes", "--json")
    assert (again.exit_code, len(json.loads(again.stdout)["flows"])) == (0, 2)


def test_schedules_are_listed_with_when_they_fire_next_or_why_not() -> None:
    def told(found: ScheduleStatus, *, as_json: bool = False) -> str:
        return shown(lambda: show_schedules([found], LEDGER, as_json=as_json), COLUMNS="200").stdout

    assert "2026-01-02T02:00:00+01:00" in told(schedule_status())
    assert "1,000 waiting, 1 running" in told(schedule_status())
    paused = schedule_status(paused_at=AT, paused_until=AT + 60 * MINUTE_US)
    assert "paused until 2026-01-01T02:00:00+01:00: stocktaking" in told(paused)
    assert json.loads(told(paused, as_json=True))[0]["note"] == "stocktaking"


def test_the_next_fires_and_the_history_are_shown() -> None:
    assert "nothing fires by itself" in shown(lambda: show_fires([], as_json=False)).stderr
    fires = [("captions", AT, "2026-01-01T01:00:00+01:00")]
    told = shown(lambda: show_fires(fires, as_json=False)).stdout
    assert told.split()[-2:] == ["2026-01-01T01:00:00+01:00", "captions"]
    assert requested("schedules", "next", "captions", "--most", "3").flags == {"name": "captions", "most": 3}
    assert json.loads(shown(lambda: show_fires(fires, as_json=True)).stdout)[0]["fire_at"] == AT

    assert "has not fired yet" in shown(lambda: show_history([], "captions", as_json=False)).stderr
    history = [
        ScheduleHistory(fire_at=AT, what="succeeded", flow=FLOW),
        ScheduleHistory(fire_at=AT, until_at=AT, what="missed", fires=3, backfill="orchestrator backfill captions ..."),
    ]
    told = shown(lambda: show_history(history, "captions", as_json=False), COLUMNS="200").stdout
    assert FLOW in told
    assert "missed: 3 fires" in told
    assert "orchestrator backfill captions ..." in told


def test_names_of_flows_stand_whole_on_one_line_so_that_they_can_be_copied() -> None:
    history = [ScheduleHistory(fire_at=AT, what="failed", flow=FLOW, why="many words of why " * 20)]
    assert FLOW in shown(lambda: show_history(history, "captions", as_json=False), COLUMNS="80").stdout


def test_a_check_exits_with_1_where_anything_is_wrong() -> None:
    assert shown(lambda: show_troubles([], as_json=False)).exit_code == 0
    troubles = [ScheduleTrouble(pipeline="captions", kind="late", text="it has not ended")]
    result = shown(partial(show_troubles, troubles, as_json=True))
    assert (result.exit_code, json.loads(result.stdout)[0]["kind"]) == (1, "late")


@pytest.mark.usefixtures("applied")
def test_a_schedule_is_paused_continued_and_removed() -> None:
    paused = give("schedules", "pause", "captions", "--note", "stocktaking", "--until", "2099-01-01")
    assert "captions is paused until 2099-01-01T00:00:00+01:00" in paused.stderr
    assert json.loads(give("schedules", "--json").stdout)[0]["note"] == "stocktaking"
    continued = give("schedules", "continue", "captions", "--catch-up")
    assert "captions fires again, next at 20" in continued.stderr

    assert give("schedules", "remove", "captions").exit_code == 2
    removed = give("schedules", "remove", "captions", "--yes", "--json")
    assert json.loads(removed.stdout)["name"] == "captions"


def test_flows_are_listed_and_shown_with_their_stages() -> None:
    asked = requested("flows", "list", "captions", "--state", "failed", "--state", "held", "--most", "7")
    assert asked.flags == {"name": "captions", "state": [FlowState.FAILED, FlowState.ON_HOLD], "most": 7}
    failed = [flow_status(FlowState.FAILED, "no input")]
    assert "no input" in shown(lambda: show_flows(failed, as_json=False)).stdout
    [row] = json.loads(shown(lambda: show_flows(failed, as_json=True)).stdout)
    assert (row["name"], row["state"]) == (FLOW, "failed")

    stage = StageStatus(
        stage="caption", run="r", source="/in", sha256="ab", rows_in=1_000, done=400, jobs_per_s=2.0, eta_s=300.0
    )
    awaited = AwaitedInput(path="/inbox/a.jsonl", until=0)
    waits = shown(lambda: show_flow(FlowShown(flow=flow_status(), version=2, stages=(), awaits=awaited), as_json=False))
    assert "/inbox/a.jsonl, until 1970-01-01T00:00:00+00:00" in waits.stdout
    found = FlowShown(flow=flow_status(), version=2, stages=(stage,))
    told = shown(lambda: show_flow(found, as_json=False), COLUMNS="120").stdout
    for text in ("scheduled, by version 2 of captions", "/in (SHA-256 ab)", "1,000", "400", "2.0/s", "5 min"):
        assert text in told
    assert json.loads(shown(lambda: show_flow(found, as_json=True)).stdout)["stages"][0]["rows_in"] == 1_000


@pytest.mark.usefixtures("applied")
def test_a_flow_is_cancelled_with_its_runs_once_that_is_confirmed() -> None:
    flow = json.loads(give("trigger", "captions", "--at", "2026-01-01", "--json").stdout)["flows"][0]
    refused = give("cancel", flow)
    assert refused.exit_code == 2
    assert f"cancel {flow}, which is waiting, with its runs?" in refused.stderr
    cancelled = give("cancel", flow, "--yes", "--json")
    assert (cancelled.exit_code, json.loads(cancelled.stdout)["cancelled"]) == (0, True)


def test_serve_records_files_first() -> None:
    asked = requested("serve", "--apply", "a.toml", "--apply", "b.toml")
    assert asked.flags == {"apply": [Path("a.toml"), Path("b.toml")]}


def test_the_lineage_of_a_row_is_a_table_stage_by_stage() -> None:
    found = Lineage(
        flow=FLOW,
        custom_id="r1/0",
        rows=(
            RowOfFlow(stage="caption", custom_id="r1", state=State.SUCCEEDED, became=2),
            RowOfFlow(stage="embed", custom_id="r1/0", state=State.FAILED, class_="step", made_of=("r1",)),
        ),
        is_all=False,
    )
    result = shown(lambda: show_lineage(found, as_json=False), COLUMNS="120")
    assert requested("flows", "lineage", FLOW, "r1/0").flags == {"flow": FLOW, "custom_id": "r1/0"}
    assert [line.rstrip() for line in result.stdout.splitlines()[2:]] == [
        "caption  r1    succeeded      the input  2 rows",
        "embed    r1/0  failed (step)  r1",
    ]
    assert "there are more rows than these 2" in result.stderr
    assert json.loads(shown(lambda: show_lineage(found, as_json=True)).stdout)["rows"][1]["class"] == "step"


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
    found = Rerun(flow=FLOW, runs=(f"{FLOW}/embed~2",), holder=None)
    result = shown(lambda: show_rerun(found, as_json=False))
    assert result.stdout == ""
    assert f"{FLOW} is carried out anew: {FLOW}/embed~2; it goes on with the next orchestrator" in result.stderr
    asked = requested("flows", "rerun", FLOW, "--from", "embed", "--failed")
    assert asked.flags == {"flow": FLOW, "from_": "embed", "failed": True}
    held = Rerun(flow=FLOW, runs=(f"{FLOW}/embed~2",), holder="process 7")
    told = shown(lambda: show_rerun(held, as_json=True))
    assert json.loads(told.stdout) == {"flow": FLOW, "runs": [f"{FLOW}/embed~2"], "held_by": "process 7"}


def test_a_backfill_is_one_line_with_how_far_it_is_and_until_when() -> None:
    assert "no backfill is under way" in shown(lambda: show_backfills([], as_json=False)).stderr
    line = BackfillLine(
        pipeline=1,
        name="captions",
        standing="running",
        asked_at=AT,
        flows=30,
        ended=12,
        failed=1,
        running=2,
        waiting=16,
        total=1_400,
        done=1_230,
        jobs_per_s=9.25,
        eta_at=AT + 2 * HOUR_US,
        spent=CostView(amount=3.12, error=0.0),
    )
    told = shown(lambda: show_backfills([line], as_json=False), COLUMNS="200").stdout
    for figure in ("12 of 30, 1 not whole", "1,230 of 1,400", "9.2/s", "2026-01-01 02:00", "3.12"):
        assert figure in told
    [shown_line] = json.loads(shown(lambda: show_backfills([line], as_json=True)).stdout)
    assert (shown_line["ended"], shown_line["held"]) == (12, 0)
    assert requested("flows", "backfills", "captions").flags == {"name": "captions"}
