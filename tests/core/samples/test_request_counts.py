"""Requests by what was answered."""

import pytest

from orchestrator.core.samples.buckets import GrowingHistogram, Histogram
from orchestrator.core.samples.request_counts import RequestCounts, code_of


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
    assert counts.latency.values == Histogram((0, 0, 1, 0, 0, 0, 0, 1), 2.03)


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
