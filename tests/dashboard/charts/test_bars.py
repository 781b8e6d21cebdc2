"""Bars of parts: of states, of one attempt, of what happened of late."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.dashboard.charts.bars import attempt_bar, part_text, spark_bars, state_bar
from orchestrator.dashboard.charts.chart import Bar
from orchestrator.views.series import Stretch


def widths(bar: Bar) -> list[float]:
    return [float(width) for width in re.findall(r' width="([0-9.]+)%"', bar.svg)]


def test_states_are_in_the_order_of_a_job_s_life_each_with_its_share() -> None:
    bar = state_bar({"queued": 700, "odd": 1, "succeeded": 280, "failed": 19, "cancelled": 0})
    assert [(part.kind, part.text, part.share) for part in bar.parts] == [
        ("succeeded", "280", "28 %"), ("failed", "19", "1.9 %"), ("queued", "700", "70 %"), ("odd", "1", "0.1 %"),
    ]  # fmt: skip
    assert bar.summary.startswith("succeeded 280 (28 %), failed 19 (1.9 %)")


def test_three_failures_of_a_million_can_be_seen() -> None:
    bar = state_bar({"succeeded": 999_997, "failed": 3})
    assert widths(bar)[1] > 0.5
    assert [part.share for part in bar.parts] == ["over 99.9 %", "under 0.1 %"]


def test_a_run_without_jobs_is_an_empty_bar() -> None:
    bar = state_bar({"queued": 0})
    assert (bar.parts, bar.summary, widths(bar)) == ((), "no jobs", [])


def test_less_than_none_is_refused() -> None:
    with pytest.raises(ValueError, match="failed"):
        state_bar({"succeeded": 3, "failed": -1})


@pytest.mark.parametrize(("count", "whole", "text"), [(0, 0, "0 %"), (0, 9, "0 %"), (9, 9, "100 %"), (1, 3, "33.3 %")])
def test_shares_are_rounded_down(count: int, whole: int, text: str) -> None:
    assert part_text(count, whole) == text


@given(st.dictionaries(st.sampled_from(["succeeded", "failed", "queued", "outstanding", "x"]), st.integers(0, 10**12)))
def test_the_parts_fill_the_bar(counts: dict[str, int]) -> None:
    bar = state_bar(counts)
    assert len(widths(bar)) == len(bar.parts) == sum(1 for count in counts.values() if count)
    assert not bar.parts or math.isclose(sum(widths(bar)), 100, abs_tol=0.1)


def test_attempts_are_as_long_as_they_took_of_the_longest() -> None:
    stretches = [
        Stretch(kind="waiting", seconds=10),
        Stretch(kind="queue", seconds=-5),
        Stretch(kind="execution", seconds=90),
    ]
    bar = attempt_bar(stretches, longest_s=200)
    assert widths(bar) == pytest.approx([5, 45])
    assert [(part.kind, part.text) for part in bar.parts] == [
        ("waiting", "10 s"),
        ("queue", "0 s"),
        ("execution", "1.5 min"),
    ]


def test_what_nobody_knows_is_named_and_not_drawn() -> None:
    bar = attempt_bar([Stretch(kind="waiting", seconds=1), Stretch(kind="execution", seconds=None)])
    assert bar.summary == "waiting 1 s, execution not known"
    assert widths(bar) == [100]
    assert widths(attempt_bar([Stretch(kind="queue", seconds=0)])) == []
    assert attempt_bar([]).summary == "nothing happened yet"


@pytest.mark.parametrize("seconds", [math.nan, math.inf])
def test_a_stretch_of_no_number_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="no number"):
        attempt_bar([Stretch(kind="queue", seconds=seconds)])


def test_sparks_are_columns_of_which_the_least_can_be_seen() -> None:
    bar = spark_bars([0, 1, 100], title="in its last hour")
    assert bar.summary == "in its last hour: 101, at most 100, last 100"
    assert re.findall(r' height="([0-9.]+)%"', bar.svg) == ["12", "100"]
    assert spark_bars([], title="a").summary == "a: 0, at most 0, last 0"
    assert "<rect" not in spark_bars([0, 0], title="a").svg


@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
def test_a_spark_of_no_count_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        spark_bars([1, value], title="a")
