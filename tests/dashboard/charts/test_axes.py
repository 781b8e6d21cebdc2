"""Axes hold what they are for, and begin and end at round values and times."""

import math
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.dashboard.charts.axes import (
    TIME_STEPS_MAX,
    VALUE_MAX,
    VALUE_STEPS_MAX,
    lasted_text,
    time_axis,
    value_axis,
)
from orchestrator.units import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from orchestrator.views.series import Unit

NOON = 20_781 * DAY_US + 12 * HOUR_US
"""2026-11-24 12:00 UTC."""


@pytest.mark.parametrize(
    ("values", "unit", "labels"),
    [
        ([], Unit.NUMBER, ["1", "0"]),
        ([0, 0], Unit.SHARE, ["1 %", "0.5 %", "0 %"]),
        ([1], Unit.NUMBER, ["1", "0"]),
        ([3], Unit.NUMBER, ["3", "2", "1", "0"]),
        ([92, 41], Unit.PER_SECOND, ["100/s", "50/s", "0/s"]),
        ([-3, 5], Unit.NUMBER, ["5", "0", "-5"]),
        ([1_200_000], Unit.NUMBER, ["1.5 M", "1 M", "500,000", "0"]),
        ([700], Unit.SECONDS, ["15 min", "10 min", "5 min", "0 s"]),
        ([0.3], Unit.SECONDS, ["300 ms", "200 ms", "100 ms", "0 s"]),
        ([0.004], Unit.SECONDS, ["4 ms", "3 ms", "2 ms", "1 ms", "0 s"]),
        ([300 * 86_400], Unit.SECONDS, ["300 d", "200 d", "100 d", "0 s"]),
        ([36 * 2**20], Unit.BYTES, ["40 MiB", "30 MiB", "20 MiB", "10 MiB", "0 B"]),
        ([25], Unit.MONEY, ["30.00", "20.00", "10.00", "0"]),
    ],
)
def test_labels_are_round_and_evenly_apart(values: list[float], unit: Unit, labels: list[str]) -> None:
    assert list(value_axis(values, unit).labels) == labels


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2 * VALUE_MAX])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="cannot be drawn"):
        value_axis([1.0, value], Unit.NUMBER)


@given(
    st.lists(
        st.floats(-VALUE_MAX, VALUE_MAX, allow_subnormal=False).filter(lambda value: not 0 < abs(value) < 1e-280),
        max_size=8,
    ),
    st.sampled_from(Unit),
)
def test_all_values_are_on_the_axis(values: list[float], unit: Unit) -> None:
    axis = value_axis(values, unit)
    rounding = 1e-9 * (axis.high - axis.low)
    assert all(axis.low - rounding <= value <= axis.high + rounding for value in values)
    assert axis.low <= 0 <= axis.high
    assert 2 <= len(axis.labels) <= VALUE_STEPS_MAX + 1


@pytest.mark.parametrize(
    ("since", "until", "zone", "labels"),
    [
        (NOON, NOON + 10 * MINUTE_US, UTC, ["12:00", "12:02", "12:04", "12:06", "12:08", "12:10"]),
        (NOON + 1, NOON + 3 * SECOND_US, UTC, ["12:00:00", "12:00:01", "12:00:02", "12:00:03"]),
        (NOON, NOON, UTC, ["12:00:00", "12:00:01"]),
        (NOON, NOON - HOUR_US, UTC, ["12:00:00", "12:00:01"]),
        (NOON, NOON + 7 * DAY_US, UTC, ["23 Nov", "25 Nov", "27 Nov", "29 Nov", "1 Dec", "3 Dec"]),
        (NOON, NOON + 2 * DAY_US, UTC, ["12:00", "25 Nov", "12:00", "26 Nov", "12:00"]),
        (NOON, NOON + HOUR_US, ZoneInfo("Asia/Kolkata"), ["17:30", "17:40", "17:50", "18:00", "18:10", "18:20", "18:30"]),
        (NOON, NOON + 5 * HOUR_US, ZoneInfo("Asia/Kolkata"), ["17:00", "18:00", "19:00", "20:00", "21:00", "22:00", "23:00"]),
    ],
)  # fmt: skip
def test_windows_begin_and_end_at_round_times_of_the_zone(
    since: int, until: int, zone: tzinfo, labels: list[str]
) -> None:
    assert [label.text for label in time_axis(since, until, zone).labels] == labels


@given(
    st.integers(0, 2**52),
    st.integers(-DAY_US, 3_000 * DAY_US),
    st.sampled_from([UTC, ZoneInfo("Asia/Kolkata"), ZoneInfo("America/St_Johns"), timezone(timedelta(hours=-11))]),
)
def test_the_window_that_was_asked_for_is_within_even_steps(since: int, lasting_us: int, zone: tzinfo) -> None:
    axis = time_axis(since, since + lasting_us, zone)
    assert axis.since <= since <= max(since, since + lasting_us) <= axis.until
    assert 1 <= len(axis.labels) - 1 <= TIME_STEPS_MAX
    assert (axis.until - axis.since) % (len(axis.labels) - 1) == 0
    assert 0 <= axis.share(since) <= 1


@pytest.mark.parametrize(
    ("until", "text"),
    [
        (None, "since 24 Nov 12:00"),
        (NOON + SECOND_US, "24 Nov 12:00"),
        (NOON + HOUR_US, "24 Nov 12:00 to 13:00"),
        (NOON + DAY_US, "24 Nov 12:00 to 25 Nov 12:00"),
    ],
)
def test_a_time_is_told_without_its_day_twice(until: int | None, text: str) -> None:
    assert lasted_text(NOON, until, UTC) == text
