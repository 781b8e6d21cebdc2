"""`orchestrator plan` and `run --dry-run`: what a person sees, and the exit code."""

import json
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from orchestrator.cli.runs.plan import show_plan
from orchestrator.core.gates.costs import Price
from orchestrator.core.lanes.via import Via
from orchestrator.core.planning.bottlenecks import SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, TimesSource, Workers
from orchestrator.core.planning.plan_types import Batch, Candidate, Known, Plan, Terms
from orchestrator.core.planning.planner import plan_of, plan_of_pool
from orchestrator.core.pools.member_health import THROTTLED
from orchestrator.settings.command_requests import PlanFigures, PlanRequest
from orchestrator.units import SECOND_US
from tests.cli.command_line import LOCAL, Result, call, requested, shown

TIMES = ExecutionSample(executions_us=(10 * SECOND_US,) * 20, per_job=1.25, source=TimesSource.HISTORY)
TERMS = Terms(ttl_us=86_400 * SECOND_US, execution_timeout_us=600 * SECOND_US, price=Price(0.01))
BATCH = Batch(rows=800, done=100, repeats=7, input_bytes=3_000_000)


def planned(terms: Terms = TERMS, batch: Batch = BATCH) -> Plan:
    workers = Workers(most=8, start_us=60 * SECOND_US)
    return plan_of(batch, "abc", SendingLimits(), terms, Known(times=TIMES, workers=workers, workers_from="as given"))


def told(found: Plan, *, as_json: bool = False) -> Result:
    return shown(partial(show_plan, found, as_json=as_json))


def test_the_verdict_comes_first_and_then_what_it_stands_on() -> None:
    result = told(planned())
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "700 jobs in about 19 min (19 min to 20 min) for about 92.30 (89.67 to 94.92); the workers bind",
        "  input: 800 rows, 2.9 MiB, 100 done already, 7 repeat others",
        "  an execution: about 10 s, 1.25 for each job, by 20 executions (history)",
        "  workers: 8, as given",
        "  speed: the workers bind, at 0.64 jobs/s",
        "  sent: within 9 s",
        "  done: in 19 min (19 min to 20 min)",
        "  workers at work: 2.4 h in all",
        "  cost: 92.30 (89.67 to 94.92), of it 4.80 for workers that start",
        "  price: 0.010 for a second of a worker, as given",
        "  not in it: the idle time of workers after their last job; storage, and what others charge",
        "  would help: 16 workers instead of 8: done 9 min sooner",
        "  would help: workers that are warm already: done 64 s sooner",
    ]


def test_where_nothing_is_known_it_says_how_to_find_out() -> None:
    result = told(plan_of(replace(BATCH, oversize=2), "abc", SendingLimits(), TERMS, Known()))
    assert "  input: 800 rows, 2.9 MiB, 100 done already, 7 repeat others, 2 too large\n" in result.stdout
    assert "  an execution: nothing is known of how long it takes here\n" in result.stdout
    assert "  to find out: --probe 20; or give --execution-time and --workers\n" in result.stdout
    small = plan_of(Batch(rows=1, input_bytes=9), "abc", SendingLimits(), replace(TERMS, price=None), Known())
    assert "  input: 1 row, 9 bytes\n" in told(small).stdout


def test_without_a_price_it_says_how_to_give_one() -> None:
    result = told(planned(replace(TERMS, price=None)))
    assert "  cost: not known; --price-per-second says what a second costs\n" in result.stdout


def test_what_cannot_be_kept_is_exit_code_1() -> None:
    late = planned(replace(TERMS, finish_within_us=60 * SECOND_US, budget=92))
    result = told(late)
    assert result.exit_code == 1
    assert result.stdout.startswith("not like this: it ends 18 min too late")
    assert "  cannot be kept: it costs 92.30, and the budget is 92.00" in result.stdout
    doubtful = planned(replace(TERMS, budget=93))
    result = told(doubtful)
    assert result.exit_code == 0
    assert "  doubtful: it may cost 94.92, and the budget is 93.00\n" in result.stdout


def test_the_figures_that_are_given_reach_the_plan() -> None:
    words = ("--execution-time", "45s", "--workers", "7", "--cold-start", "2m", "--probe", "3", "--ttl", "2h")
    request = requested("plan", "in.jsonl", "--endpoint", LOCAL, *words)
    assert isinstance(request, PlanRequest)
    assert request.figures == PlanFigures(execution_us=45 * SECOND_US, start_us=120 * SECOND_US)
    assert (request.probe, request.run.name) == (3, "in")
    assert request.run.settings is not None
    assert (request.run.settings.ttl_us, request.run.settings.workers) == (7_200 * SECOND_US, 7)


def test_bad_figures_are_refused() -> None:
    for flag, bad in (("--execution-time", "0s"), ("--workers", "0"), ("--probe", "-1"), ("--cold-start", "x")):
        result = call(["plan", "in.jsonl", "--endpoint", LOCAL, f"{flag}={bad}"], environment={})
        assert result.exit_code == 2
        assert flag in result.stderr


def test_a_dry_run_shows_the_same_and_runs_nothing() -> None:
    Path("handlers.py").write_text("def caption(job): ...")
    Path("in.jsonl").write_text('{"n": 1}\n')
    result = call(["run", "in.jsonl", "--endpoint", LOCAL, "--dry-run", "--output", "o.jsonl"], environment={})
    assert result.stdout.startswith("1 job")
    assert "\n  input: 1 row, 8 bytes\n" in result.stdout
    assert [*Path().glob("o.jsonl*")] == []


def test_as_json_it_is_one_object() -> None:
    found = json.loads(told(planned(), as_json=True).stdout)
    assert (found["rows"], found["binds"], found["is_feasible"]) == (800, "workers", True)
    assert found["cost"]["likely"] > 80


def test_of_a_pool_each_member_has_a_line_of_its_own() -> None:
    workers = Workers(most=8, warm=8)
    known = Known(times=TIMES, workers=workers, workers_from="as the account says")
    line = SendingLimits()
    members = [
        Candidate(endpoint="abc", line=line, known=known, price=Price(0.01)),
        Candidate(endpoint="def", line=line, known=known, unwell=THROTTLED),
    ]
    found = plan_of_pool(replace(BATCH, done=0), members, TERMS)
    result = told(found)
    assert "  pool: 2 members, fast: a job goes where it is expected to end soonest\n" in result.stdout
    assert f"  doubtful: def is not well ({THROTTLED}); it is reckoned without it\n" in result.stdout
    [heading, _, first, second] = result.stdout.rpartition("\n\n")[2].splitlines()
    assert heading.split("  ")[0] == "member"
    assert first.split() == ["abc", "800", "100%", "0.64", "10", "s", "8", "21", "min", "0.010", "100.00"]
    assert second.split() == ["def", "0", "0%", "-", "10", "s", "8", "-", "-", "-"]
    server = replace(members[1], line=SendingLimits(via=Via.HTTP), unwell=None)
    lines = told(plan_of_pool(replace(BATCH, done=0), [members[0], server], TERMS)).stdout.splitlines()
    assert [line.split()[1] for line in (lines[-4], *lines[-2:])] == ["via", "queue", "http"]
    as_json = json.loads(told(found, as_json=True).stdout)
    assert [each["via"] for each in as_json["members"]] == ["queue", "queue"]
    assert (as_json["prefer"], [each["endpoint"] for each in as_json["members"]]) == ("fast", ["abc", "def"])
