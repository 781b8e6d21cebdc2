"""How a run went in a time, as what charts are drawn of: from the samples, and from the margins of all its results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from orchestrator.api.pages.sample_charts import gauge_line, rate_line
from orchestrator.core.gates.gates import Gate
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.run_counters import FAILED_EXECUTIONS
from orchestrator.core.samples.buckets import MARGIN_BOUNDS_S, TIME_BOUNDS_S, Histogram, quantile
from orchestrator.core.samples.rates import is_gap
from orchestrator.core.text.wording import counted
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.samples.sample_repository import SampledTime
from orchestrator.ledger.samples.samples import EndpointSample, RunSample
from orchestrator.units import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from orchestrator.views.runs.run_pages import ChartData, RunCharts
from orchestrator.views.series import Band, Bucket, Series, Unit

WINDOWS: Final[Mapping[str, int | None]] = {
    "10m": 10 * MINUTE_US,
    "1h": HOUR_US,
    "6h": 6 * HOUR_US,
    "1d": DAY_US,
    "7d": 7 * DAY_US,
    "all": None,
}
"""How much of the past can be asked for; None: all."""

QUANTILES_OVER_S: Final = 60.0
"""What executions of so long took is one point: of ten seconds there are few."""

LEAST_US: Final = MINUTE_US
"""A chart of less shows nothing."""


async def run_charts(ledger: Ledger, run: Run, *, window: str | None, ended_at: int | None) -> RunCharts:
    """The charts of `run`, over the last `window` of its time; without one, over an hour of a run that goes on, and
    over all of one that is over. Raises `UsageError` for a window that there is none of.
    """
    window = ("1h" if ended_at is None else "all") if window is None else window
    if window not in WINDOWS:
        raise UsageError(f"there is no window {window!r:.40}; there are {', '.join(WINDOWS)}")
    until = ledger.now() if ended_at is None else min(ended_at + MINUTE_US, ledger.now())
    length = WINDOWS[window]
    since = run.created_at if length is None else max(run.created_at, until - length)
    since = min(since, until - LEAST_US)
    of_run = await ledger.samples.of_run(run.id, since, until)
    of_endpoint = await ledger.samples.of_endpoint(run.endpoint_id, since, until)
    operation = str(run.via.operation)
    return RunCharts(
        window=window,
        windows=tuple(WINDOWS),
        since=since,
        until=until,
        charts=tuple(_charts(of_run, of_endpoint, operation, has_price=run.settings.price is not None)),
        bands=(*_holds(of_run), *_limit_changes(of_endpoint, operation), *_worker_changes(of_endpoint)),
        margins=await _margins(ledger, run.id),
    )


def _charts(
    of_run: SampledTime[RunSample], of_endpoint: SampledTime[EndpointSample], operation: str, *, has_price: bool
) -> Iterator[ChartData]:
    yield ChartData(
        title="Jobs a second",
        series=(
            rate_line(of_run, "sent", lambda sample: sample.sent, State.OUTSTANDING),
            rate_line(of_run, "finished", lambda sample: sample.finished, State.SUCCEEDED),
            gauge_line(of_endpoint, "allowed", lambda sample: _allowed_per_s(sample, operation), Unit.PER_SECOND),
        ),
    )
    yield ChartData(
        title="Jobs by state",
        series=tuple(
            gauge_line(of_run, state, lambda sample, state=state: sample.counts.get(state, 0), state=state)  # type: ignore[misc]
            for state in (State.SUCCEEDED, State.FAILED, State.QUEUED)
        ),
    )
    at_service = gauge_line(of_run, "at the service", _at_service, state=State.OUTSTANDING)
    yield ChartData(title="Jobs at the service", series=(at_service,))
    yield ChartData(title="Execution", series=_quantiles(of_run, lambda sample: sample.execution))
    yield ChartData(title="Waiting in the service's queue", series=_quantiles(of_run, lambda sample: sample.queue))
    failed = rate_line(of_run, "failed attempts", lambda sample: sample.counts.get(FAILED_EXECUTIONS, 0), State.FAILED)
    yield ChartData(title="Failed attempts", series=(failed,))
    if has_price:
        yield ChartData(title="Spent", series=(gauge_line(of_run, "spent", lambda sample: sample.spent, Unit.MONEY),))


def _at_service(sample: RunSample) -> int:
    return sum(sample.counts.get(state, 0) for state in (State.SUBMITTING, State.UNCERTAIN, State.OUTSTANDING))


def _allowed_per_s(sample: EndpointSample, operation: str) -> float | None:
    use = sample.operations.get(operation)
    return None if use is None or not use.window_s else use.allowance / use.window_s


def _quantiles(of_run: SampledTime[RunSample], histogram: Callable[[RunSample], Histogram]) -> tuple[Series, ...]:
    """The median and the 95th percentile of what came within a minute before each sample."""
    found = list(_grown_over(of_run, histogram))
    return tuple(
        Series(
            name=name,
            unit=Unit.SECONDS,
            points=[(at, None if values is None else quantile(values, TIME_BOUNDS_S, share)) for at, values in found],
        )
        for name, share in (("half take at most", 0.5), ("95 % take at most", 0.95))
    )


def _grown_over(
    of_run: SampledTime[RunSample], histogram: Callable[[RunSample], Histogram]
) -> Iterator[tuple[int, Histogram | None]]:
    samples, begin = of_run.samples, 0
    for number, sample in enumerate(samples):
        if number and is_gap(samples[number - 1].at, sample.at, of_run.spacing_s):
            yield (samples[number - 1].at + sample.at) // 2, None
            begin = number
        while begin + 1 < number and sample.at - samples[begin + 1].at >= QUANTILES_OVER_S * SECOND_US:
            begin += 1
        if begin < number:
            yield sample.at, histogram(sample).since(histogram(samples[begin]))


# --- bands


def _holds(of_run: SampledTime[RunSample]) -> Iterator[Band]:
    """The times in which something held the run, as far as anybody looked."""
    since: int | None = None
    samples = of_run.samples
    for before, sample in zip([None, *samples], samples, strict=False):
        is_new = before is None or (before.hold, before.hold_by) != (sample.hold, sample.hold_by)
        if before is not None and before.hold and since is not None and is_new:
            yield _hold(before, since, sample.at)
        if is_new:
            since = sample.at if sample.hold else None
    if samples and samples[-1].hold and since is not None:
        yield _hold(samples[-1], since, None)


def _hold(sample: RunSample, since: int, until: int | None) -> Band:
    by = f" by {sample.hold_by}" if sample.hold_by else ""
    kind = "pause" if sample.hold == Gate.PAUSED else "hold"
    return Band(kind=kind, since=since, until=until, text=f"{sample.hold}{by}")


def _limit_changes(of_endpoint: SampledTime[EndpointSample], operation: str) -> Iterator[Band]:
    for before, after in pairwise(of_endpoint.samples):
        was, use = before.operations.get(operation), after.operations.get(operation)
        if was is not None and use is not None and was.allowance != use.allowance:
            text = f"the limit of {operation} went from {was.allowance:,} to {use.allowance:,} requests"
            yield Band(kind="limit", since=after.at, until=after.at, text=text)


def _worker_changes(of_endpoint: SampledTime[EndpointSample]) -> Iterator[Band]:
    for before, after in pairwise(of_endpoint.samples):
        was, most = before.workers_most, after.workers_most
        if was is not None and most is not None and was != most:
            text = f"the endpoint may have {counted(most, 'worker')} instead of {was:,}"
            yield Band(kind="limit", since=after.at, until=after.at, text=text)


# --- margins


async def _margins(ledger: Ledger, run: int) -> Sequence[Bucket]:
    counts = await ledger.jobs.margins.histogram(run, MARGIN_BOUNDS_S)
    if not any(counts):
        return ()
    return tuple(
        Bucket(up_to=bound, count=count) for bound, count in zip((*MARGIN_BOUNDS_S, None), counts, strict=True)
    )
