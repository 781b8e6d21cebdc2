"""What charts are drawn of, from samples of runs, of endpoints and of the process at work."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeVar

from orchestrator.core.samples.buckets import NO_VALUES, Histogram, quantile
from orchestrator.core.samples.rates import gauged, grown, is_gap
from orchestrator.ledger.samples.sample_repository import SampledTime
from orchestrator.ledger.samples.samples import EndpointSample, ProcessTotals, RunSample
from orchestrator.units import DAY_US, HOUR_US, MINUTE_US
from orchestrator.views.series import Bucket, Series, Unit

Of = TypeVar("Of", RunSample, EndpointSample, ProcessTotals)

SPANS: Final[Mapping[str, int]] = {
    "10m": 10 * MINUTE_US,
    "1h": HOUR_US,
    "6h": 6 * HOUR_US,
    "1d": DAY_US,
    "7d": 7 * DAY_US,
}
"""Of how long a time charts can be asked for."""

SPAN_DEFAULT: Final = "1h"


def gauge_line(
    time: SampledTime[Of], name: str, value: Callable[[Of], float | None], unit: Unit = Unit.NUMBER, state: str = ""
) -> Series:
    """What stood."""
    points = gauged(time.samples, value, time.spacing_s)
    return Series(name=name, unit=unit, points=points, state=state)


def rate_line(
    time: SampledTime[Of], name: str, count: Callable[[Of], float], state: str = "", unit: Unit = Unit.PER_SECOND
) -> Series:
    """What grew, a second; of what is counted in seconds itself that is a number."""
    points = grown(time.samples, count, time.spacing_s)
    return Series(name=name, unit=unit, points=points, state=state)


def quantile_lines(
    time: SampledTime[Of], histogram: Callable[[Of], Histogram], bounds: Sequence[float], shares: Mapping[str, float]
) -> tuple[Series, ...]:
    """A line for each of `shares`, by its name: of what came between one sample and the next."""
    points: dict[str, list[tuple[int, float | None]]] = {name: [] for name in shares}
    for before, after in pairwise(time.samples):
        is_known = not is_gap(before.at, after.at, time.spacing_s)
        grew = histogram(after).since(histogram(before)) if is_known else NO_VALUES
        for name, share in shares.items():
            points[name].append((after.at, quantile(grew, bounds, share)))
    return tuple(Series(name=name, unit=Unit.SECONDS, points=found) for name, found in points.items())


def grown_histogram(time: SampledTime[Of], histogram: Callable[[Of], Histogram]) -> Histogram:
    """What came in all of the time."""
    if not time.samples:
        return NO_VALUES
    return histogram(time.samples[-1]).since(histogram(time.samples[0]))


def buckets_of(values: Histogram, bounds: Sequence[float]) -> tuple[Bucket, ...]:
    """Its bars; none where it is empty."""
    if not values.total:
        return ()
    counts = values.counts + (0,) * (len(bounds) + 1 - len(values.counts))
    return tuple(Bucket(up_to=bound, count=count) for bound, count in zip((*bounds, None), counts, strict=True))
