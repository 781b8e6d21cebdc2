"""What is said of endpoints: of the jobs and results there, of requests and limits, and of workers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.polling.endpoint_estimates import Learned
from orchestrator.core.samples.buckets import MARGIN_BOUNDS_S, REQUEST_BOUNDS_S, TIME_BOUNDS_S, Histogram
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger import Ledger
from orchestrator.ledger.monitoring.tallies import KnownEndpoint
from orchestrator.ledger.samples.samples import EndpointSample, OperationUse
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.telemetry.metrics.labels import ClosedLabel
from orchestrator.telemetry.metrics.readings import Distribution, Readings
from orchestrator.units import SECOND_US

OUTCOMES: Final = (State.SUCCEEDED.value, State.FAILED.value, State.CANCELLED.value)
RESULTS: Final = (
    State.SUCCEEDED.value,
    *(
        each.value
        for each in (
            FailureClass.FAILED,
            FailureClass.TIMED_OUT,
            FailureClass.INVALID_OUTPUT,
            FailureClass.LOST,
            FailureClass.EXPIRED,
            FailureClass.UNCERTAIN,
            FailureClass.CANCELLED,
        )
    ),
)
ANSWERS: Final = ("accepted", "unanswered", "deferred")
SETTLED_BY: Final = ("adopted", "resubmitted", "given_up")
WORKER_STATES: Final = ("idle", "running", "ready", "initializing", "throttled", "unhealthy")
CODES: Final = ("2xx", "3xx", "4xx", "429", "5xx", "none")
"""The values of closed labels, each of which is there from the beginning: what grows from nothing would not be seen to
grow."""


async def read_endpoints(
    ledger: Ledger, endpoints: Sequence[KnownEndpoint], label: ClosedLabel, *, fresh_from: int, into: Readings
) -> None:
    """Adds what the ledger says of its endpoints. What is so at this moment only is said of samples that are not older
    than `fresh_from`. Raises `StorageError`.
    """
    jobs = await ledger.reports.tallies.jobs()
    samples = await ledger.samples.endpoints.latest([each.id for each in endpoints])
    safe = await _safe_until(ledger, jobs, samples, fresh_from=fresh_from)
    for each in endpoints:
        endpoint, found = label(each.name), jobs.get(each.id, {})
        for state in State:
            into.add("jobs", endpoint, state.value, value=found.get(state.value, 0))
        sample = samples.get(each.id, EndpointSample())
        _add_counters(endpoint, sample, into)
        _add_operations(endpoint, sample.operations, into, is_fresh=sample.at >= fresh_from)
        into.latest("last_collected_timestamp_seconds", endpoint, value=seconds(sample.collected_at))
        if found.get(State.OUTSTANDING.value, 0):
            into.earliest("safe_until_timestamp_seconds", endpoint, value=seconds(safe.get(each.id)))
        if sample.at >= fresh_from:
            into.earliest("webhook_share_ratio", endpoint, value=sample.webhook_share)
            if sample.workers_at is not None:
                _add_each("workers", (endpoint,), sample.workers, WORKER_STATES, into)
            if sample.workers_most is not None:
                into.add("workers_bound", endpoint, value=sample.workers_most)


async def _safe_until(
    ledger: Ledger,
    jobs: Mapping[int, Mapping[str, int]],
    samples: Mapping[int, EndpointSample],
    *,
    fresh_from: int,
) -> Mapping[int, int]:
    """Until when no result at each endpoint can expire, where one can.

    A process that was killed may have sent its first jobs after its last sample. So where that says nothing, and is
    old, the outstanding jobs are asked: somebody has to be called for them.
    """
    safe = {of: sample.safe_until for of, sample in samples.items() if sample.safe_until is not None}
    unsaid = {
        of
        for of, found in jobs.items()
        if found.get(State.OUTSTANDING.value) and of not in safe and (of not in samples or samples[of].at < fresh_from)
    }
    if not unsaid:
        return safe
    waiting = await ledger.jobs.margins.waiting(now=ledger.now())
    learned = await ledger.runs.learned.all()
    for run in await ledger.runs.all(list(waiting)):
        if run.endpoint_id in unsaid and run.service_url != LOCAL:
            retention_us = learned.get(run.endpoint_id, Learned()).retention_us(run.settings.retention_us)
            until = waiting[run.id].safe_until(retention_us)
            safe[run.endpoint_id] = min(until, safe.get(run.endpoint_id, until))
    return safe


def _add_counters(endpoint: str, sample: EndpointSample, into: Readings) -> None:
    counted = (
        ("job_outcomes_total", sample.ends, OUTCOMES),
        ("executions_total", sample.executions, RESULTS),
        ("submissions_total", sample.submissions, ANSWERS),
        ("uncertain_settled_total", sample.settled, SETTLED_BY),
    )
    for name, found, values in counted:
        _add_each(name, (endpoint,), found, values, into)
    into.add("paid_twice_total", endpoint, value=sample.paid_twice)
    into.add("spend_total", endpoint, value=sample.spent)
    into.add("result_margin_seconds", endpoint, value=distribution(sample.margin, MARGIN_BOUNDS_S))
    into.add("queue_delay_seconds", endpoint, value=distribution(sample.queue, TIME_BOUNDS_S))
    into.add("execution_seconds", endpoint, value=distribution(sample.execution, TIME_BOUNDS_S))


def _add_each(
    name: str, labels: Iterable[str], found: Mapping[str, int], values: Collection[str], into: Readings
) -> None:
    """Adds what was counted of each of `values`. What a newer program counts besides is not a label here."""
    for value in values:
        into.add(name, *labels, value, value=found.get(value, 0))


def _add_operations(endpoint: str, operations: Mapping[str, OperationUse], into: Readings, *, is_fresh: bool) -> None:
    for operation, use in operations.items():
        _add_each("requests_total", (endpoint, operation), use.codes, CODES, into)
        into.add("request_duration_seconds", endpoint, operation, value=distribution(use.latency, REQUEST_BOUNDS_S))
        if is_fresh:
            into.add("limit_requests", endpoint, operation, value=use.allowance)
            into.add("limit_used_requests", endpoint, operation, value=use.used)
            into.latest("limit_window_seconds", endpoint, operation, value=use.window_s or None)
            into.add("requests_in_flight", endpoint, operation, value=use.in_flight)


def distribution(values: Histogram, bounds: tuple[float, ...]) -> Distribution:
    """What was counted in buckets, each with all before it, as Prometheus has them."""
    counts = values.counts + (0,) * (len(bounds) + 1 - len(values.counts))
    at_most = tuple(sum(counts[: n + 1]) for n in range(len(counts)))
    return Distribution(bounds, at_most, values.sum_s)


def seconds(at: int | None) -> float | None:
    """A moment of the ledger's as Prometheus has it; None, and the beginning of time, for none."""
    return at / SECOND_US if at else None
