"""How a batch goes that several endpoints share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, Workers, course
from orchestrator.core.planning.pool_forecast import EndpointWay, PoolRule, courses, joint_course, pool_forecast
from orchestrator.core.polling.admission import QueueDepth
from orchestrator.core.pools.member import Prefer
from orchestrator.units import MINUTE_US
from tests.factories import S

FAST = PoolRule()
CHEAP = PoolRule(prefer=Prefer.CHEAP)


def way(workers: int, seconds: float = 10.0, *, start_s: int = 0) -> EndpointWay:
    warm = 0 if start_s else workers
    times = ExecutionSample(executions_us=(round(seconds * S),))
    return EndpointWay(
        line=SendingLimits(trip_us=0),
        workers=Workers(most=workers, warm=warm, start_us=start_s * S),
        times=times,
    )


def jobs_of(jobs: int, ways: list[EndpointWay], rule: PoolRule = FAST) -> list[int]:
    return [0 if each is None else each.jobs for each in courses(jobs, ways, rule)]


def ends_s(jobs: int, ways: list[EndpointWay], rule: PoolRule = FAST) -> float:
    return joint_course(courses(jobs, ways, rule)).finished_us / S


def test_a_single_endpoint_takes_all_as_ever() -> None:
    alone = way(8)
    found = pool_forecast(80, [alone], FAST)
    assert found.likely == [course(80, alone.line, alone.workers, alone.times)]
    assert (found.whole.binds, found.whole.gap_us) == (Bottleneck.WORKERS, 1.25 * S)
    assert found.whole.best.finished_us < found.whole.likely.finished_us < found.whole.worst.finished_us


def test_members_take_what_they_end_by_the_same_time() -> None:
    shares = jobs_of(14_000, [way(4), way(8), way(16)])
    assert shares == [pytest.approx(each, rel=0.01) for each in (2_000, 4_000, 8_000)]
    assert ends_s(14_000, [way(4), way(8), way(16)]) == pytest.approx(5_000, rel=0.01)


def test_who_is_slow_takes_nothing_of_what_others_have_done_before_its_first_would_end() -> None:
    assert jobs_of(80, [way(8, 600.0), way(8, 1.0)]) == [0, 80]
    assert ends_s(80, [way(8, 600.0), way(8, 1.0)]) < 15


def test_a_member_whose_workers_have_to_start_takes_less() -> None:
    late, at_once = jobs_of(100, [way(10, start_s=60), way(10)])
    assert late < at_once - 50
    assert ends_s(100, [way(10, start_s=60), way(10)]) <= ends_s(100, [way(10)])


@pytest.mark.parametrize(("depth", "sent_s"), [("auto", 470), (5, 497)])
def test_jobs_wait_here_and_not_at_a_member(depth: QueueDepth, sent_s: float) -> None:
    ways = [replace(each, line=SendingLimits(trip_us=0, queue_depth=depth)) for each in (way(10), way(10))]
    assert joint_course(courses(1_000, ways, FAST)).submitted_us / S == pytest.approx(sent_s, abs=10)


def test_by_price_the_dearer_ones_take_what_the_cheap_one_has_not_begun_in_time() -> None:
    assert jobs_of(120, [way(10), way(10)], CHEAP) == [120, 0], "done within the spill-after of two minutes"
    shares = jobs_of(1_000, [way(10), way(10)], CHEAP)
    assert shares == [pytest.approx(565, abs=10), pytest.approx(435, abs=10)], "130 at the end are for the cheap one"
    assert sum(jobs_of(1_001, [way(10), way(10), way(3)], CHEAP)) == 1_001


def test_with_patience_the_cheapest_takes_all_that_it_ends_in_time() -> None:
    patient = PoolRule(prefer=Prefer.CHEAP, spill_after_us=10_000 * S)
    assert jobs_of(1_000, [way(10), way(10)], patient) == [1_000, 0]
    within = PoolRule(prefer=Prefer.CHEAP, spill_after_us=10_000 * S, finish_within_us=700 * S)
    cheap, dear = jobs_of(1_000, [way(10), way(10)], within)
    assert cheap == pytest.approx(700, rel=0.02)
    assert cheap + dear == 1_000
    assert ends_s(1_000, [way(10), way(10)], within) <= 700
    late = PoolRule(prefer=Prefer.CHEAP, spill_after_us=10_000 * S, finish_within_us=0)
    assert jobs_of(1_000, [way(10), way(10)], late) == [pytest.approx(500, abs=10), pytest.approx(500, abs=10)]


@pytest.mark.no_cover
@given(
    jobs=st.integers(1, 300),
    members=st.lists(st.tuples(st.integers(1, 20), st.floats(0.5, 90)), min_size=2, max_size=4),
    rule=st.sampled_from([FAST, CHEAP, PoolRule(prefer=Prefer.CHEAP, finish_within_us=5 * MINUTE_US)]),
)
def test_every_job_is_somewhere_and_all_together_are_no_slower_than_the_best_alone(
    jobs: int, members: list[tuple[int, float]], rule: PoolRule
) -> None:
    ways = [way(workers, seconds) for workers, seconds in members]
    assert sum(jobs_of(jobs, ways, rule)) == jobs
    if rule is FAST:
        alone_s = min(ends_s(jobs, [each]) for each in ways)
        assert ends_s(jobs, ways) <= 1.05 * alone_s + 1
