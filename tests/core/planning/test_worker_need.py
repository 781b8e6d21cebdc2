"""How many workers an endpoint needs for its runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.core.gates.scaling_override import WorkerRange
from orchestrator.core.planning.forecast import ExecutionSample, TimesSource
from orchestrator.core.planning.worker_need import (
    ENDLESS,
    JobTimes,
    WorkerDemand,
    WorkerNeed,
    arriving_per_s,
    late_us,
    needed,
)
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US

NOW = 1_000 * HOUR_US
MINUTE = JobTimes(mean_us=MINUTE_US, doubt=0.0, longest_us=MINUTE_US, executions=100)


def a_demand(left: int, by_h: float | None = 10, times: JobTimes | None = MINUTE) -> WorkerDemand:
    """So many jobs of a minute each, to be done in so many hours."""
    finish_by = None if by_h is None else NOW + round(by_h * HOUR_US)
    return WorkerDemand(left=left, times=times, finish_by=finish_by, range=WorkerRange(2, 30))


def workers(*demands: WorkerDemand, start_s: float = 0) -> int:
    found = needed(demands, NOW, start_us=start_s * SECOND_US)
    assert found is not None
    return found.workers


def test_as_many_as_make_the_deadline_with_a_reserve() -> None:
    """9.58 hours are left after the reserve and the last job's time: 575 minutes of each worker."""
    assert workers(a_demand(575)) == 1
    assert workers(a_demand(576)) == 2
    assert workers(a_demand(5_750)) == 10
    assert workers(a_demand(0)) == 0


def test_workers_that_start_and_a_long_last_job_leave_less_time() -> None:
    assert workers(a_demand(5_750), start_s=300) == 11
    slow_last = replace(MINUTE, longest_us=HOUR_US)
    assert workers(a_demand(5_750, times=slow_last)) == 12


def test_doubt_counts_for_who_wants_to_be_sure() -> None:
    found = needed([a_demand(5_750, times=replace(MINUTE, doubt=0.2))], NOW, start_us=0)
    assert found == WorkerNeed(workers=10, sure=13, by_deadline=10)


def test_the_earliest_deadline_comes_first_and_each_is_looked_at() -> None:
    """What is to be done in one hour needs more workers than all of it in ten."""
    assert workers(a_demand(100, 1), a_demand(100, 10)) == 2
    assert workers(a_demand(100, 1), a_demand(5_650, 10)) == 10
    assert workers(a_demand(560, 10), a_demand(565, 1)) == 10
    assert workers(a_demand(5_000), a_demand(750)) == 10


def test_runs_without_a_deadline_take_their_part() -> None:
    assert workers(a_demand(5_750), a_demand(1, None)) == 11


def test_what_arrives_is_worked_off_as_it_comes() -> None:
    assert workers(replace(a_demand(5_750), arriving_per_s=5 / 60)) == 15
    assert workers(replace(a_demand(3), arriving_per_s=5 / 60)) == 6


def test_rows_are_a_stream_that_come_again_and_again() -> None:
    """A thousand at the beginning are none, and a thousand in ten minutes are, whichever minutes they come in."""
    minutes = [n * MINUTE_US for n in range(11)]
    assert arriving_per_s(list(zip(minutes, [0, *[1_000] * 10], strict=True))) == 0.0
    assert arriving_per_s(list(zip(minutes, range(0, 1_100, 100), strict=True))) == pytest.approx(100 / 60)
    every_other = [n // 2 * 200 for n in range(11)]
    assert arriving_per_s(list(zip(minutes, every_other, strict=True))) == pytest.approx(100 / 60)
    dropped = list(zip(minutes, [900, 1_000, 1_100, 1_200, *[0] * 7], strict=True))
    assert arriving_per_s(dropped) == 0.0
    assert arriving_per_s([]) == 0.0


def test_no_more_than_there_are_jobs() -> None:
    assert workers(a_demand(3, 0.02)) == 3


def test_a_deadline_that_is_over_needs_more_than_there_can_be() -> None:
    assert workers(a_demand(ENDLESS + 1, -1)) == ENDLESS
    assert workers(a_demand(0, -1)) == 0
    assert workers(replace(a_demand(0, -1), arriving_per_s=1.0)) == 0


def test_an_hourly_budget_pays_for_so_many() -> None:
    paying = replace(a_demand(100, None), per_hour=3.6, price_per_s=0.0001)
    assert (paying.affordable, a_demand(1).affordable) == (10, None)
    assert needed([paying], NOW, start_us=0) == WorkerNeed(workers=10, sure=10, is_of_budget=True)
    assert workers(replace(paying, left=4)) == 4
    assert workers(a_demand(5_740), paying) == 21


def test_a_budget_keeps_them_fewer_than_a_deadline_needs() -> None:
    paying = replace(a_demand(5_750), per_hour=1.8, price_per_s=0.0001)
    assert needed([paying], NOW, start_us=0) == WorkerNeed(workers=5, sure=5, is_of_budget=True, by_deadline=10)
    assert not needed([replace(paying, left=2_000)], NOW, start_us=0).is_of_budget  # type: ignore[union-attr]


def test_nothing_is_known_before_anything_has_ended() -> None:
    assert needed([a_demand(10, times=None)], NOW, start_us=0) is None
    paying = replace(a_demand(100, None, None), per_hour=3.6, price_per_s=0.0001)
    assert workers(paying) == 10


def test_how_late_it_is_with_so_many() -> None:
    assert late_us([a_demand(5_750)], NOW, 10, start_us=0) == 0
    assert late_us([a_demand(6_000)], NOW, 8, start_us=MINUTE_US) == (750 + 2 - 600) * MINUTE_US
    assert late_us([a_demand(600, 5), a_demand(300, 6), a_demand(9, None)], NOW, 2, start_us=0) == 91 * MINUTE_US
    assert late_us([a_demand(5, times=None)], NOW, 8, start_us=0) == 0


def test_times_are_those_of_what_was_executed() -> None:
    sample = ExecutionSample(
        executions_us=tuple(SECOND_US * n for n in range(1, 101)), per_job=1.5, source=TimesSource.HISTORY
    )
    found = JobTimes.of(sample)
    assert found.mean_us == pytest.approx(1.5 * 50.5 * SECOND_US)
    assert found.longest_us == 96 * SECOND_US
    assert found.doubt == sample.doubt


@given(
    left=st.integers(0, 5_000),
    more=st.integers(1, 500),
    by_h=st.floats(0.1, 20),
    start_s=st.floats(0, 600),
    doubt=st.floats(0, 0.9),
)
def test_more_work_never_needs_fewer_workers(left: int, more: int, by_h: float, start_s: float, doubt: float) -> None:
    times = replace(MINUTE, doubt=doubt)
    little, much = (
        needed([a_demand(each, by_h, times)], NOW, start_us=start_s * SECOND_US) for each in (left, left + more)
    )
    assert little is not None
    assert much is not None
    assert little.workers <= much.workers <= much.sure
