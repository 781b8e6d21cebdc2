"""Limits that grow with the running workers: slowly up, at once down, never below the contract's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, REQUESTS_MAX, Operation
from orchestrator.core.limits.worker_limits import RAISE_SHARE, RULED, UNKNOWN_US_MAX, WorkerLimits, is_throttled

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
BASE = CONTRACT_LIMITS[Operation.RUN].requests


def grown(running: int, looks: int, *, per_worker: int = 100) -> WorkerLimits:
    limits = WorkerLimits(per_worker)
    for _ in range(looks):
        limits.observe(START, running, throttled=False)
    return limits


def run_requests(limits: WorkerLimits) -> int:
    return limits.limits[Operation.RUN].requests


def test_the_limit_grows_by_a_tenth_at_a_time_up_to_what_the_workers_allow() -> None:
    limits = WorkerLimits(100)
    seen = []
    for _ in range(5):
        limits.observe(START, 13, throttled=False)
        seen.append(run_requests(limits))
    assert seen == [1_100, 1_210, 1_300, 1_300, 1_300]
    assert limits.limits[Operation.STATUS] == CONTRACT_LIMITS[Operation.STATUS], "2,000 is more than 1,300"
    assert limits.limits[Operation.RUN].concurrent == CONTRACT_LIMITS[Operation.RUN].concurrent


def test_fewer_workers_lower_it_at_once() -> None:
    limits = grown(50, 20)
    assert run_requests(limits) == 5_000
    limits.observe(START, 21, throttled=False)
    assert run_requests(limits) == 2_100
    limits.observe(START, 0, throttled=False)
    assert run_requests(limits) == BASE


def test_a_429_lowers_it_to_the_base_whatever_the_workers() -> None:
    limits = grown(50, 20)
    limits.observe(START, 50, throttled=True)
    assert run_requests(limits) == BASE
    limits.observe(START, 50, throttled=False)
    assert run_requests(limits) == 1_100


def test_idle_workers_count_until_a_429_says_that_the_service_does_not_count_them() -> None:
    limits = WorkerLimits(100)
    limits.observe(START, 0, idle=40, throttled=True)
    assert run_requests(limits) == BASE, "a 429 at the base limit tells nothing of workers"
    for _ in range(20):
        limits.observe(START, 1, idle=39, throttled=False)
    assert run_requests(limits) == 4_000
    limits.observe(START, 12, idle=28, throttled=True)
    assert run_requests(limits) == BASE
    for _ in range(20):
        limits.observe(START, 12, idle=28, throttled=False)
    assert run_requests(limits) == 1_200


def test_a_number_of_workers_holds_a_while_when_no_other_comes() -> None:
    limits = grown(50, 20)
    limits.observe(START + UNKNOWN_US_MAX, None, throttled=False)
    assert run_requests(limits) == 5_000
    limits.observe(START + UNKNOWN_US_MAX + 1, None, throttled=False)
    assert run_requests(limits) == BASE


def test_without_any_look_the_base_limits_hold() -> None:
    limits = WorkerLimits(100)
    limits.observe(START, None, throttled=False)
    assert limits.limits == {operation: CONTRACT_LIMITS[operation] for operation in RULED}


@given(
    looks=st.lists(st.tuples(st.none() | st.integers(0, 10**12), st.integers(0, 10**12), st.booleans()), max_size=30),
    per_worker=st.integers(1, 10**9),
)
def test_no_limit_is_ever_below_the_contract_s_or_above_what_the_workers_allow(
    looks: list[tuple[int | None, int, bool]], per_worker: int
) -> None:
    limits = WorkerLimits(per_worker)
    running = 0
    for number, (busy, idle, throttled) in enumerate(looks):
        before = limits.limits
        limits.observe(START + number * SECOND, busy, idle=idle, throttled=throttled)
        running = running if busy is None else busy + idle
        for operation, limit in limits.limits.items():
            base = CONTRACT_LIMITS[operation].requests
            assert base <= limit.requests <= max(base, min(running * per_worker, REQUESTS_MAX))
            assert limit.requests <= before[operation].requests * (1 + RAISE_SHARE) + 1


@pytest.mark.parametrize(
    ("sent", "throttled", "stray", "expected"),
    [(0, 0, 0.0, False), (1000, 10, 0.0, False), (3, 1, 0.0, True), (1000, 90, 0.0, True), (1000, 90, 0.1, False)],
)
def test_single_429s_that_our_rate_does_not_cause_take_away_nothing(
    sent: int, throttled: int, stray: float, *, expected: bool
) -> None:
    assert is_throttled(sent, throttled, stray) is expected
