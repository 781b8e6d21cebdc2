"""When workers become more or fewer."""

import pytest
from msgspec.structs import replace

from orchestrator.core.gates.scaling_override import WorkerRange
from orchestrator.core.planning.worker_need import JobTimes, WorkerDemand
from orchestrator.core.planning.worker_steps import (
    STEP_US,
    EndpointWorkers,
    WorkersNow,
    WorkersWhy,
    first_bound,
    next_bound,
)
from orchestrator.units import HOUR_US, MINUTE_US

NOW = 1_000 * HOUR_US
MINUTE = JobTimes(mean_us=MINUTE_US, doubt=0.0, longest_us=MINUTE_US, executions=100)
SPAN = WorkerRange(2, 30)
NEEDS_TEN = WorkerDemand(left=5_700, times=MINUTE, finish_by=NOW + 10 * HOUR_US, range=SPAN)
PAYING = WorkerDemand(left=5_000, times=MINUTE, range=SPAN, per_hour=3.6, price_per_s=0.0001)
AT_TEN = EndpointWorkers(bound=10, changed_at=NOW - STEP_US, start_us=MINUTE_US)


def begun(demand: WorkerDemand) -> tuple[int, WorkersWhy]:
    found = first_bound([demand], NOW, start_us=0)
    assert found.bound == found.wanted
    return found.bound, found.why


@pytest.mark.parametrize(
    ("demand", "bound", "why"),
    [
        (NEEDS_TEN, 10, WorkersWhy.DEADLINE),
        (replace(NEEDS_TEN, left=100), 2, WorkersWhy.LEAST),
        (replace(NEEDS_TEN, left=50_000), 30, WorkersWhy.MOST),
        (replace(NEEDS_TEN, times=None), 8, WorkersWhy.UNKNOWN),
        (PAYING, 10, WorkersWhy.BUDGET),
        (replace(PAYING, per_hour=36.0), 30, WorkersWhy.MOST),
        (replace(NEEDS_TEN, per_hour=1.8, price_per_s=0.0001), 5, WorkersWhy.BUDGET),
        (replace(NEEDS_TEN, times=None, per_hour=1.8, price_per_s=0.0001), 5, WorkersWhy.UNKNOWN),
    ],
)
def test_a_run_begins_with_what_it_needs_as_far_as_that_is_known(
    demand: WorkerDemand, bound: int, why: WorkersWhy
) -> None:
    assert begun(demand) == (bound, why)


def next_of(demand: WorkerDemand, at: EndpointWorkers = AT_TEN) -> WorkersNow:
    return next_bound([demand], at, NOW)


def test_they_stay_while_they_do() -> None:
    for left in (5_000, 5_700):
        assert next_of(replace(NEEDS_TEN, left=left)).bound == 10
    assert next_of(replace(NEEDS_TEN, times=None)) == WorkersNow(
        bound=10, wanted=10, why=WorkersWhy.UNKNOWN, least=2, most=30, changed_at=AT_TEN.changed_at
    )


def test_more_come_once_they_would_not_do() -> None:
    found = next_of(replace(NEEDS_TEN, left=8_000))
    assert (found.bound, found.why, found.late_us) == (14, WorkersWhy.DEADLINE, 0)
    found = next_of(replace(NEEDS_TEN, left=30_000))
    assert (found.bound, found.why) == (30, WorkersWhy.MOST)
    assert found.late_us == (1_000 + 1 + 1 - 600) * MINUTE_US


def test_fewer_stay_once_far_fewer_do_for_long() -> None:
    half = replace(NEEDS_TEN, left=2_800)
    assert next_of(half).bound == 5
    assert next_of(replace(NEEDS_TEN, left=3_200)).bound == 10
    soon = replace(NEEDS_TEN, left=50, finish_by=NOW + 40 * MINUTE_US)
    assert next_of(soon).bound == 10, "what is done within half an hour is not worth a restart"
    few = replace(half, times=replace(MINUTE, executions=19))
    assert next_of(few).bound == 10, "the first that end are the shortest"


def test_there_are_five_minutes_between_two_changes() -> None:
    lately = replace(AT_TEN, changed_at=NOW - STEP_US + 1)
    found = next_of(replace(NEEDS_TEN, left=8_000), lately)
    assert (found.bound, found.wanted) == (10, 14)
    assert next_of(replace(NEEDS_TEN, left=8_000), replace(AT_TEN, changed_at=None)).bound == 14


def test_more_do_not_come_where_they_would_only_start_when_the_others_are_done() -> None:
    late = replace(NEEDS_TEN, left=40, finish_by=NOW + 3 * MINUTE_US)
    assert next_of(late, replace(AT_TEN, start_us=10 * MINUTE_US)).bound == 10
    assert next_of(late, replace(AT_TEN, start_us=MINUTE_US)).bound == 30


def test_where_there_are_no_machines_nothing_is_changed_and_it_is_told() -> None:
    found = next_of(replace(NEEDS_TEN, left=8_000), replace(AT_TEN, up=6, throttled=4))
    assert (found.bound, found.wanted, found.why) == (10, 14, WorkersWhy.THROTTLED)
    assert found.late_us == pytest.approx((8_000 / 6 + 1 - 600) * MINUTE_US, rel=1e-6)
    assert next_of(replace(NEEDS_TEN, left=2_000), replace(AT_TEN, up=6, throttled=4)).bound < 10
    unsaid = next_of(replace(NEEDS_TEN, left=8_000), replace(AT_TEN, throttled=4))
    assert unsaid.late_us == pytest.approx((8_000 / 10 + 1 - 600) * MINUTE_US, rel=1e-6)


def test_what_is_outside_of_the_range_comes_into_it() -> None:
    assert next_of(NEEDS_TEN, replace(AT_TEN, bound=40)).bound == 10
    assert next_of(replace(NEEDS_TEN, times=None), replace(AT_TEN, bound=1)).bound == 8


def test_of_several_ranges_the_widest_counts() -> None:
    other = replace(NEEDS_TEN, left=0, range=WorkerRange(4, 12))
    without = WorkerDemand(left=0, times=None)
    found = next_bound([NEEDS_TEN, other, without], AT_TEN, NOW)
    assert (found.least, found.most) == (4, 30)


@pytest.mark.parametrize(
    ("why", "sentence"),
    [
        (WorkersWhy.DEADLINE, "finish-by needs 12 workers"),
        (WorkersWhy.REFUSED, "the account did not give it 12 workers: Forbidden"),
        (WorkersWhy.BY_HAND, "somebody else has changed it, and it is left so"),
    ],
)
def test_what_people_are_told(why: WorkersWhy, sentence: str) -> None:
    found = WorkersNow(bound=12, wanted=12, why=why, least=2, most=30, refusal="Forbidden")
    assert found.sentence == f"up to 12 workers, of 2 to 30: {sentence}"
    late = replace(found, changed_at=0, late_us=20 * MINUTE_US).sentence
    assert late == (
        f"up to 12 workers since 1970-01-01 00:00 UTC, of 2 to 30: {sentence}, which is 20 min late all the same"
    )
