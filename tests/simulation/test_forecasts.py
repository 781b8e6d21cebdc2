"""Forecasts compared with what then happens, in the short form of `python -m tests.simulation.forecasts`."""

import pytest

from tests.simulation.forecasts import CASES, WITHIN, Case, play

SHORT = ("one more than the workers", "a very low rate", "a cold start", "one warm worker")
AT_ONCE = ("a very low rate",)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[] if case.name in AT_ONCE else pytest.mark.slow)
        for case in CASES
        if case.name in SHORT
    ],
    ids=lambda case: case.name,
)
def test_a_run_ends_and_costs_about_as_it_was_forecast(case: Case) -> None:
    came = play(case)
    assert abs(came.off) <= WITHIN
    assert abs(came.off_cost) <= WITHIN
    assert came.forecast.binds is case.binds


def test_there_are_twenty_cases() -> None:
    assert len({case.name for case in CASES}) == len(CASES) == 20
