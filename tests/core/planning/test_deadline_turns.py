"""Turns by weight, and by the earliest deadline where weight alone would miss one."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.limits.fair_share import FairShare
from orchestrator.core.planning.deadline_turns import OTHERS_SHARE, RunTurn, Turns, turns_of
from orchestrator.units import HOUR_US, MINUTE_US

NOW = 1_000 * HOUR_US


def a_run(minutes: float, by_h: float | None = None, *, weight: float = 1.0, jobs: int = 100) -> RunTurn:
    """Some jobs that take so many minutes of workers all together, to be done in so many hours."""
    return RunTurn(
        weight=weight,
        jobs=jobs,
        execution_us=minutes * MINUTE_US / jobs,
        finish_by=None if by_h is None else NOW + round(by_h * HOUR_US),
    )


def of(runs: Mapping[int, RunTurn], at_once: float = 1.0, *, were: bool = False) -> Turns:
    return turns_of(runs, at_once, NOW, were_by_deadline=were)


def sent_in_turns(turns: Turns, number: int) -> Counter[int]:
    """How many of so many turns each run gets, all of them having enough."""
    share, sent = FairShare(), Counter[int]()
    for _ in range(number):
        run = share.next(turns.weights)
        share.sent(run, 1, turns.weights[run])
        sent[run] += 1
    return sent


@pytest.mark.parametrize(
    "runs",
    [
        {1: a_run(50), 2: a_run(50, weight=2.0)},
        {1: a_run(20, 1), 2: a_run(20, weight=3.0)},
        {1: a_run(50, 1), 2: a_run(60, 2)},
        {1: a_run(59, 1)},
    ],
)
def test_turns_go_by_weight_where_that_misses_nothing(runs: Mapping[int, RunTurn]) -> None:
    found = of(runs, 2.0)
    assert found == Turns(weights={run: each.weight for run, each in runs.items()})


def test_what_weight_alone_would_miss_goes_first_and_the_others_keep_a_part() -> None:
    runs = {1: a_run(50, 1), 2: a_run(600, weight=2.0)}
    found = of(runs)
    assert (found.first, found.late_us) == ((1,), {})
    sent = sent_in_turns(found, 1_000)
    assert sent[2] == pytest.approx(1_000 * OTHERS_SHARE, abs=2)


def test_the_earliest_deadline_goes_first_among_several() -> None:
    runs = {1: a_run(60, 2.2), 2: a_run(50, 1), 3: a_run(60)}
    found = of(runs)
    assert (found.first, found.late_us) == ((2, 1), {})
    sent = sent_in_turns(found, 10_000)
    assert sent[2] > 10 * sent[1] > 50 * sent[3] > 0


def test_runs_that_all_have_deadlines_leave_a_part_to_whoever_is_last() -> None:
    found = of({1: a_run(50, 1), 2: a_run(50, 2)})
    assert found.first == (1, 2)
    assert found.weights[2] == 1.0
    assert sent_in_turns(found, 1_000)[2] == pytest.approx(1_000 * OTHERS_SHARE, abs=2)


def test_who_cannot_be_in_time_is_told_by_how_much_and_takes_nothing_from_who_can() -> None:
    runs = {1: a_run(95, 1), 2: a_run(80, 1.5), 3: a_run(100)}
    found = of(runs)
    assert found.first == (2,)
    assert found.late_us == {1: pytest.approx((100 - 60) * MINUTE_US)}


def test_where_no_order_makes_it_turns_stay_by_weight_and_it_is_told() -> None:
    found = of({1: a_run(95, 1), 2: a_run(20)})
    assert (found.first, found.weights) == ((), {1: 1.0, 2: 1.0})
    assert found.late_us == {1: pytest.approx(40 * MINUTE_US)}
    assert of({1: a_run(95, 1)}).late_us == {1: pytest.approx(35 * MINUTE_US)}


def test_who_is_in_time_by_weight_is_not_called_late_for_the_part_of_the_others() -> None:
    assert of({1: a_run(58, 1, weight=1_000.0), 2: a_run(20)}).late_us == {}


def test_it_stays_by_deadline_until_weight_does_with_time_to_spare() -> None:
    runs = {1: a_run(50, 1), 2: a_run(50)}
    in_time = {1: a_run(50, 1.7), 2: a_run(50)}
    assert of(runs).first == (1,)
    assert (of(in_time).first, of(in_time, were=True).first) == ((), (1,))
    assert of({1: a_run(50, 2), 2: a_run(50)}, were=True).first == ()


def test_jobs_that_take_longer_take_more_of_the_endpoint_by_the_same_weight() -> None:
    """By weight each sends as many jobs; ten of one run's take as long as one of the other's."""
    runs = {1: a_run(10, 1, jobs=100), 2: a_run(1_000, jobs=100)}
    assert of(runs).first == (1,)


def test_nothing_is_known_of_an_endpoint_that_has_executed_nothing() -> None:
    assert of({1: a_run(900, 1), 2: a_run(1)}, 0.0) == Turns(weights={1: 1.0, 2: 1.0})


runs_of_some = st.dictionaries(
    st.integers(1, 9),
    st.builds(
        a_run,
        st.floats(0, 500),
        st.none() | st.floats(-1, 20),
        weight=st.floats(0.1, 9.3),
        jobs=st.integers(1, 1_000),
    ),
    min_size=1,
    max_size=6,
)


@given(runs=runs_of_some, at_once=st.floats(0, 40), were=st.booleans())
def test_everybody_has_turns_and_nobody_is_both_first_and_late(
    runs: Mapping[int, RunTurn], at_once: float, were: bool
) -> None:
    found = of(runs, at_once, were=were)
    assert found.weights.keys() == runs.keys()
    assert all(weight > 0 for weight in found.weights.values())
    assert not found.late_us.keys() & set(found.first)
    without = [run for run in runs if run not in found.first]
    if found.first and without:
        kept = sum(found.weights[run] for run in without) / sum(found.weights.values())
        assert kept >= OTHERS_SHARE ** len(found.first) / 2
