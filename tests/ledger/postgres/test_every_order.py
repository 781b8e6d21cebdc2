"""Verbs that meet, and verbs during which their process loses the ledger, in each order of their statements in which one
makes way for the other once. More often, and all: `python -m tests.postgres.every_order`.
"""

from collections.abc import Iterable
from typing import Final

import pytest

from tests.postgres.meetings import MEETINGS, met
from tests.postgres.take_overs import RIVALS, VERBS, contested

pytestmark = pytest.mark.anyio

SHORT: Final = ("cancelling and going on", "one message and two who send", "notice", "beat")


def each(names: Iterable[str]) -> list[object]:
    """The short ones, and all others as slow tests."""
    return [name if name in SHORT else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", each(MEETINGS))
async def test_two_verbs_that_meet_lose_nothing_in_any_order_of_their_statements(url: str, name: str) -> None:
    assert await met(url, MEETINGS[name], made_way_max=1) > 1


@pytest.mark.parametrize(
    "happens", ["take-over", *(pytest.param(other, marks=pytest.mark.slow) for other in RIVALS if other != "take-over")]
)
@pytest.mark.parametrize("name", each(VERBS))
async def test_nothing_is_written_by_an_owner_that_has_lost_its_place_and_all_by_one_that_keeps_it(
    url: str, name: str, happens: str
) -> None:
    assert await contested(url, VERBS[name], RIVALS[happens], made_way_max=1) > 1
