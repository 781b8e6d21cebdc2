"""What binds: limits, workers, and how much may be at the service."""

import pytest

from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import Limit
from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits, binding, gap_at_once_us, gap_us, gaps_us
from tests.factories import S


def test_the_even_rate_leaves_half_a_percent_of_the_limit() -> None:
    gap = gap_us(Limit(1000, 10), pacing="even", trip_us=50_000)
    assert gap == pytest.approx(10_050, rel=0.001)


def test_a_window_may_be_filled_at_once_but_not_before_its_answers() -> None:
    assert gap_us(Limit(1000, 10), pacing="window", trip_us=1 * S) == 11_000


def test_long_round_trips_bind_by_the_guard_and_by_how_many_are_under_way() -> None:
    assert gap_us(Limit(1000, 10), pacing="even", trip_us=5 * S) == 15_000
    assert gap_at_once_us(Limit(1000, 10, 50), 1 * S) == 20_000
    assert gap_at_once_us(Limit(1000, 10), 1 * S) == 0


def test_below_thirty_requests_a_window_round_trips_cost_more() -> None:
    assert gap_us(Limit(5, 10), pacing="even", trip_us=60_000) > 1.1 * 2 * S


def bound(line: SendingLimits, *, workers: int = 1000, execution_s: float = 1.0) -> Bottleneck:
    return binding(gaps_us(line, workers=workers, execution_us=execution_s * S))


def test_the_slowest_of_all_binds() -> None:
    assert bound(SendingLimits()) is Bottleneck.RATE
    assert bound(SendingLimits(run=Limit(1000, 10, 2))) is Bottleneck.CONCURRENCY
    assert bound(SendingLimits(status=Limit(100, 10, 400))) is Bottleneck.STATUS
    assert bound(SendingLimits(), workers=5) is Bottleneck.WORKERS
    assert bound(
        SendingLimits(queue_depth=0, retention_us=1 * S, status=Limit(20, 10)), workers=200, execution_s=50
    ) is (Bottleneck.QUEUE)


def test_with_webhooks_few_questions_do_not_bind() -> None:
    assert bound(SendingLimits(status=Limit(100, 10, 400), webhooks=True)) is Bottleneck.RATE


def test_past_the_queue_a_request_lasts_as_long_as_its_execution_and_nothing_is_asked() -> None:
    line = SendingLimits(run=Limit(2000, 10, 380), status=Limit(1, 10), via=Via.OPENAI)
    assert bound(line, workers=1000, execution_s=60) is Bottleneck.CONCURRENCY
    assert bound(line, workers=100, execution_s=60) is Bottleneck.WORKERS
    assert gaps_us(line, workers=None, execution_us=59.9 * S)[Bottleneck.CONCURRENCY] == pytest.approx(60 * S / 380)
    assert (line.at_service_max(workers=9, finished_per_s=1), line.brings_results) == (380, True)
    assert SendingLimits(via=Via.OPENAI, run=Limit(10, 10)).at_service_max(workers=5, finished_per_s=0.1) == 1_005


def test_a_held_request_lasts_as_long_as_its_execution() -> None:
    line = SendingLimits(run=Limit(2000, 10, 400), status=Limit(1, 10), via=Via.SYNC)
    assert bound(line, workers=10_000, execution_s=4) is Bottleneck.CONCURRENCY
    assert bound(line, workers=10_000, execution_s=0.5) is Bottleneck.RATE
    assert (line.at_service_max(workers=9, finished_per_s=1), line.brings_results) == (400, True)


def test_by_both_lanes_the_rates_add_up_while_a_place_is_worth_it() -> None:
    line = SendingLimits(via=Via.BOTH)
    per_s = S / gaps_us(line, workers=5_000, execution_us=S / 2)[Bottleneck.RATE]
    assert per_s == pytest.approx(99 + 188, rel=0.02)
    alone = gaps_us(SendingLimits(), workers=5_000, execution_us=20 * S)
    assert gaps_us(line, workers=5_000, execution_us=20 * S) == alone
    assert bound(line, workers=5_000, execution_s=0.5) is Bottleneck.RATE
    assert bound(line, workers=50, execution_s=0.5) is Bottleneck.WORKERS


def test_of_what_nobody_knows_nothing_is_said() -> None:
    assert set(gaps_us(SendingLimits(), workers=None, execution_us=1.0 * S)) == set(
        gaps_us(SendingLimits(), workers=3, execution_us=None)
    )
    assert Bottleneck.WORKERS not in gaps_us(SendingLimits(), workers=None, execution_us=None)


def test_how_much_may_be_at_the_service_follows_from_the_queue_depth_and_from_what_can_be_collected() -> None:
    line = SendingLimits(status=Limit(20, 10))
    assert SendingLimits(queue_depth="off").at_service_max(workers=5, finished_per_s=1) == 240_000
    assert line.at_service_max(workers=5, finished_per_s=100) == 2_400
    assert SendingLimits().at_service_max(workers=5, finished_per_s=0.1) == 1_005
    assert SendingLimits().at_service_max(workers=5, finished_per_s=100) == 60_005
    assert SendingLimits(queue_depth=7).at_service_max(workers=5, finished_per_s=100) == 12
