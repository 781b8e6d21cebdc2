"""What is learned of an endpoint's times."""

import math

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.polling.latency import DurationHistogram, Durations
from tests.factories import S


def learned(*milliseconds: int) -> DurationHistogram:
    found = DurationHistogram()
    for each in milliseconds:
        found.observe(each)
    return found


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=400), st.floats(0, 1))
def test_a_quantile_is_never_below_the_true_one_and_at_most_a_step_above(found: list[int], share: float) -> None:
    ordered = sorted(max(1, each) for each in found)
    true_us = ordered[max(0, math.ceil(share * len(found)) - 1)] * 1_000
    quantile_us = learned(*found).quantile_us(share)

    assert quantile_us is not None
    assert true_us < quantile_us <= true_us * 5 // 4 + 1_000


@given(st.integers(0, 2**30 - 1))
def test_one_observation_is_every_quantile(milliseconds: int) -> None:
    found = learned(milliseconds)

    assert found.quantile_us(0.0) == found.p50_us == found.p95_us == found.p999_us == found.quantile_us(1.0)


def test_without_observations_nothing_is_known() -> None:
    durations = Durations()
    durations.observe(None, None)

    assert (durations.queue.p50_us, durations.execution.p95_us, durations.whole.p999_us) == (None, None, None)


def test_queue_and_execution_are_learned_apart_and_together() -> None:
    durations = Durations()
    durations.observe(90_000, 1_000)
    durations.observe(None, 1_000)
    durations.observe(90_000, None)

    assert (durations.queue.weight, durations.execution.weight, durations.whole.weight) == (2, 2, 3)
    assert 90 * S < (durations.queue.p50_us or 0) <= 113 * S
    assert S < (durations.execution.p999_us or 0) <= 1.26 * S
    assert (durations.whole.p999_us or 0) > 91 * S


def test_what_lies_beyond_the_histogram_counts_as_its_end() -> None:
    assert learned(10**15).quantile_us(1.0) == 2**30 * 1_000


def test_old_observations_fade() -> None:
    found = learned(*[1_000_000] * 4_000, *[1_000] * 6_000)

    assert (found.p50_us or 0) < 2 * S
    assert (found.quantile_us(1.0) or 0) > 900 * S


def test_a_quantile_that_was_asked_for_follows_the_news_once_they_are_some() -> None:
    found = learned(*[1_000] * 100)
    before = found.quantile_us(1.0)
    found.observe(100_000)
    assert found.quantile_us(1.0) == before
    for _ in range(4):
        found.observe(100_000)
    assert (found.quantile_us(1.0) or 0) > 100 * S
