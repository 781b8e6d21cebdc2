"""Requests by what was answered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.samples.buckets import GrowingHistogram, Histogram
from orchestrator.core.samples.request_counts import SORTED_AT, RequestCounts, code_of


@pytest.mark.parametrize(
    ("status", "code"),
    [(200, "2xx"), (302, "3xx"), (404, "4xx"), (429, "429"), (428, "4xx"), (503, "5xx"), (101, "none"), (999, "none")],
)
def test_an_answer_is_counted_by_its_status(status: int, code: str) -> None:
    assert code_of(status) == code


def test_answers_and_their_times_are_counted_and_silence_without_a_time() -> None:
    counts = RequestCounts()
    counts.answered(200, 30_000)
    counts.answered(429, 2_000_000)
    counts.unanswered()
    assert counts.codes == {"2xx": 1, "429": 1, "none": 1}
    assert counts.latency == Histogram((0, 0, 1, 0, 0, 0, 0, 1), 2.03)


def test_a_value_lies_in_the_bucket_that_ends_at_it() -> None:
    growing = GrowingHistogram((1.0, 2.0))
    for seconds in (1.0, 1.5, 2.0, 3.0):
        growing.add(seconds)
    assert growing.values == Histogram((1, 2, 1), 7.5)


def test_a_value_below_nothing_is_nothing() -> None:
    growing = GrowingHistogram((1.0,))
    growing.add(-5.0)
    assert growing.values == Histogram((1,), 0.0)


def test_one_without_values_says_nothing() -> None:
    assert GrowingHistogram((1.0,)).values == Histogram()


def test_answers_are_sorted_before_there_are_too_many() -> None:
    counts = RequestCounts()
    for n in range(SORTED_AT + 3):
        counts.answered(200 if n % 2 else 429, 1_000)
    assert counts.codes == {"2xx": SORTED_AT // 2 + 1, "429": SORTED_AT // 2 + 2}
    assert counts.latency.total == SORTED_AT + 3


@given(st.lists(st.integers(-5, 3_000)))
def test_many_values_at_once_lie_where_each_alone_would(milliseconds: list[int]) -> None:
    one_by_one, at_once = GrowingHistogram((0.0, 0.1, 1.0, 2.5)), GrowingHistogram((0.0, 0.1, 1.0, 2.5))
    for each in milliseconds:
        one_by_one.add(each / 1_000)
    at_once.add_all(list(milliseconds), 1_000)
    assert at_once.values.counts == one_by_one.values.counts


def test_many_values_at_once_come_to_their_sum() -> None:
    growing = GrowingHistogram((1.0,))
    growing.add_all([500, 1_000, 2_500], 1_000)
    assert growing.values == Histogram((2, 1), 4.0)
