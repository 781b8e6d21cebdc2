"""Histograms: bars of one width, with the bounds between them."""

import math
import re

import pytest

from orchestrator.dashboard.charts.histogram import histogram
from orchestrator.views.series import Bucket, Unit


def test_bars_are_of_one_width_whatever_a_bucket_holds() -> None:
    chart = histogram(
        [Bucket(up_to=60, count=1), Bucket(up_to=600, count=4), Bucket(up_to=None, count=2)], title="Margin"
    )
    assert chart.bounds == ("0 s", "1 min", "10 min", "more")
    assert chart.values == ("4", "3", "2", "1", "0")
    assert re.findall(r'<rect x="[0-9.]+%" width="([0-9.]+)%" y="([0-9.]+)%"', chart.svg) == [
        ("29.33", "75"), ("29.33", "0"), ("29.33", "50"),
    ]  # fmt: skip
    assert chart.summary == "0 s to 1 min: 1; 1 min to 10 min: 4; 10 min to more: 2."


def test_an_empty_bucket_has_no_bar() -> None:
    chart = histogram([Bucket(up_to=1, count=0), Bucket(up_to=2, count=3)], title="", unit=Unit.NUMBER)
    assert chart.svg.count("<rect") == 1
    assert chart.summary == "1 to 2: 3."


@pytest.mark.parametrize("buckets", [[], [Bucket(up_to=1, count=0)]])
def test_where_nothing_was_counted_it_says_so(buckets: list[Bucket]) -> None:
    chart = histogram(buckets, title="Margin")
    assert (chart.svg, chart.summary) == ("", "There is nothing to count yet.")


@pytest.mark.parametrize("count", [-1, math.nan, math.inf])
def test_what_is_no_count_is_refused(count: float) -> None:
    with pytest.raises(ValueError, match=r"holds|cannot be drawn"):
        histogram([Bucket(up_to=1, count=1), Bucket(up_to=2, count=count)], title="")
