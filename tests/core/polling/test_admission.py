"""How many jobs may be at the service, and which are not worth sending."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.jobs.deadlines import RETENTION_US_DEFAULT
from orchestrator.core.polling.admission import (
    DEPTH_IN_TURNS_MIN,
    DEPTH_MIN,
    HORIZON_S,
    Throughput,
    TtlOutlook,
    TtlVerdict,
    at_service_max,
    outstanding_max,
)
from orchestrator.core.polling.latency import Durations
from tests.factories import S
from tests.simulation.clock import EPOCH_AT


def test_no_more_may_be_outstanding_than_can_be_collected_in_time() -> None:
    assert outstanding_max(200.0, RETENTION_US_DEFAULT) == 240_000
    assert outstanding_max(200.0, 1_000) == 16


def test_the_queue_may_be_as_deep_as_is_asked_for_or_as_ten_minutes_of_the_endpoint_and_what_runs_does_not_count() -> (
    None
):
    assert at_service_max("off", finished_per_s=1.0, running=5) is None
    assert at_service_max(50, finished_per_s=100.0, running=5) == 55
    assert at_service_max("auto", finished_per_s=0.0, running=5) == DEPTH_MIN + 5
    assert at_service_max("auto", finished_per_s=100.0, running=5) == 100 * HORIZON_S + 5
    assert at_service_max("auto", finished_per_s=0.1, running=5, least=DEPTH_IN_TURNS_MIN) == DEPTH_IN_TURNS_MIN + 5


# --- throughput


def test_nothing_has_finished_yet() -> None:
    assert Throughput().per_s(EPOCH_AT) == 0.0


@pytest.mark.no_cover
@given(st.integers(1, 50), st.integers(1, 600))
def test_a_steady_rate_is_found_again(per_s: int, seconds: int) -> None:
    throughput = Throughput()
    for second in range(seconds + 1):
        for _ in range(per_s):
            throughput.observe(EPOCH_AT + second * S)

    assert throughput.per_s(EPOCH_AT + seconds * S) == pytest.approx(per_s, rel=1 / min(seconds, 60) + 0.02)


def test_an_endpoint_that_finishes_nothing_any_more_is_at_zero_after_two_minutes() -> None:
    throughput = Throughput()
    for second in range(90):
        throughput.observe(EPOCH_AT + second * S)

    assert throughput.per_s(EPOCH_AT + 119 * S) > 0.5
    assert throughput.per_s(EPOCH_AT + 400 * S) == 0.0


# --- prospects


def known(delay_s: float, execution_s: float, *, jobs: int = TtlOutlook.ENOUGH) -> Durations:
    durations = Durations()
    for _ in range(jobs):
        durations.observe(round(delay_s * 1_000), round(execution_s * 1_000))
    return durations


@pytest.mark.parametrize(
    ("ttl_s", "is_idle", "prospect"),
    [
        (30, False, TtlVerdict.HOPELESS),
        (30, True, TtlVerdict.HOPELESS),
        (300, False, TtlVerdict.LATE),
        (300, True, TtlVerdict.GOOD),
        (900, False, TtlVerdict.GOOD),
    ],
)
def test_a_ttl_must_have_room_for_the_queue_and_for_the_execution(
    ttl_s: int, is_idle: bool, prospect: TtlVerdict
) -> None:
    outlook = TtlOutlook(known(600, 60), is_idle=is_idle)
    assert outlook.of(ttl_s * S) is prospect
    assert outlook.is_late(ttl_s * S) is (prospect is TtlVerdict.LATE)


def test_while_little_is_known_every_job_is_worth_sending() -> None:
    for durations in (Durations(), known(600, 60, jobs=TtlOutlook.ENOUGH - 1)):
        assert TtlOutlook(durations, is_idle=False).of(10 * S) is TtlVerdict.GOOD


def test_where_the_service_tells_no_time_in_the_queue_only_the_execution_counts() -> None:
    durations = Durations()
    for _ in range(TtlOutlook.ENOUGH):
        durations.observe(None, 60_000)

    assert TtlOutlook(durations, is_idle=False).of(70 * S) is TtlVerdict.GOOD


@given(st.floats(0, 10_000), st.floats(0.001, 10_000), st.booleans())
def test_a_ttl_that_the_usual_job_meets_is_never_held_back(delay_s: float, execution_s: float, is_idle: bool) -> None:
    ttl_us = round((delay_s + execution_s) * S) + 2 * S
    assert TtlOutlook(known(delay_s, execution_s), is_idle=is_idle).of(ttl_us) is TtlVerdict.GOOD
