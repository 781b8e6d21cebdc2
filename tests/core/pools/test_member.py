"""The members of a pool, and what they cost."""

import pytest

from orchestrator.core.pools.member import MemberSettings, dearest


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
