"""When questions are ample, and how closely a job is then asked for."""

from itertools import pairwise

import pytest

from orchestrator.core.jobs.deadlines import ASK_GAP_US_MIN, FEW
from orchestrator.core.polling.latency import DurationHistogram
from orchestrator.core.polling.poll_budget import (
    AGAIN_SHARE,
    AMPLE_SHARE,
    GAP_SHARE,
    KNOWN,
    QUESTIONS,
    PollBudget,
    ask_closely,
)
from tests.factories import S
from tests.simulation.clock import EPOCH_AT


def learned(*seconds: float, times: int = 1) -> DurationHistogram:
    found = DurationHistogram()
    for each in seconds * times:
        found.observe(round(each * 1_000))
    return found


def ages(known: DurationHistogram, until_s: float, *, is_free: bool = True) -> list[float]:
    """The ages, in seconds, at which a job that takes `until_s` is asked for; the last one finds it finished."""
    found: list[float] = []
    asked_at: int | None = None
    while not found or found[-1] < until_s:
        asked_at = ask_closely(EPOCH_AT, asked_at=asked_at, times=known, is_free=is_free)
        found.append((asked_at - EPOCH_AT) / S)
    return found


# --- whether there are any


def test_while_few_jobs_are_outstanding_questions_cost_nothing() -> None:
    budget = PollBudget(learned(1), 200.0)
    assert [budget.is_free(outstanding) for outstanding in (1, 20, 21)] == [True, True, False]
    budget.allow(0.1)
    assert [budget.is_free(outstanding) for outstanding in (1, 2)] == [True, False]


def test_questions_are_to_spare_where_five_for_each_job_leave_some_over() -> None:
    budget = PollBudget(learned(100, times=FEW), 200.0)
    most = int(200 * AMPLE_SHARE * 100 / QUESTIONS)
    budget.weigh(most)
    assert budget.is_ample
    assert budget.has_changed(most + most // 2)


def test_of_an_endpoint_of_which_nothing_is_known_many_jobs_have_none_to_spare() -> None:
    budget = PollBudget(DurationHistogram(), 200.0)
    assert budget.has_changed(21)
    assert not budget.has_changed(20)


def test_the_first_to_finish_are_the_quickest_so_that_the_others_are_thought_to_take_twice_as_long() -> None:
    outstanding = int(1.5 * 200 * AMPLE_SHARE * 10 / QUESTIONS)
    assert not PollBudget(learned(10, times=FEW - 1), 200.0).has_changed(outstanding)
    assert PollBudget(learned(10, times=FEW), 200.0).has_changed(outstanding)


def test_once_there_were_none_to_spare_there_are_again_only_when_there_are_some_more() -> None:
    budget = PollBudget(learned(100, times=FEW), 200.0)
    budget.weigh(10_000)
    assert not budget.is_ample
    most = int(200 * AMPLE_SHARE * 100 / QUESTIONS)
    assert not budget.has_changed(most)
    assert budget.has_changed(int(most * AGAIN_SHARE * 0.9))


# --- how closely


@pytest.mark.parametrize("until_s", [10, 45, 1_200, 40_000])
def test_a_job_of_which_nothing_is_known_is_asked_for_at_gaps_of_a_share_of_its_age(until_s: int) -> None:
    found = ages(DurationHistogram(), until_s)
    assert all(0.99 <= b - a <= max(1.01, 0.09 * (a + 1)) for a, b in pairwise(found))


def test_two_that_took_twice_as_long_do_not_keep_it_waiting() -> None:
    found = ages(learned(90, 90), 45)
    assert found[-1] <= 45 * 1.09


def test_a_time_that_is_known_is_waited_for_and_one_question_does() -> None:
    assert ages(learned(45, times=KNOWN), 45) == pytest.approx([45], rel=1 / 32)


def test_the_more_the_times_are_scattered_the_more_often_a_job_is_asked_for() -> None:
    numbers = [
        len(ages(learned(*(45 + width * n / 50 for n in range(-50, 51)), times=5), 45 + width)) for width in (1, 5, 20)
    ]
    assert numbers == sorted(set(numbers))


def test_no_gap_is_shorter_than_a_twentieth_of_the_time_in_execution() -> None:
    known = learned(*(1_200 + n for n in range(-600, 601)))
    found = ages(known, 1_800)
    assert all(b - a >= a * GAP_SHARE * 0.99 for a, b in pairwise(found))
    asked_at = EPOCH_AT + S
    assert ask_closely(EPOCH_AT, asked_at=asked_at, times=learned(0.1, times=KNOWN), is_free=False) >= (
        asked_at + ASK_GAP_US_MIN
    )


def test_among_many_nobody_but_the_scouts_is_asked_for_before_the_quickest_that_is_known() -> None:
    assert ages(learned(90, 90), 45, is_free=False)[0] > 89


def test_a_job_whose_execution_is_yet_to_begin_is_asked_for_after_that() -> None:
    begins_at = EPOCH_AT + 100 * S
    at = ask_closely(begins_at, asked_at=EPOCH_AT + S, times=learned(45, times=KNOWN), is_free=True)
    assert 145 * S <= at - EPOCH_AT <= 147 * S
