"""Nights with workers by need, in the short form of `python -m tests.simulation.nights`."""

import pytest

from orchestrator.core.planning.worker_steps import STEP_US
from orchestrator.units import SECOND_US
from tests.simulation.night_plans import IDLE_S, SPAN, Night, drawn, optimum, with_workers
from tests.simulation.nights import COST_MAX, COUNT_EVERY_S, play


def a_night(jobs: int = 40, *, within_s: float = 1_800.0, takes_s: float = 120.0, is_known: bool = False) -> Night:
    """A short one, without anything wrong."""
    return Night(
        seed=1,
        within_s=within_s,
        arrivals=((0.0, jobs),),
        seconds=(takes_s,) * jobs,
        cold_start_s=30.0,
        machines=None,
        is_known=is_known,
        price_per_s=0.0003,
        per_hour=0.0,
    )


def test_the_optimum_is_the_cheapest_that_is_in_time() -> None:
    """With four workers ten jobs each are 20 minutes and a half, with three more than 26."""
    night = a_night(within_s=1_300.0)
    best = optimum(night)
    assert best is not None
    assert best.workers == 4
    assert best.worker_s == pytest.approx(40 * 120 + 4 * (30 + IDLE_S))
    assert with_workers(night, 3).finished_s > night.within_s
    assert optimum(a_night(within_s=100.0)) is None


def test_the_optimum_pays_for_workers_that_wait_between_bursts() -> None:
    night = a_night(2)
    apart = Night(
        **{name: getattr(night, name) for name in night.__struct_fields__ if name != "arrivals"},
        arrivals=((0.0, 1), (600.0, 1)),
    )
    assert with_workers(apart, 2).worker_s == pytest.approx(2 * (30 + 120 + IDLE_S))


def test_a_night_has_no_more_workers_than_machines() -> None:
    night = drawn(1)
    assert night.machines is not None
    assert with_workers(night, SPAN.most).worker_s == with_workers(night, night.machines).worker_s


def test_nights_are_the_same_whenever_they_are_drawn() -> None:
    assert drawn(5) == drawn(5)
    assert len({drawn(seed).jobs for seed in range(20)}) > 3


@pytest.mark.parametrize("is_known", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_night_is_in_time_and_not_much_dearer_than_the_optimum(is_known: bool) -> None:
    night = a_night(is_known=is_known)
    best, came = optimum(night), play(night)
    assert best is not None
    assert came.is_in_time(night)
    assert came.worker_s <= COST_MAX * best.worker_s + COUNT_EVERY_S * SPAN.most
    assert came.gap_s >= STEP_US / SECOND_US - COUNT_EVERY_S
    assert came.bounds[-1][1] == 3
