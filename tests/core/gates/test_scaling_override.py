"""The bounds of an endpoint's workers: raised for runs, and put back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.gates.scaling_override import (
    Bounds,
    ScalingOverride,
    WantedWorkers,
    is_changed_by_hand,
    raised,
    restored,
)

LOAN = ScalingOverride(before=Bounds(0, 3), raised=Bounds(2, 10))


def test_the_largest_wish_wins_and_nothing_is_lowered() -> None:
    before = Bounds(1, 3)
    assert raised(before, []) == before
    assert raised(before, [WantedWorkers(most=2, least=0)]) == before
    assert raised(before, [WantedWorkers(most=10), WantedWorkers(most=7, least=2)]) == Bounds(2, 10)
    assert raised(before, [WantedWorkers(least=5)]) == Bounds(5, 5), "no endpoint has more at least than at most"


def test_as_many_as_are_needed_and_fewer_only_where_all_want_that() -> None:
    before, warm = Bounds(3, 8), [WantedWorkers(least=5)]
    assert raised(before, [], 6, may_be_fewer=True) == Bounds(3, 6)
    assert raised(before, [], 2, may_be_fewer=True) == Bounds(2, 2)
    assert raised(before, warm, 12, may_be_fewer=True) == Bounds(5, 12)
    assert raised(before, [], 6) == before
    assert raised(before, [WantedWorkers(most=10)], 12) == Bounds(3, 12)


def test_while_a_change_may_have_been_carried_out_or_not_either_is_ours() -> None:
    step = ScalingOverride(before=Bounds(0, 3), raised=Bounds(0, 12), former=Bounds(0, 6))
    for now in (Bounds(0, 3), Bounds(0, 6), Bounds(0, 12)):
        assert not is_changed_by_hand(step, now)
        assert restored(step, now) == Bounds(0, 3)
    assert is_changed_by_hand(step, Bounds(0, 7))


def test_what_wants_nothing() -> None:
    assert not WantedWorkers().is_any
    assert WantedWorkers(least=1).is_any
    assert WantedWorkers(most=1).is_any
    assert str(Bounds(0, 1_000)) == "0 to 1,000 workers"


@pytest.mark.parametrize(
    ("now", "changed", "then"),
    [
        (Bounds(2, 10), False, Bounds(0, 3)),
        (Bounds(0, 3), False, Bounds(0, 3)),
        (Bounds(2, 6), True, Bounds(0, 6)),
        (Bounds(1, 10), True, Bounds(1, 3)),
        (Bounds(5, 10), True, Bounds(5, 10)),
        (Bounds(5, 20), True, Bounds(5, 20)),
    ],
)
def test_what_a_person_has_changed_meanwhile_is_left_alone(now: Bounds, changed: bool, then: Bounds) -> None:
    assert is_changed_by_hand(LOAN, now) is changed
    assert restored(LOAN, now) == then


bounds = st.builds(lambda least, more: Bounds(least, least + more), st.integers(0, 9), st.integers(0, 9))
controls = st.lists(st.builds(WantedWorkers, least=st.none() | st.integers(0, 20), most=st.none() | st.integers(1, 20)))


@given(before=bounds, wanted=controls, now=bounds)
def test_bounds_are_bounds_whatever_happens(before: Bounds, wanted: list[WantedWorkers], now: Bounds) -> None:
    up = raised(before, wanted)
    override = ScalingOverride(before=before, raised=up)
    then = restored(override, now)
    assert up.least <= up.most
    assert then.least <= then.most
    assert restored(override, up) == restored(override, before) == before
