"""The short form of `python -m tests.firing --seeds 0 --kills 100`."""

from pathlib import Path

import pytest

from tests.crashes.firing import killed

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_a_serve_and_three_ticks_that_are_killed_leave_each_fire_in_one_place(tmp_path: Path) -> None:
    assert killed(tmp_path, kills=2, seed=3) == []
