"""The members of a pool, and what they cost."""

import pytest

from orchestrator.core.pools.member import MemberSettings, dearest, price_at


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
