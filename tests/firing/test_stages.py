"""The short form of `python -m tests.firing.stages`: a few of the commits of a few seeds."""

from pathlib import Path

import pytest

from tests.firing.stages import killed_everywhere


@pytest.mark.parametrize(("seed", "after"), [(0, True), pytest.param(1, False, marks=pytest.mark.slow)])
def test_killed_at_a_commit_rows_and_groups_arrive_once(tmp_path: Path, seed: int, *, after: bool) -> None:
    """At every twentieth."""
    assert killed_everywhere(tmp_path, seed, range(5 + 3 * seed, 10_000, 20), after=after) >= 1
