"""Points of what stood and of what grew; gaps stay gaps."""

from typing import NamedTuple

from orchestrator.core.samples.rates import gauged, grown
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
