"""The members of a pool, and what they cost."""

import pytest

from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.lanes.via import Via
from orchestrator.core.pools.member import (
    MemberSettings,
    budget_per_day_at,
    cheapest_first,
    dearest,
    discount,
    former_members,
    lane_at,
    price_at,
)


@pytest.mark.parametrize(
    ("prices", "of_run", "found"),
    [
        ((), None, None),
        ((), 0.5, 0.5),
        ((0.1, 0.3), None, 0.3),
        ((0.1, None), 0.2, 0.2),
        ((0.4, None), 0.2, 0.4),
        ((0.4, None), None, None),
    ],
)
def test_a_budget_is_reckoned_with_the_dearest_member(
    prices: tuple[float | None, ...], of_run: float | None, found: float | None
) -> None:
    members = [MemberSettings(endpoint=f"ep{n}", price_per_second=each) for n, each in enumerate(prices)]
    assert dearest(members, of_run) == found


def test_what_is_said_of_a_member_goes_before_what_is_said_of_all() -> None:
    members = [MemberSettings(endpoint="a", price_per_second=0.1), MemberSettings(endpoint="b")]
    assert [price_at(members, each, 0.5) for each in ("a", "b", "elsewhere")] == [0.1, 0.5, 0.5]
    assert price_at(members, "b", None) is None


def test_what_a_cheaper_member_has_done_costs_less_than_at_the_dearest() -> None:
    members = [MemberSettings("a", 0.1), MemberSettings("b", 0.3)]
    took = {each: DurationTotals.one(10_000) for each in ("a", "b", "elsewhere")}
    assert discount(members, None, took) == pytest.approx(2.0)
    assert discount([], 0.5, took) == 0.0
    assert discount([MemberSettings("a", 0.1), MemberSettings("b")], None, took) == 0.0


def test_what_was_executed_in_batches_costs_less_where_somebody_says_so() -> None:
    took = {"a": DurationTotals.together([DurationTotals.one(10_000, in_batch=True), DurationTotals.one(10_000)])}
    assert discount([], 0.5, took, 200_000) == pytest.approx(1.0)
    assert discount([MemberSettings("a", 0.1), MemberSettings("b", 0.3)], None, took, 200_000) == pytest.approx(4.2)
    assert discount([], 0.5, took) == 0.0
    assert took["a"].cost(0.5, 200_000) == pytest.approx(9.0)
    assert took["a"].cost(0.5, None) == pytest.approx(10.0)


def test_the_cheapest_comes_first_and_what_has_no_price_last() -> None:
    members = [MemberSettings("a"), MemberSettings("b", 0.3), MemberSettings("c", 0.1), MemberSettings("d")]
    assert cheapest_first(members, None) == ("c", "b", "a", "d")
    assert cheapest_first(members, 0.2) == ("c", "a", "d", "b")


def test_a_member_may_have_a_budget_of_its_own_for_a_day() -> None:
    members = [MemberSettings("a", budget_per_day=3.0), MemberSettings("b")]
    assert [budget_per_day_at(members, each, 5.0) for each in ("a", "b")] == [3.0, 5.0]


def test_a_member_may_have_a_lane_of_its_own() -> None:
    members = [MemberSettings("a"), MemberSettings("b", via=Via.HTTP, path="/x"), MemberSettings("c", via=Via.SYNC)]
    found = [lane_at(members, each, Via.QUEUE, "") for each in ("a", "b", "c", "elsewhere")]
    assert found == [(Via.QUEUE, ""), (Via.HTTP, "/x"), (Via.SYNC, ""), (Via.QUEUE, "")]


def test_who_is_no_member_any_more_is_known_by_what_was_said_last() -> None:
    by_http, by_sync = MemberSettings("b", via=Via.HTTP), MemberSettings("b", via=Via.SYNC)
    assert former_members([MemberSettings("a"), by_http, MemberSettings("c"), by_sync], [MemberSettings("a")]) == (
        by_sync,
        MemberSettings("c"),
    )
    assert former_members([by_http], [by_sync]) == ()
