"""The plan of a batch: its verdict, what cannot be kept, and what would help."""

from typing import Any

import pytest

from orchestrator.core.gates.costs import Price
from orchestrator.core.lanes.direct_answers import WHAT_A_LOST_ANSWER_IS
from orchestrator.core.lanes.sync_requests import WHAT_A_CRASH_LOSES
from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import Limit
from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, TimesSource, Workers
from orchestrator.core.planning.plan_judgement import about
from orchestrator.core.planning.plan_types import Batch, Known, Plan, Terms
from orchestrator.core.planning.planner import plan_of
from tests.factories import S

DAY = 86_400 * S
TERMS = Terms(ttl_us=DAY, execution_timeout_us=600 * S)
TIMES = ExecutionSample(executions_us=tuple(n * S for n in range(8, 13) for _ in range(10)), source=TimesSource.HISTORY)
EIGHT = Workers(most=8, warm=8)


def planned(
    jobs: int = 800, *, times: ExecutionSample | None = TIMES, workers: Workers | None = EIGHT, **more: Any
) -> Plan:
    batch = more.pop("batch", Batch(rows=jobs))
    line = more.pop("line", SendingLimits())
    terms = Terms(ttl_us=DAY, execution_timeout_us=600 * S, **more.pop("terms", {}))
    return plan_of(
        batch, "abc", line, more.pop("kept", terms), Known(times=times, workers=workers, workers_from="seen")
    )


def test_the_verdict_says_when_it_ends_and_what_binds() -> None:
    found = planned()
    assert found.verdict == "800 jobs in about 17 min (16 min to 18 min); the workers bind"
    assert (found.is_feasible, found.binds, found.workers) == (True, Bottleneck.WORKERS, 8)
    assert found.finish_s == pytest.approx(1_000, rel=0.02)
    assert found.executing_s == pytest.approx(8_000, rel=0.02)
    assert found.cost is None
    assert found.executions_known == 50


def test_where_nothing_is_known_it_says_what_is_needed() -> None:
    found = planned(times=None, workers=None)
    assert found.verdict == "800 jobs are sent within 8 s at the soonest; when they end nobody knows yet"
    assert found.would_help == ("to know how long a job takes and how many workers there are",)
    assert planned(workers=None).would_help[0].startswith("to know how many workers")
    assert found.executions_known == 0
    assert planned(times=None).execution_s is None
    assert planned(times=ExecutionSample.given(S)).executions_known == 0


def test_what_is_done_is_not_done_again() -> None:
    found = planned(batch=Batch(rows=800, done=800))
    assert (found.verdict, found.would_help, found.finish_s) == ("nothing is left to do", (), None)


def test_it_costs_its_executions_and_the_workers_that_start() -> None:
    cost = planned(terms={"price": Price(0.01)}).cost
    assert cost is not None
    assert cost.likely == pytest.approx(80, rel=0.02)
    assert cost.best < cost.likely < cost.worst
    assert (cost.starting, cost.idle) == (0, 0)
    assert cost.not_included[0] == "workers that start"
    cold = planned(terms={"price": Price(0.01)}, workers=Workers(most=8, start_us=100 * S)).cost
    assert cold is not None
    assert cold.starting == pytest.approx(8)
    assert "for about 88." in planned(terms={"price": Price(0.01)}, workers=Workers(most=8, start_us=100 * S)).verdict
    assert "workers that start" not in cold.not_included


def test_workers_that_are_kept_warm_are_paid_while_they_wait() -> None:
    warm = Workers(most=100, warm=100)
    cost = planned(100, workers=warm, terms={"price": Price(1.0), "are_kept_warm": True}).cost
    assert cost is not None
    assert 0 < cost.idle < 0.5 * cost.likely


def test_rows_that_are_too_large_are_refused() -> None:
    found = planned(batch=Batch(rows=800, oversize=3))
    assert found.verdict.startswith("not like this: 3 rows would be larger than the service takes")
    assert not found.is_feasible


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (Terms(ttl_us=5 * S, execution_timeout_us=600 * S), "the TTL (5 s) deletes nearly every job before its end"),
        (Terms(ttl_us=DAY, execution_timeout_us=5 * S), "the execution timeout (5 s) ends nearly every job"),
        (
            Terms(ttl_us=DAY, execution_timeout_us=600 * S, finish_within_us=500 * S),
            "it ends 8 min too late: it takes 17 min, and there are 8 min; it would take about 17 workers",
        ),
        (
            Terms(ttl_us=DAY, execution_timeout_us=600 * S, finish_within_us=0),
            "it ends 17 min too late: it takes 17 min, and there are 0 ms",
        ),
        (
            Terms(ttl_us=DAY, execution_timeout_us=600 * S, budget=20, price=Price(0.01)),
            "it costs 80.00, and the budget is 20.00: that pays for 25% of it",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_numbers(kept: Terms, said: str) -> None:
    found = planned(kept=kept)
    assert not found.is_feasible
    assert any(each.startswith(said) for each in found.refused), found.refused
    assert found.verdict.startswith("not like this: ")


@pytest.mark.no_cover
def test_more_workers_do_not_help_where_the_rate_binds() -> None:
    fast = Workers(most=5_000, warm=5_000)
    [told] = planned(20_000, workers=fast, terms={"finish_within_us": 60 * S}).refused
    assert "workers" not in told


def test_results_that_cannot_be_asked_for_in_time_are_refused() -> None:
    short = SendingLimits(retention_us=1 * S)
    assert "they are lost without webhooks" in planned(line=short).refused[0]
    assert planned(line=SendingLimits(retention_us=1 * S, webhooks=True)).is_feasible


def test_what_may_not_be_kept_is_doubtful() -> None:
    found = planned(kept=Terms(ttl_us=int(10.5 * S), execution_timeout_us=int(11.5 * S)))
    assert "the TTL (10 s) ends 40% of the executions" in found.doubtful
    assert "the execution timeout (12 s) ends 20% of the executions" in found.doubtful
    assert any("would not be done in time is held back" in each for each in found.doubtful)
    near = planned(terms={"finish_within_us": 1_025 * S, "budget": 80.5, "price": Price(0.01)})
    assert near.is_feasible
    assert [each[:11] for each in near.doubtful] == ["it may end ", "it may cost"]
    assert planned(terms={"finish_within_us": DAY, "budget": 800, "price": Price(0.01)}).doubtful == ()


def test_what_a_crash_loses_is_said_before_answers_are_held() -> None:
    for via in (Via.SYNC, Via.BOTH):
        assert WHAT_A_CRASH_LOSES in planned(line=SendingLimits(via=via)).doubtful
    for via in (Via.OPENAI, Via.HTTP):
        assert WHAT_A_LOST_ANSWER_IS in planned(line=SendingLimits(via=via)).doubtful
    assert not {WHAT_A_CRASH_LOSES, WHAT_A_LOST_ANSWER_IS} & {*planned().doubtful}
    assert planned(line=SendingLimits(via=Via.BOTH), workers=Workers(most=5_000, warm=5_000)).bound_by.startswith(
        "the rate limit of /run and /runsync binds"
    )


def test_what_would_help_comes_with_what_it_saves_the_most_first() -> None:
    assert planned().would_help == ("16 workers instead of 8: done 8 min sooner",)
    scarce = planned(workers=Workers(most=800, warm=800), line=SendingLimits(status=Limit(100, 10)))
    assert scarce.would_help[0].startswith("webhooks: done ")
    cold = planned(80, workers=Workers(most=8, start_us=600 * S))
    assert cold.would_help[0].startswith("workers that are warm already: done 10 min")
    rate = planned(10_000, workers=Workers(most=5_000, warm=5_000), line=SendingLimits(webhooks=True))
    assert rate.would_help[0].startswith("a higher limit of /run: done ")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "200 ms"),
        (-1, "0 ms"),
        (90, "90 s"),
        (125, "2 min"),
        (9_000, "2.5 h"),
        (86_400, "24 h"),
        (864_000, "10 days"),
    ],
)
def test_times_are_told_as_exactly_as_they_are_known(seconds: float, said: str) -> None:
    assert about(seconds * S) == said
