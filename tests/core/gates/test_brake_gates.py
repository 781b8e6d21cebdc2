"""Canaries, failures, budgets and deadlines, by the rules alone."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from orchestrator.core.gates.brake_gates import (
    FIRST_OUT,
    SHOWN_AFTER_US,
    Brake,
    BrakeFacts,
    BudgetFacts,
    CanaryFacts,
    DeadlineFacts,
    MaxFailures,
    hold,
    lateness,
    of_brakes,
    stops,
)
from orchestrator.core.gates.costs import Costs, DurationTotals
from orchestrator.core.gates.gates import ANY, STOPPED, Closed, GateResult, Hold, Open
from orchestrator.core.text.next_step import plain
from orchestrator.units import DAY_US, HOUR_US, MINUTE_US, SECOND_US

NOW = 20_000 * DAY_US + 5 * HOUR_US
TEN = DurationTotals.together([DurationTotals.one(10_000)] * 10)


def only(**facts: Any) -> GateResult:
    """What the one brake says that is not open for all."""
    results = [each for each in of_brakes(BrakeFacts(name="night", word=plain, **facts), NOW) if each != ANY]
    assert len(results) <= 1
    return results[0] if results else ANY


def why(result: GateResult) -> str:
    return "" if result.hold is None else result.hold.sentence


def test_without_brakes_all_may_go() -> None:
    assert only() is ANY


@pytest.mark.parametrize(
    ("allowed", "failed", "ended", "are"),
    [
        (MaxFailures(), 100, 100, False),
        (MaxFailures(rows=5), 5, 5, False),
        (MaxFailures(rows=5), 6, 6, True),
        (MaxFailures(rows=0), 1, 1, True),
        (MaxFailures(share=50_000), 19, 19, False),
        (MaxFailures(share=50_000), 1, 20, False),
        (MaxFailures(share=50_000), 2, 20, True),
    ],
)
def test_so_many_rows_may_fail(allowed: MaxFailures, failed: int, ended: int, are: bool) -> None:
    assert allowed.are_exceeded(failed, ended) is are
    assert isinstance(only(max_failures=allowed, failed=failed, ended=ended), Closed) is are


def test_too_many_failures_say_which_command_goes_on() -> None:
    told = why(only(max_failures=MaxFailures(rows=5), failed=1_006, ended=2_000))
    assert told.startswith(f"{STOPPED}: 1,006 of the first 2,000 rows have failed, more than max-failures allows")
    assert "continue run night goes on" in told


@pytest.mark.parametrize(("allowed", "most"), [(MaxFailures(rows=5), 6), (MaxFailures(share=50_000), 20)])
def test_before_the_first_success_no_more_are_out_than_have_to_fail(allowed: MaxFailures, most: int) -> None:
    assert only(max_failures=allowed) == Open(most)
    assert only(max_failures=allowed, failed=2, ended=2, outstanding=3) == Open(most - 5)
    assert only(max_failures=allowed, outstanding=most, sending_since=NOW) == Open(0)
    assert only(max_failures=allowed, outstanding=most) == Open(0)
    assert only(max_failures=allowed, outstanding=most, sending_since=NOW - SHOWN_AFTER_US) == Open(
        0, Hold(Brake.FAILURES, FIRST_OUT, stops=False)
    )
    assert only(max_failures=allowed, succeeded=1, outstanding=9_000) is ANY
    assert only(max_failures=MaxFailures(), outstanding=9_000) is ANY


def rows(**facts: Any) -> CanaryFacts:
    return CanaryFacts(**{"chosen": 10, "succeeded": 0, "failed": 0, "due": 0, **facts})


def test_a_canary_lets_its_own_rows_go_and_the_rest_wait() -> None:
    why = "the canary is out: 3 of 10 succeeded so far, and the rest waits for it"
    waiting = Hold(Brake.CANARY, why, stops=False)
    assert only(canary=rows(succeeded=3, due=2)) == Open(2, waiting)
    assert only(canary=rows(succeeded=3, next_at=NOW + 7)) == Closed(waiting, NOW + 7)


def test_a_canary_has_passed_once_enough_succeeded_and_all_are_over() -> None:
    assert only(canary=rows(succeeded=10)) is ANY
    assert only(canary=rows(succeeded=9, failed=1, share=900_000)) is ANY
    assert only(canary=rows(succeeded=9, share=900_000)) is not ANY
    assert only(canary=CanaryFacts(chosen=0, succeeded=0, failed=0, due=0)) is ANY, "there was nothing to choose"


def test_a_canary_has_failed_as_soon_as_not_enough_can_succeed() -> None:
    told = why(only(canary=rows(succeeded=4, failed=1)))
    assert told.startswith(f"{STOPPED}: the canary failed: 4 of 10 succeeded, 1 failed, and 10 have to succeed")
    assert isinstance(only(canary=rows(failed=1, share=900_000)), Closed)
    assert only(canary=rows(failed=2, share=850_000)) == only(canary=rows(failed=2, share=900_000))


def budget(**facts: Any) -> BudgetFacts:
    costs = Costs(price=0.01, took=facts.pop("took", TEN), longest_ms=600_000)
    return BudgetFacts(**{"budget": 2.0, "costs": costs, "outstanding": 0, **facts})


def test_a_budget_lets_as_many_go_as_it_pays_for() -> None:
    assert only(budgets=(budget(),)) == Open(10)
    assert only(budgets=(budget(outstanding=4),)) == Open(6)


def test_a_budget_that_is_reached_is_told_with_what_reaches_it() -> None:
    shut = only(budgets=(budget(outstanding=10),))
    told = (
        "1.00 spent and 1.00 expected of 10 outstanding jobs reach the budget of 2.00; change brakes night changes that"
    )
    assert shut == Closed(Hold(Brake.BUDGET, told))
    assert budget(outstanding=10).expected.amount == pytest.approx(2.0)


def test_a_days_budget_is_over_at_midnight() -> None:
    alone = only(budgets=(budget(outstanding=10, of_day=True),))
    told = "1.00 spent and 1.00 expected of 10 outstanding jobs reach the endpoint's 2.00 a day, until 00:00 UTC"
    assert alone == Closed(Hold(Brake.BUDGET, told), 20_001 * DAY_US)


def test_of_two_budgets_the_narrower_counts() -> None:
    roomy, narrow = budget(budget=100.0), budget(outstanding=10, of_day=True)
    assert isinstance(only(budgets=(roomy, narrow)), Closed)
    assert only(budgets=(roomy, budget(outstanding=7))) == Open(3)


def test_while_nothing_is_known_a_few_find_out_what_one_takes() -> None:
    assert only(budgets=(budget(took=DurationTotals(), budget=1.0),)) == Open(5), "each may cost 6.00"
    assert isinstance(only(budgets=(budget(took=DurationTotals(), budget=1.0, outstanding=5),)), Closed)
    dear = DurationTotals.together([DurationTotals.one(100_000)] * 2)
    assert isinstance(only(budgets=(budget(took=dear, budget=1.5),)), Closed), "two have cost more already"
    assert only(budgets=(budget(took=DurationTotals(), budget=100.0),)) == Open(16)


def due(**facts: Any) -> DeadlineFacts:
    defaults = {"finish_by": NOW + HOUR_US, "stops_late": False, "left": 100, "at_service": 10}
    return DeadlineFacts(**{**defaults, "jobs_per_s": 1.0, "typical_us": 10 * SECOND_US, **facts})


def test_who_is_in_time_hears_nothing() -> None:
    assert only(deadline=due()) is ANY
    assert only(deadline=due(stops_late=True)) is ANY
    assert only(deadline=due(jobs_per_s=None)) is ANY


def test_who_will_be_late_hears_when_and_what_would_be_needed() -> None:
    late = only(deadline=due(left=7_200))
    told = (
        "at this rate it ends about 2024-10-04 07:00 UTC, 1 h after finish-by 2024-10-04 06:00 UTC: in time with"
        " 2.0 times as many workers"
    )
    assert late == Open(None, Hold(Brake.DEADLINE, told, stops=False))
    berlin = lateness(due(left=7_200, zone=ZoneInfo("Europe/Berlin")), NOW)
    assert "2024-10-04 08:00 CEST" in (berlin or "")


def test_where_turns_go_by_deadlines_these_tell_how_late_it_is() -> None:
    late = due(left=7_200, late_in_turn_us=12 * MINUTE_US)
    assert lateness(late, NOW) == (
        "it ends 12 min after finish-by 2024-10-04 06:00 UTC, even where its turn comes by its deadline: 7,200 jobs have"
        " no outcome yet"
    )
    assert lateness(due(left=7_200, late_in_turn_us=0), NOW) is None
    assert lateness(due(jobs_per_s=None, late_in_turn_us=12 * MINUTE_US), NOW) is not None


def test_what_is_over_is_told() -> None:
    assert "is over, and 5 jobs have no outcome yet" in why(only(deadline=due(finish_by=NOW, left=5)))
    assert only(deadline=due(finish_by=NOW, left=0)) is ANY


def test_what_would_be_late_is_not_sent_where_that_is_wanted() -> None:
    assert isinstance(only(deadline=due(stops_late=True, at_service=3_601)), Closed)
    assert only(deadline=due(stops_late=True, at_service=3_599)) is ANY
    assert isinstance(only(deadline=due(stops_late=True, typical_us=61 * MINUTE_US)), Closed)
    assert isinstance(only(deadline=due(stops_late=True, finish_by=NOW - 1, jobs_per_s=None)), Closed)


def test_before_it_is_known_how_fast_it_goes_few_go_where_none_may_be_late() -> None:
    unknown: dict[str, Any] = {"stops_late": True, "jobs_per_s": None, "typical_us": None}
    assert only(deadline=due(**unknown, at_service=10)) == Open(30)
    assert only(deadline=due(**unknown, at_service=99)) == Open(0)


def test_which_brake_holds_a_run() -> None:
    def held(*results: GateResult, at_service: int = 0, is_tripped: bool = False) -> Hold | None:
        rest = [ANY] * (len(Brake) - len(results))
        return hold([*results, *rest], at_service=at_service, is_tripped=is_tripped)

    probing = Hold(Brake.BREAKER, "most failed: one a minute", stops=False)
    single = Open(1, probing)
    assert held() is None
    assert held(single) is None, "half a minute after the first ones went"
    assert held(single, is_tripped=True, at_service=1) == probing
    assert held(Open(1), is_tripped=True) is None
    too_many = Hold(Brake.FAILURES, "too many failed")
    assert held(ANY, Closed(too_many)) == too_many
    assert held(ANY, Closed(too_many), at_service=1) is None, "what is outstanding may change it"
    assert held(ANY, ANY, Closed(Hold(Brake.CANARY, "the canary is out"), NOW)) is None
    spent, late = Hold(Brake.BUDGET, "it is spent"), Hold(Brake.DEADLINE, "late")
    assert held(ANY, ANY, ANY, Closed(spent, NOW)) == spent
    assert held(ANY, ANY, ANY, Open(3), Closed(late)) == late


def test_a_run_is_stopped_where_nothing_changes_by_itself() -> None:
    shut, later = Closed(Hold(Brake.FAILURES, "enough")), Closed(Hold(Brake.BUDGET, "a while"), NOW)
    assert stops([ANY, later, shut], at_service=0) == "enough"
    assert stops([ANY, shut], at_service=1) is None
    assert stops([ANY, later, Open(0)], at_service=0) is None
