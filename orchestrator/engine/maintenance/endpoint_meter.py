"""How one endpoint stands, for its sample."""

from collections.abc import Collection, Sequence

from msgspec.structs import asdict

from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.samples.step_counts import StepCounts
from orchestrator.core.service.health import WorkerCounts
from orchestrator.engine.hosting.endpoint_registry import ServedEndpoint
from orchestrator.engine.maintenance.step_meter import added, merged
from orchestrator.ledger.samples.samples import EndpointSample, OperationUse


def endpoint_sample(
    served: ServedEndpoint,
    *,
    before: EndpointSample,
    parts: Sequence[StepCounts],
    chosen: Collection[str],
    collected_at: int | None,
    workers_most: int | None,
) -> EndpointSample:
    """What grows goes on from `before` by these `parts`, and by the requests so far. `chosen`: the operations whose
    limits a person has set.
    """
    endpoint = served.endpoint
    latest = endpoint.api.latest_health
    return EndpointSample(
        workers=before.workers if latest is None else _by_state(latest[1].workers),
        workers_at=before.workers_at if latest is None else latest[0],
        workers_most=workers_most,
        safe_until=endpoint.outstanding.plan.deadlines.soonest(),
        collected_at=collected_at or before.collected_at,
        webhook_share=endpoint.estimates.webhook_health.share,
        is_stopped=endpoint.health.stopped is not None,
        operations=_operations(served, before, chosen),
        submissions=added(before.submissions, *(part.submissions for part in parts)),
        ends=added(before.ends, *(part.ends for part in parts)),
        executions=added(before.executions, *(part.executions for part in parts)),
        settled=added(before.settled, *(part.settled for part in parts)),
        paid_twice=before.paid_twice + sum(part.paid_twice for part in parts),
        spent=round(before.spent + sum(part.spent for part in parts), 6),
        margin=merged(before.margin, *(part.margin.values for part in parts)),
        queue=merged(before.queue, *(part.queue.values for part in parts)),
        execution=merged(before.execution, *(part.execution.values for part in parts)),
    )


def _operations(served: ServedEndpoint, before: EndpointSample, chosen: Collection[str]) -> dict[str, OperationUse]:
    """Of each operation that was ever used."""
    limiter = served.endpoint.api.limiter
    found: dict[str, OperationUse] = {}
    for operation in Operation:
        use, meter = before.operations.get(operation.value), limiter.figures(operation)
        limit, counts = limiter.limit(operation), limiter.counts(operation)
        if not meter.sent and not counts.codes and use is None:
            continue
        earlier = use or OperationUse(allowance=0)
        found[operation.value] = OperationUse(
            allowance=meter.allowance,
            used=meter.used,
            window_s=limit.window_s,
            in_flight=meter.in_flight,
            concurrent=limit.concurrent,
            is_chosen=operation.value in chosen,
            share=round(meter.share, 4),
            codes=added(earlier.codes, counts.codes),
            latency=merged(earlier.latency, counts.latency),
        )
    return found


def _by_state(workers: WorkerCounts) -> dict[str, int]:
    return {state: n for state, n in asdict(workers).items() if isinstance(n, int)}
