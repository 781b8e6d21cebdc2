"""Bars in time: what has begun and ended, goes on, has not begun, or ended before it began."""

import re

from orchestrator.dashboard.charts.time_bars import time_bars
from orchestrator.units import DAY_US, HOUR_US, MINUTE_US
from orchestrator.views.series import TimeBar

NOON = 20_781 * DAY_US + 12 * HOUR_US


def test_stages_stand_on_one_axis() -> None:
    chart = time_bars(
        [
            TimeBar(name="caption", since=NOON, until=NOON + 30 * MINUTE_US, state="succeeded", text="80 rows"),
            TimeBar(name="embed", since=NOON + 15 * MINUTE_US, until=None, state="running"),
            TimeBar(name="index", since=None, until=None, state="queued"),
        ],
        now=NOON + 45 * MINUTE_US,
    )
    assert [label.text for label in chart.times] == ["12:00", "12:10", "12:20", "12:30", "12:40", "12:50"]
    assert [row.when for row in chart.rows] == ["24 Nov 12:00 to 12:30", "since 24 Nov 12:15", "not begun"]
    assert [re.findall(r'<rect x="([0-9.]+)%" width="([0-9.]+)%"', row.svg) for row in chart.rows] == [
        [("0", "60")], [("30", "60")], [],
    ]  # fmt: skip


def test_where_nothing_has_begun_there_is_no_axis() -> None:
    chart = time_bars([TimeBar(name="a", since=None, until=None, state="queued")], now=NOON)
    assert (chart.times, len(chart.rows)) == ((), 1)
    assert time_bars([], now=NOON).rows == ()


def test_what_ends_before_it_began_is_a_moment() -> None:
    [row] = time_bars([TimeBar(name="a", since=NOON, until=NOON - HOUR_US, state="failed")], now=NOON).rows
    assert row.when == "24 Nov 12:00"
    assert 'width="0.4%"' in row.svg
    [row] = time_bars([TimeBar(name="a", since=NOON, until=None, state="running")], now=NOON - HOUR_US).rows
    assert 'width="0.4%"' in row.svg
