"""What pipelines cost, in the small: that it is measured, not how fast this machine is."""

import pytest

from tests.benchmarks import handover, pipelines

pytestmark = pytest.mark.system


def test_schedules_are_looked_at() -> None:
    found = {figure.name: figure.value for figure in pipelines.looks(40)}
    assert 0 < found["40 schedules looked at"] < 1_000
    assert 0 < found["a year's gap of * * * * *"] < 60


def test_rows_are_handed_over() -> None:
    assert [figure.value > 100 for figure in handover.handed_over(600)] == [True] * 4
