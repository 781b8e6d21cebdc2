"""Points of what stood and of what grew; gaps stay gaps."""

from typing import NamedTuple

from orchestrator.core.samples.rates import EndsOfLate, EndsOfRun, ends_of_late, gauged, grown, rate_together
from orchestrator.units import SECOND_US


class Sample(NamedTuple):
    at: int
    n: float | None


def at(*samples: tuple[float, float | None]) -> list[Sample]:
    return [Sample(round(s * SECOND_US), n) for s, n in samples]


def points(*points: tuple[float, float | None]) -> list[tuple[int, float | None]]:
    return [(round(s * SECOND_US), n) for s, n in points]


def count(sample: Sample) -> float:
    return sample.n or 0.0


def test_what_grew_is_so_much_a_second() -> None:
    assert grown(at((10, 100), (20, 150), (30, 150)), count, 10) == points((20, 5.0), (30, 0.0))


def test_over_a_gap_nothing_is_said() -> None:
    samples = at((10, 100), (20, 150), (60, 900), (70, 910))
    assert grown(samples, count, 10) == points((20, 5.0), (40, None), (70, 1.0))
    assert gauged(samples, lambda each: each.n, 10) == points((10, 100), (20, 150), (40, None), (60, 900), (70, 910))


def test_a_sample_that_comes_late_is_no_gap() -> None:
    assert grown(at((10, 0), (30, 20)), count, 10) == points((30, 1.0))


def test_what_fell_began_again_at_nothing() -> None:
    assert grown(at((10, 100), (20, 30)), count, 10) == points((20, 3.0))


def test_two_samples_of_one_moment_are_no_rate() -> None:
    assert grown(at((10, 100), (10, 130), (20, 150)), count, 10) == points((20, 2.0))


def test_what_is_not_known_is_a_point_without_a_value() -> None:
    assert gauged(at((10, None), (20, 1)), lambda each: each.n, 10) == points((10, None), (20, 1))


def test_without_samples_there_are_no_points() -> None:
    assert grown([], count, 10) == []
    assert gauged([], lambda each: each.n, 10) == []


def ends_at(s: float, n: int, *, ended: int | None = None) -> EndsOfRun:
    return EndsOfRun(at=round(s * SECOND_US), ends=n, ended=n if ended is None else ended)


def of_late(
    latest: EndsOfRun | None = None, before: EndsOfRun | None = None, *, ended: int, created_s: float = 0, now_s: float
) -> float | None:
    found = ends_of_late(
        latest, before, ended=ended, created_at=round(created_s * SECOND_US), now=round(now_s * SECOND_US)
    )
    return None if found is None else found.per_s


def test_a_rate_of_late_is_that_since_the_last_sample_that_is_a_minute_old_and_goes_on_until_now() -> None:
    assert of_late(ends_at(190, 1_300), ends_at(130, 700), ended=1_340, now_s=194) == 10.0


def test_the_rate_of_a_young_run_is_that_since_it_was_made() -> None:
    assert of_late(ended=40, created_s=100, now_s=108) == 5.0
    assert of_late(ended=40, created_s=100, now_s=100.1) == 40.0
    assert of_late(ends_at(110, 50), ended=90, created_s=100, now_s=118) == 5.0


def test_where_nobody_worked_for_a_while_nothing_has_ended_meanwhile() -> None:
    assert of_late(ends_at(9_000, 1_070), ends_at(100, 1_000), ended=1_070, now_s=9_000) == 1.0


def test_of_an_old_run_without_samples_nothing_tells() -> None:
    assert of_late(ended=4_000, created_s=0, now_s=61) is None
    assert of_late(ends_at(3_600, 35, ended=9_000), ended=9_000, now_s=3_600) == 0.5


def test_jobs_that_are_opened_again_have_ended_all_the_same() -> None:
    assert of_late(ends_at(190, 1_300), ends_at(130, 700), ended=900, now_s=190) == 10.0
    assert of_late(ends_at(190, 700), ends_at(130, 700), ended=700, now_s=190) is None


def test_of_several_runs_that_follow_each_other_all_that_ended_is_counted_and_the_time_once() -> None:
    """Four runs of ten jobs, each of five seconds and after the one before: two jobs a second, whoever looks."""
    runs = [EndsOfLate(ends=10, within_us=within_s * SECOND_US) for within_s in (20, 15, 10, 5)]
    assert rate_together(runs) == 2.0
    assert rate_together([]) == 0.0
