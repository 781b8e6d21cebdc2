import pytest

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.limits import (
    CONTRACT_LIMITS,
    JobOperation,
    MeterFigures,
    OperationLimit,
    OperationMeter,
)
from orchestrator.emulator.contract.rate_counters import Algorithm
from orchestrator.errors import UsageError
from orchestrator.units import SECOND_US


def refusal_of(meter: OperationMeter, now: int) -> ServiceRefusal:
    with pytest.raises(ServiceRefusal) as caught:
        meter.enter(now)
    return caught.value


def test_the_default_table_is_the_contracts() -> None:
    rows = {
        operation: (limit.requests, limit.window_us, limit.concurrent) for operation, limit in CONTRACT_LIMITS.items()
    }
    ten = 10 * SECOND_US
    assert rows == {
        JobOperation.RUN: (1000, ten, 200),
        JobOperation.STATUS: (2000, ten, 400),
        JobOperation.CANCEL: (100, ten, 20),
        JobOperation.PURGE_QUEUE: (2, ten, None),
        JobOperation.RETRY: (None, ten, None),
        JobOperation.HEALTH: (None, ten, None),
        JobOperation.METRICS: (None, ten, None),
        JobOperation.RUNSYNC: (2000, ten, 400),
        JobOperation.STREAM: (2000, ten, 400),
        JobOperation.REQUESTS: (10, ten, 2),
        JobOperation.OPENAI: (2000, ten, 400),
        JobOperation.BATCH: (None, ten, None),
    }


def test_requests_over_the_rate_are_refused_and_counted() -> None:
    meter = OperationMeter(OperationLimit(requests=2, window_us=SECOND_US), Algorithm.SLIDING_LOG)
    meter.enter(100)
    meter.enter(200)
    refusal = refusal_of(meter, 300)
    assert (refusal.status, refusal.headers) == (429, ())
    meter.enter(100 + SECOND_US)
    assert meter.figures() == MeterFigures(
        accepted=3, refused=1, window_max=2, concurrent=3, concurrent_max=3, first_at=100, last_at=100 + SECOND_US
    )


def test_requests_over_the_concurrency_are_refused_until_one_leaves() -> None:
    """Contract, Concurrent requests."""
    meter = OperationMeter(OperationLimit(concurrent=1), Algorithm.SLIDING_LOG)
    meter.enter(1)
    assert refusal_of(meter, 2).status == 429
    meter.leave()
    meter.enter(3)
    assert meter.figures().concurrent_max == 1


def test_a_request_refused_for_concurrency_uses_none_of_the_rate() -> None:
    meter = OperationMeter(OperationLimit(requests=2, concurrent=1), Algorithm.SLIDING_LOG)
    meter.enter(1)
    refusal_of(meter, 2)
    meter.leave()
    meter.enter(3)


def test_retry_after_is_rounded_up_to_whole_seconds() -> None:
    meter = OperationMeter(OperationLimit(requests=1), Algorithm.SLIDING_LOG, retry_after=True)
    meter.enter(0)
    assert refusal_of(meter, SECOND_US // 2).headers == (("retry-after", "10"),)


def test_retry_after_is_in_the_senders_seconds_where_time_runs_faster() -> None:
    meter = OperationMeter(OperationLimit(requests=1), Algorithm.SLIDING_LOG, retry_after=True, scale=4.0)
    meter.enter(0)
    assert refusal_of(meter, 1).headers == (("retry-after", "3"),)


def test_an_unlimited_operation_is_still_measured() -> None:
    meter = OperationMeter(OperationLimit(window_us=SECOND_US), Algorithm.FIXED_WINDOW)
    for at in range(0, 3 * SECOND_US, SECOND_US // 10):
        meter.enter(at)
        meter.leave()
    assert meter.figures() == MeterFigures(
        accepted=30, window_max=10, concurrent_max=1, first_at=0, last_at=29 * SECOND_US // 10
    )


@pytest.mark.parametrize("fields", [{"requests": 0}, {"concurrent": 0}, {"requests": 1, "window_us": 0}])
def test_a_limit_that_lets_nothing_through_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        OperationLimit(**fields)


def test_a_neighbour_uses_its_share_of_the_limit_and_is_in_no_figures() -> None:
    meter = OperationMeter(OperationLimit(requests=100, window_us=10 * SECOND_US), Algorithm.SLIDING_LOG)
    refused = 0
    for at in range(0, 60 * SECOND_US, SECOND_US // 10):
        meter.share_with(0.5 if 20 <= at // SECOND_US < 40 else 0.0, at)
        try:
            meter.enter(at)
        except ServiceRefusal:
            refused += 1
    figures = meter.figures()
    assert 90 <= refused <= 110, "of both together a third is too much while it is there"
    assert figures.accepted + refused == 600


def test_an_unlimited_operation_has_room_for_a_neighbour() -> None:
    meter = OperationMeter(OperationLimit(), Algorithm.SLIDING_LOG)
    for at in range(0, SECOND_US, SECOND_US // 100):
        meter.share_with(1.0, at)
        meter.enter(at)
    assert meter.figures().accepted == 100
