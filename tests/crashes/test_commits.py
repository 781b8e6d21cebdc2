"""The program is killed at its commits: every fourth of them here, every one by `python -m tests.crashes --commits`."""

from pathlib import Path

import pytest

from tests.crashes.batched import BatchWorld, PlacedWorld
from tests.crashes.commits import LongWorld, commits_of_a_run, killed
from tests.crashes.pooled import PoolWorld

STRIDE = 4
LONG_STRIDE = 29
POOL_STRIDE = 17
BATCH_STRIDE = 2


@pytest.mark.parametrize(
    ("first", "after"), [pytest.param(1, True, marks=pytest.mark.slow), (2, False)], ids=["after", "before"]
)
def test_a_run_killed_at_any_of_its_commits_is_ended_by_the_next_process(
    tmp_path: Path, first: int, after: bool
) -> None:
    commits = commits_of_a_run(tmp_path)
    assert commits > 14, "the run has become too small to show anything"

    for number in range(first, commits + 1, STRIDE):
        folder = tmp_path / str(number)
        folder.mkdir()
        killed(folder, number, after=after)


@pytest.mark.slow
def test_a_run_of_resumable_jobs_killed_at_any_of_its_commits_goes_on_from_what_is_known(tmp_path: Path) -> None:
    commits = commits_of_a_run(tmp_path, LongWorld)
    assert commits > 60, "the run has become too small to show anything"

    for number in range(1, commits + 1, LONG_STRIDE):
        folder = tmp_path / str(number)
        folder.mkdir()
        killed(folder, number, after=number % 2 == 0, kind=LongWorld)


@pytest.mark.slow
@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
def test_a_pool_killed_at_any_of_its_commits_moves_what_waits_once_and_executes_nothing_twice(
    tmp_path: Path, after: bool
) -> None:
    commits = commits_of_a_run(tmp_path, PoolWorld)
    assert commits > 120, "the run has become too small to show anything"

    for number in range(1 + after, commits + 1, POOL_STRIDE):
        folder = tmp_path / str(number)
        folder.mkdir()
        killed(folder, number, after=after, kind=PoolWorld)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [BatchWorld, PlacedWorld])
@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
def test_batches_killed_at_any_of_their_commits_lose_no_row_and_execute_none_twice(
    tmp_path: Path, after: bool, kind: type[BatchWorld]
) -> None:
    commits = commits_of_a_run(tmp_path, kind)
    assert commits > 24, "the run has become too small to show anything"

    for number in range(1 + after, commits + 1, BATCH_STRIDE):
        folder = tmp_path / str(number)
        folder.mkdir()
        killed(folder, number, after=after, kind=kind)
