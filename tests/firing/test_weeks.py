"""The short form of `python -m tests.firing`."""

from pathlib import Path

import pytest

from tests.firing.weeks import DAY_US, Weeks


@pytest.mark.slow
def test_whatever_crashes_sleeps_or_is_changed_each_fire_is_in_one_place(tmp_path: Path) -> None:
    weeks = Weeks(1, tmp_path, lasts_us=10 * DAY_US)
    weeks.play()
    assert weeks.problems() == []
    assert weeks.fires > 50
    assert weeks.commits > 15
