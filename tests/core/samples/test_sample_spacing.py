"""How close together samples are kept, and how many points are read of a time."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.samples.sample_spacing import (
    POINTS_MAX,
    aligned,
    expired_before,
    longest_step,
    spacing_for,
    step_for,
    stretches,
    thinned,
)
from orchestrator.units import DAY_US, HOUR_US, MINUTE_US, SECOND_US

NOW = 1_700_000_400 * SECOND_US
"""A moment at which ten minutes begin."""


def itself(at: int) -> int:
    return at


def test_a_coarser_sample_is_one_of_the_finer_ones() -> None:
    ats = [NOW + s * SECOND_US for s in (0, 10, 50, 60, 600, 610)]
    assert [longest_step(at - 10 * SECOND_US, at) for at in ats] == [600, 10, 10, 60, 600, 10]
    assert longest_step(NOW, NOW) == 10


def test_a_sample_that_comes_late_stands_for_what_began_meanwhile() -> None:
    assert longest_step(NOW - 10 * SECOND_US, NOW + 20 * SECOND_US) == 600
    assert longest_step(NOW + 50 * SECOND_US, NOW + 80 * SECOND_US) == 60


def test_samples_are_due_at_round_seconds() -> None:
    assert aligned(NOW + 9_999_999) == NOW
    assert aligned(NOW + 10_000_000) == NOW + 10 * SECOND_US


@pytest.mark.parametrize(
    ("time_us", "step", "spacing"),
    [
        (10 * MINUTE_US, 10, 10),
        (40 * MINUTE_US, 10, 10),
        (HOUR_US, 60, 60),
        (4 * HOUR_US, 60, 60),
        (6 * HOUR_US, 600, 600),
        (40 * HOUR_US, 600, 600),
        (7 * DAY_US, 600, 3000),
        (400 * DAY_US, 600, 144_000),
        (0, 10, 10),
    ],
)
def test_a_longer_time_is_read_in_coarser_steps_first_and_then_every_nth(time_us: int, step: int, spacing: int) -> None:
    assert (step_for(NOW - time_us, NOW), spacing_for(NOW - time_us, NOW)) == (step, spacing)


def test_each_step_is_kept_for_its_time() -> None:
    assert [NOW - expired_before(step, NOW) for step in (10, 60, 600)] == [6 * HOUR_US, 7 * DAY_US, 400 * DAY_US]


@given(st.lists(st.integers(0, 100_000), unique=True).map(sorted), st.sampled_from([10, 60, 2400]))
def test_of_each_stretch_the_last_sample_is_left(seconds: Sequence[int], spacing: int) -> None:
    samples = [NOW + s * SECOND_US for s in seconds]
    left = thinned(samples, itself, spacing)
    assert left[-1:] == samples[-1:]
    assert all(-(-one // (spacing * SECOND_US)) < -(-two // (spacing * SECOND_US)) for one, two in pairwise(left))
    assert len(left) == len({-(-at // (spacing * SECOND_US)) for at in samples})


def test_points_stay_while_the_window_moves_on() -> None:
    samples = [NOW + s * SECOND_US for s in range(0, 12_000, 600)]
    assert set(thinned(samples[1:], itself, 2400)[:-1]) <= set(thinned(samples, itself, 2400))


def test_whole_days_of_samples_are_no_more_points_than_a_chart_has() -> None:
    since = NOW - 30 * DAY_US
    samples = list(range(since, NOW, 600 * SECOND_US))
    assert POINTS_MAX - 20 <= len(thinned(samples, itself, spacing_for(since, NOW))) <= POINTS_MAX + 1


@given(
    ats=st.lists(st.integers(0, 10_000)).map(sorted),
    since=st.integers(0, 9_000),
    lasts=st.integers(1, 5_000),
    spacing_s=st.sampled_from((10, 60, 600)),
)
def test_the_last_one_of_each_stretch_is_what_thinning_leaves(
    ats: Sequence[int], since: int, lasts: int, spacing_s: int
) -> None:
    since, until = since * SECOND_US, (since + lasts) * SECOND_US
    found = [at * SECOND_US for at in ats if since < at * SECOND_US <= until]
    parts = stretches(since, until, spacing_s)
    lasting = [max((at for at in found if after < at <= upto), default=None) for after, upto in parts]
    assert [at for at in lasting if at is not None] == thinned(found, itself, spacing_s)
    assert [after for after, _ in parts] == [since, *(upto for _, upto in parts[:-1])]
    assert parts[-1][1] == until
