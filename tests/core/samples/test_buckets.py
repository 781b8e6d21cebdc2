"""Buckets that only grow, and the quantiles of what lies between two looks at them."""

import pytest

from orchestrator.core.samples.buckets import NO_VALUES, Histogram, quantile

BOUNDS = (1.0, 2.0, 4.0)


def test_two_histograms_are_added_bucket_by_bucket_whatever_is_missing_at_the_end() -> None:
    assert Histogram((1, 2), 3.0).plus(Histogram((1, 0, 5), 20.0)) == Histogram((2, 2, 5), 23.0)
    assert NO_VALUES.plus(Histogram((1,), 0.5)) == Histogram((1,), 0.5)
    assert Histogram((2, 2, 5), 23.0).total == 9


def test_what_came_between_two_looks_is_their_difference() -> None:
    before, after = Histogram((1, 2), 3.0), Histogram((2, 2, 5), 23.0)
    assert after.since(before) == Histogram((1, 0, 5), 20.0)
    assert after.since(NO_VALUES) == after
    assert after.since(after).total == 0


@pytest.mark.parametrize("before", [Histogram((3,), 1.0), Histogram((0, 0, 0, 1), 9.0)])
def test_where_a_bucket_was_fuller_before_it_has_begun_again_at_nothing(before: Histogram) -> None:
    after = Histogram((2, 2, 5), 23.0)
    assert after.since(before) == after


def test_nothing_has_no_quantile() -> None:
    assert quantile(NO_VALUES, BOUNDS, 0.5) is None
    assert quantile(Histogram((0, 0)), BOUNDS, 0.5) is None


@pytest.mark.parametrize(
    ("counts", "share", "value"),
    [
        ((4,), 0.5, 0.5),  # the first bucket begins at 0
        ((0, 4), 0.5, 1.5),
        ((0, 4), 1.0, 2.0),
        ((0, 4), 0.0, 1.0),
        ((2, 0, 2), 0.5, 1.0),  # at the end of the first: nothing lies in the second
        ((2, 0, 2), 0.75, 3.0),
        ((0, 0, 0, 7), 0.5, 4.0),  # of the last one only its beginning is known
        ((1, 1, 1, 1), 0.95, 4.0),
    ],
)
def test_a_quantile_lies_evenly_in_its_bucket(counts: tuple[int, ...], share: float, value: float) -> None:
    assert quantile(Histogram(counts), BOUNDS, share) == pytest.approx(value)
