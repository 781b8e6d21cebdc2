"""Figures as people read them."""

import pytest

from orchestrator.core.text import figures
from orchestrator.units import KIB, MIB, MINUTE_US, SECOND_US

AT = 1_782_208_327 * SECOND_US


@pytest.mark.parametrize(
    ("seconds", "exact", "rough"),
    [
        (-3, "0 s", "0 s"),
        (0.41, "0.4 s", "0.4 s"),
        (41.9, "41 s", "41 s"),
        (75, "1 min 15 s", "75 s"),
        (450, "7 min 30 s", "7 min"),
        (7_500, "2 h 05 min", "2 h 05 min"),
        (273_600, "3 d 04 h", "3 d"),
    ],
)
def test_a_duration_to_two_places_and_to_one(seconds: float, exact: str, rough: str) -> None:
    assert (figures.lasting(seconds), figures.rough_lasting(seconds)) == (exact, rough)


@pytest.mark.parametrize(
    ("per_s", "whole", "brief"),
    [
        (0, "0.0 jobs/s", "0/s"),
        (1_234.4, "1,234.4 jobs/s", "1,234/s"),
        (9.24, "9.2 jobs/s", "9.2/s"),
        (0.09, "5.4 jobs/min", "5.4/min"),
        (0.5, "30.0 jobs/min", "30/min"),
        (0.001, "3.6 jobs/h", "3.6/h"),
    ],
)
def test_a_rate_in_the_unit_in_which_it_says_something(per_s: float, whole: str, brief: str) -> None:
    assert (figures.rate(per_s), figures.brief_rate(per_s)) == (whole, brief)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.0001, "< 0.1 %"), (0.031, "3.1 %"), (0.99999, "99.9 %"), (1, "100 %"), (1.25, "125.0 %")],
)
def test_a_share_is_never_said_to_be_all_or_nothing_where_it_is_not(share: float, text: str) -> None:
    assert figures.share_text(share) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (512, "512 B"), (3_500, "3.4 KiB"), (36 * MIB, "36 MiB"), (1_200 * MIB, "1.2 GiB"), (KIB, "1.0 KiB")],
)
def test_a_size(size: int, text: str) -> None:
    assert figures.size_text(size) == text


@pytest.mark.parametrize(
    ("before_us", "text"),
    [
        (0, "just now"),
        (-SECOND_US // 2, "just now"),
        (2 * SECOND_US, "2 s ago"),
        (7 * MINUTE_US, "7 min ago"),
        (-7 * MINUTE_US, "in 7 min"),
    ],
)
def test_how_far_a_moment_is(before_us: int, text: str) -> None:
    assert figures.distance_text(AT - before_us, AT) == text


def test_a_part_is_all_only_where_nothing_is_left_and_a_moment_is_to_the_second_or_minute() -> None:
    assert [figures.percent(*each) for each in ((999, 1_000), (1, 1), (0, 0))] == ["99 %", "100 %", "0 %"]
    assert (figures.second(AT), figures.minute(AT)) == ("2026-06-23 09:52:07", "2026-06-23 09:52")
