"""How soon a pool is done: with members of different speeds, and as one of them dies and another has no machine."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.engine.pools.goals import Goal, of_lanes, of_speeds, of_troubles
from tests.engine.pools.pooled import MIDDLE, SLOW

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.slow]


@pytest.mark.parametrize("play", [of_speeds, of_lanes], ids=["one, two and four times as fast", "a queue and a server"])
async def test_members_end_together_whatever_their_speeds_and_lanes(
    play: Callable[[Path], Awaitable[Goal]], tmp_path: Path
) -> None:
    found = await play(tmp_path)
    assert found.longer < 0.1
    assert found.twice == 0


@pytest.mark.parametrize(
    ("seconds", "dying", "starving"), [(2.0, SLOW, MIDDLE), (10.0, MIDDLE, SLOW)], ids=["home dies", "home starves"]
)
async def test_who_is_well_loses_no_time_by_one_that_dies_and_one_without_machines(
    tmp_path: Path, seconds: float, dying: str, starving: str
) -> None:
    found = await of_troubles(tmp_path, seconds=seconds, dying=dying, starving=starving)
    assert found.longer < 0.2
    assert (found.twice, found.at_starving) == (0, 0)
