"""The plan of a batch: when it ends, what binds, and what it costs. All figures come from `core.planning.forecast`."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from orchestrator.core.gates.costs import Price
from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits, binding, gaps_us
from orchestrator.core.planning.forecast import Course, Forecast, TimesSource, Workers, forecast
from orchestrator.core.planning.plan_judgement import doubts, helps, of_input, of_terms, of_times, verdict
from orchestrator.core.planning.plan_types import Batch, Known, Money, Plan, Terms
from orchestrator.units import SECOND_US

BOUND_BY: Final[Mapping[Bottleneck, str]] = {
    Bottleneck.RATE: "the rate limit of {path} binds",
    Bottleneck.CONCURRENCY: "the limit of requests to {path} at once binds",
    Bottleneck.STATUS: "the limit of /status binds: results are collected more slowly than jobs end",
    Bottleneck.WORKERS: "the workers bind",
    Bottleneck.QUEUE: "how much may be at the service binds",
}


def plan_of(batch: Batch, endpoint: str, line: SendingLimits, terms: Terms, known: Known) -> Plan:
    """The plan of `batch` at `endpoint`."""
    times, workers = known.times, known.workers
    found = None
    if times is not None and workers is not None and batch.jobs:
        found = forecast(batch.jobs, line, workers, times)
    mean_us = None if times is None else times.mean_us * times.per_job
    gaps = gaps_us(line, workers=None if workers is None else workers.most, execution_us=mean_us)
    bound = binding(gaps)
    money = None if found is None or terms.price is None else _money(found, workers, terms, terms.price)
    refused = (*of_input(batch), *of_times(line, terms, times), *of_terms(found, money, terms, workers))
    sending_us = max(gaps[Bottleneck.RATE], gaps[Bottleneck.CONCURRENCY])
    made = Plan(
        verdict="",
        is_feasible=not refused,
        endpoint=endpoint,
        rows=batch.rows,
        done=batch.done,
        repeats=batch.repeats,
        oversize=batch.oversize,
        input_bytes=batch.input_bytes,
        known_from=None if times is None else times.source,
        executions_known=0 if times is None or times.source is TimesSource.GIVEN else len(times.executions_us),
        execution_s=None if times is None else times.mean_us / SECOND_US,
        executions_per_job=None if times is None else times.per_job,
        workers=None if workers is None else workers.most,
        workers_from=known.workers_from,
        binds=bound,
        bound_by=BOUND_BY[bound].format(path=f"/{line.via.operation}"),
        jobs_per_s=SECOND_US / gaps[bound],
        submit_s=(batch.jobs * sending_us if found is None else found.likely.submitted_us) / SECOND_US,
        finish_s=None if found is None else found.likely.finished_us / SECOND_US,
        finish_best_s=None if found is None else found.best.finished_us / SECOND_US,
        finish_worst_s=None if found is None else found.worst.finished_us / SECOND_US,
        executing_s=None if found is None else found.likely.executing_us / SECOND_US,
        at_service_s=None if found is None else found.likely.waits_us / SECOND_US,
        cost=money,
        refused=refused,
        doubtful=tuple(doubts(found, money, line, terms, times)),
        would_help=tuple(helps(batch, line, known, found)),
    )
    return replace(made, verdict=verdict(made, batch))


# --- what it costs


def _money(found: Forecast, workers: Workers | None, terms: Terms, price: Price) -> Money:
    assert workers is not None
    price_per_s = price.per_s
    likely = found.likely
    cold = max(0, likely.workers - workers.warm)
    starting = cold * workers.start_us / SECOND_US * price_per_s
    idle = _idle_us(likely, workers, terms) / SECOND_US * price_per_s

    def all_of(one: Course) -> float:
        return (
            one.executing_us / SECOND_US * price_per_s
            + starting
            + _idle_us(one, workers, terms) / SECOND_US * price_per_s
        )

    left_out = ["the idle time of workers after their last job", "storage, and what others charge"]
    if not starting:
        left_out.insert(0, "workers that start")
    return Money(
        likely=all_of(likely),
        best=all_of(found.best),
        worst=all_of(found.worst),
        starting=starting,
        idle=idle,
        not_included=tuple(left_out),
        price_per_s=price_per_s,
        price_from=price.source,
    )


def _idle_us(one: Course, workers: Workers, terms: Terms) -> float:
    if not terms.are_kept_warm:
        return 0.0
    return max(0.0, workers.warm * one.finished_us - one.executing_us * min(1.0, workers.warm / max(1, one.workers)))
