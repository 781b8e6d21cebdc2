"""How many questions a job takes by polling alone, and how soon it is collected, in its short form."""

import pytest

from tests.simulation.questions import MOST, QUESTIONS_SOON, Case, Endpoint, Soon, few, soon


@pytest.mark.parametrize(
    "case",
    [
        Case(execution_s=0.5, workers=60, jobs=1_000),
        Case(execution_s=0.5, workers=5, jobs=2_000),
        Case(execution_s=2.5, workers=125, jobs=2_000),
        Case(execution_s=60, workers=3_000, jobs=6_000),
    ],
    ids=str,
)
def test_however_long_executions_take_and_jobs_queue_two_questions_suffice_at_full_speed(case: Case) -> None:
    assert Endpoint(case).play() <= MOST


@pytest.mark.parametrize("execution_s", [1.0, pytest.param(45.0, marks=pytest.mark.slow), 1_200.0])
@pytest.mark.parametrize(("jobs", "rounds"), [(1, 60), pytest.param(10, 10, marks=pytest.mark.slow), (1_000, 1)])
def test_with_questions_to_spare_a_result_is_collected_soon_for_five_questions(
    execution_s: float, jobs: int, rounds: int
) -> None:
    for spread in (0.01, 0.25):
        found = soon(few(jobs, execution_s, spread), rounds=rounds)
        assert found.is_soon
        assert found.questions <= QUESTIONS_SOON


def test_a_lone_job_that_takes_half_as_long_as_the_two_before_it_is_collected_soon() -> None:
    assert soon(few(1, 45.0, 0.1, known=2, factor=2.0), rounds=60).is_soon


@pytest.mark.parametrize("execution_s", [45.0, pytest.param(1_200.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("known", [0, 2])
def test_among_a_thousand_jobs_a_few_tell_of_the_times_of_the_others(execution_s: float, known: int) -> None:
    found = soon(few(1_000, execution_s, 0.01, known=known, factor=2.0), rounds=1)
    assert found.within(5.0, 0.1) > 0.98
    assert found.questions <= QUESTIONS_SOON


def test_what_counts_as_soon() -> None:
    assert Soon([(1.0, 1.0), (5.0, 25.0)], 1, 1).is_soon
    assert not Soon([(1.1, 1.0), (5.0, 25.0)], 1, 1).is_soon
    assert not Soon([(0.0, 1.0), (5.1, 25.0)], 1, 1).is_soon
