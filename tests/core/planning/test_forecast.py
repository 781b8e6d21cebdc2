"""How a batch goes, played on paper; `tests.simulation.forecasts` compares it with what then happens."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.limits.rate_pacer import Limit
from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits
from orchestrator.core.planning.forecast import Course, ExecutionSample, TimesSource, Workers, course, forecast
from tests.factories import S

LINE = SendingLimits(trip_us=0)


def always(seconds: float, **more: object) -> ExecutionSample:
    return ExecutionSample(executions_us=(round(seconds * S),), **more)  # type: ignore[arg-type]


def went(
    jobs: int,
    workers: int,
    times: ExecutionSample,
    line: SendingLimits = LINE,
    *,
    warm: int | None = None,
    start_s: int = 0,
) -> Course:
    there = Workers(most=workers, warm=workers if warm is None else warm, start_us=start_s * S)
    return course(jobs, line, there, times)


def test_as_many_as_workers_take_one_execution_and_one_more_takes_two() -> None:
    assert went(8, 8, always(60)).finished_us == pytest.approx(63 * S, rel=0.01)
    assert went(9, 8, always(60)).finished_us == pytest.approx(123 * S, rel=0.01)


def test_what_is_paid_is_the_time_of_the_executions_also_of_those_that_failed() -> None:
    assert went(100, 7, always(3)).executing_us == 300 * S
    assert went(100, 7, always(3, per_job=1.5)).executing_us == 450 * S


def test_a_long_batch_goes_on_as_its_first_jobs_went() -> None:
    few, many = went(2_000, 10, always(5)), went(200_000, 10, always(5))
    assert many.finished_us - few.finished_us == pytest.approx(198_000 / 10 * 5 * S)
    assert many.submitted_us < many.finished_us
    assert many.waits_us < 700 * S, "the queue is kept shallow"


def test_a_long_batch_that_the_rate_binds_waits_for_nobody() -> None:
    many = went(50_000, 400, always(1))
    assert many.submitted_us == pytest.approx(many.finished_us, rel=0.01)
    assert many.waits_us == pytest.approx(1 * S, rel=0.01)


def test_workers_that_are_not_there_yet_take_their_time() -> None:
    assert went(1, 5, always(10), warm=0, start_s=90).finished_us == pytest.approx(100.5 * S, rel=0.01)
    assert went(5, 5, always(10), warm=0, start_s=90).finished_us > 104 * S, "further ones are started after a while"
    assert went(2, 5, always(1), warm=1, start_s=90).workers == 1, "nobody is started for what is soon done"


def test_with_questions_scarce_results_come_at_their_pace() -> None:
    slow = went(1_000, 100, always(1), SendingLimits(trip_us=0, status=Limit(50, 10)))
    assert slow.finished_us > 1_000 / 5 * S
    soon = went(1_000, 100, always(1), SendingLimits(trip_us=0, status=Limit(50, 10), webhooks=True))
    assert soon.finished_us < 13 * S


def test_a_shallow_queue_holds_the_sending_back() -> None:
    deep = went(100, 2, always(10), SendingLimits(trip_us=0, queue_depth="off"))
    shallow = went(100, 2, always(10), SendingLimits(trip_us=0, queue_depth=1))
    assert deep.submitted_us < 2 * S
    assert shallow.submitted_us > 400 * S
    assert shallow.waits_us < 21 * S < deep.waits_us


def test_a_time_that_was_given_is_the_middle_of_some() -> None:
    times = ExecutionSample.given(100 * S)
    assert (times.mean_us, times.quantile_us(0), times.quantile_us(1)) == (100 * S, 80 * S, 120 * S)


def test_the_more_is_known_the_less_doubt_there_is() -> None:
    few = ExecutionSample(executions_us=(1 * S, 3 * S), source=TimesSource.PROBE)
    many = ExecutionSample(executions_us=(1 * S, 3 * S) * 200, source=TimesSource.HISTORY)
    assert always(1).doubt == 0.1
    assert ExecutionSample(executions_us=(S,), source=TimesSource.PROBE).doubt == 0.5
    assert 0.9 >= few.doubt > many.doubt > 0.03


def test_a_forecast_lies_between_its_best_and_its_worst() -> None:
    found = forecast(500, LINE, Workers(most=10, warm=10), always(20))
    assert found.best.finished_us < found.likely.finished_us < found.worst.finished_us
    assert (found.binds, found.gap_us) == (Bottleneck.WORKERS, 2 * S)


@given(
    jobs=st.integers(1, 3_000),
    workers=st.integers(1, 50),
    seconds=st.lists(st.floats(0.01, 900), min_size=1, max_size=5),
)
def test_no_batch_ends_before_its_work_could_be_done_and_none_much_later(
    jobs: int, workers: int, seconds: list[float]
) -> None:
    times = ExecutionSample(executions_us=tuple(sorted(math.ceil(each * S) for each in seconds)))
    found = went(jobs, workers, times)
    longest_us = times.executions_us[-1]
    assert found.finished_us >= times.executions_us[0]
    assert found.finished_us <= (jobs / workers + 1) * longest_us * 1.06 + jobs * 0.02 * S + 5 * S
    assert found.submitted_us <= found.finished_us
    assert 1 <= found.workers <= workers
