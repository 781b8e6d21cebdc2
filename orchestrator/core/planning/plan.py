"""The plan of a batch: when it ends, what binds, whether it can keep what was asked for, and what would help most.

All figures are made by `core.forecast`; here they are judged and put into words.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from orchestrator.core.gates.costs import Price
from orchestrator.core.gates.costs import money as of_money
from orchestrator.core.jobs.deadlines import margin_us
from orchestrator.core.planning.bottlenecks import Bottleneck, Line, binding, gaps_us
from orchestrator.core.planning.forecast import Course, Forecast, Source, Times, Workers, course, forecast
from orchestrator.core.text.wording import counted
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US

FASTEST: Final = 0.05
SLOWEST: Final = 0.95
"""The shares of the executions that stand for the fastest and the slowest."""

HELPS_SHARE: Final = 0.05
"""What saves less of the time than this is not worth telling."""

DOUBLE: Final = 2

_DAY_US: Final = 24 * HOUR_US

BOUND_BY: Final[Mapping[Bottleneck, str]] = {
    Bottleneck.RATE: "the rate limit of {path} binds",
    Bottleneck.CONCURRENCY: "the limit of requests to {path} at once binds",
    Bottleneck.STATUS: "the limit of /status binds: results are collected more slowly than jobs end",
    Bottleneck.WORKERS: "the workers bind",
    Bottleneck.QUEUE: "how much may be at the service binds",
}


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What an input has."""

    rows: int
    repeats: int = 0
    """Rows whose input was there before; each is a job of its own all the same."""

    oversize: int = 0
    """Rows whose request would be larger than the service takes."""

    input_bytes: int = 0
    done: int = 0
    """Of these the run has an outcome already."""

    @property
    def jobs(self) -> int:
        """What is still to be executed."""
        return max(0, self.rows - self.done)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be kept. Times are microseconds."""

    ttl_us: int
    execution_timeout_us: int
    finish_within_us: int | None = None
    budget: float | None = None
    price: Price | None = None

    are_kept_warm: bool = False
    """Whether the warm workers are paid as long as it lasts, busy or not."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the endpoint; None: nobody knows."""

    times: Times | None = None
    workers: Workers | None = None
    workers_from: str = ""
    """Where that was found, for people."""


class Money(msgspec.Struct, frozen=True, kw_only=True):
    """What it costs, in whatever the price is in."""

    likely: float
    best: float
    worst: float
    starting: float
    """The part of it for workers that start."""

    idle: float
    """The part of it for warm workers that have nothing to do."""

    not_included: tuple[str, ...]
    price_per_s: float
    """What a second of a worker costs."""

    price_from: str
    """Where that was found."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a batch will go. Seconds; None: nobody knows."""

    verdict: str
    is_feasible: bool
    endpoint: str
    rows: int
    done: int
    repeats: int
    oversize: int
    input_bytes: int
    known_from: Source | None
    executions_known: int
    """On so many executions the times stand; of given ones 0."""

    execution_s: float | None
    executions_per_job: float | None
    workers: int | None
    workers_from: str
    binds: Bottleneck
    bound_by: str
    """The same in words."""

    jobs_per_s: float
    submit_s: float
    finish_s: float | None
    finish_best_s: float | None
    finish_worst_s: float | None
    executing_s: float | None
    at_service_s: float | None
    """The longest that a job is at the service."""

    cost: Money | None
    refused: tuple[str, ...]
    """What cannot be kept, with its numbers."""

    doubtful: tuple[str, ...]
    """What may not be kept."""

    would_help: tuple[str, ...]
    """What would make it faster, the most helpful first, or tell more."""


def plan(batch: Batch, endpoint: str, line: Line, terms: Terms, known: Known) -> Plan:
    """The plan of `batch` at `endpoint`."""
    times, workers = known.times, known.workers
    found = None
    if times is not None and workers is not None and batch.jobs:
        found = forecast(batch.jobs, line, workers, times)
    mean_us = None if times is None else times.mean_us * times.per_job
    gaps = gaps_us(line, workers=None if workers is None else workers.most, execution_us=mean_us)
    bound = binding(gaps)
    money = None if found is None or terms.price is None else _money(found, workers, terms, terms.price)
    refused = (*_of_input(batch), *_of_times(line, terms, times), *_of_wishes(found, money, terms, workers))
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
        executions_known=0 if times is None or times.source is Source.GIVEN else len(times.executions_us),
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
        doubtful=tuple(_doubts(found, money, line, terms, times)),
        would_help=tuple(_helps(batch, line, known, found)),
    )
    return replace(made, verdict=_verdict(made, batch))


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


# --- what cannot be kept


def _of_input(batch: Batch) -> Iterator[str]:
    if batch.oversize:
        yield f"{counted(batch.oversize, 'row')} would be larger than the service takes: `run` refuses the input"


def _of_times(line: Line, terms: Terms, times: Times | None) -> Iterator[str]:
    kept_us = line.retention_us - margin_us(line.retention_us)
    if not line.is_told and kept_us < SECOND_US + 2 * line.trip_us:
        yield (
            f"results are kept for {about(line.retention_us)}, and it takes {about(SECOND_US + 2 * line.trip_us)} to"
            " ask for one again: they are lost without webhooks"
        )
    if times is None:
        return
    fastest_us = times.quantile_us(FASTEST)
    if fastest_us + line.trip_us >= terms.ttl_us:
        yield (
            f"the TTL ({about(terms.ttl_us)}) deletes nearly every job before its end: even the fastest executions take"
            f" {about(fastest_us)}"
        )
    if fastest_us > terms.execution_timeout_us:
        yield (
            f"the execution timeout ({about(terms.execution_timeout_us)}) ends nearly every job: even the fastest"
            f" executions take {about(fastest_us)}"
        )


def _of_wishes(found: Forecast | None, money: Money | None, terms: Terms, workers: Workers | None) -> Iterator[str]:
    within_us = terms.finish_within_us
    if found is not None and within_us is not None and found.likely.finished_us > within_us:
        late_us = found.likely.finished_us - within_us
        yield (
            f"it ends {about(late_us)} too late: it takes {about(found.likely.finished_us)}, and there are"
            f" {about(within_us)}{_needed(found, within_us, workers)}"
        )
    if money is not None and terms.budget is not None and money.likely > terms.budget:
        yield (
            f"it costs {of_money(money.likely)}, and the budget is {of_money(terms.budget)}: that pays for"
            f" {terms.budget / money.likely:.0%} of it"
        )


def _needed(found: Forecast, within_us: int, workers: Workers | None) -> str:
    if found.binds is not Bottleneck.WORKERS or workers is None or within_us <= 0:
        return ""
    needed = -int(-workers.most * found.likely.finished_us // within_us)
    return f"; it would take about {counted(needed, 'worker')}"


def _doubts(
    found: Forecast | None, money: Money | None, line: Line, terms: Terms, times: Times | None
) -> Iterator[str]:
    if times is not None:
        slowest_us, fastest_us = times.quantile_us(SLOWEST), times.quantile_us(FASTEST)
        for name, most_us in (("TTL", terms.ttl_us), ("execution timeout", terms.execution_timeout_us)):
            if fastest_us + line.trip_us < most_us <= slowest_us:
                share = sum(each > most_us for each in times.executions_us) / len(times.executions_us)
                yield f"the {name} ({about(most_us)}) ends {share:.0%} of the executions"
    if found is None:
        return
    if found.likely.waits_us > terms.ttl_us:
        yield (
            f"a job is up to {about(found.likely.waits_us)} at the service, and its TTL is {about(terms.ttl_us)}: what"
            " would not be done in time is held back"
        )
    if (
        terms.finish_within_us is not None
        and found.likely.finished_us <= terms.finish_within_us < found.worst.finished_us
    ):
        yield f"it may end {about(found.worst.finished_us - terms.finish_within_us)} too late"
    if money is not None and terms.budget is not None and money.likely <= terms.budget < money.worst:
        yield f"it may cost {of_money(money.worst)}, and the budget is {of_money(terms.budget)}"


# --- what would help


def _helps(batch: Batch, line: Line, known: Known, found: Forecast | None) -> Iterator[str]:
    times, workers = known.times, known.workers
    if not batch.jobs:
        return
    if found is None or times is None or workers is None:
        missing = [] if times else ["how long a job takes"]
        missing += [] if workers else ["how many workers there are"]
        yield f"to know {' and '.join(missing)}"
        return
    more = replace(workers, most=DOUBLE * workers.most)
    faster = replace(line.run, requests=DOUBLE * line.run.requests)
    ways = {
        f"{counted(more.most, 'worker')} instead of {workers.most:,}": course(batch.jobs, line, more, times),
        f"a higher limit of /{line.via.operation}": course(batch.jobs, replace(line, run=faster), workers, times),
    }
    if not line.is_told:
        ways["webhooks"] = course(batch.jobs, replace(line, webhooks=True), workers, times)
    if workers.start_us and workers.warm < workers.most:
        warm = replace(workers, warm=workers.most)
        ways["workers that are warm already"] = course(batch.jobs, line, warm, times)
    now_us = found.likely.finished_us
    saved = {way: now_us - then.finished_us for way, then in ways.items()}
    for way in sorted(saved, key=lambda each: -saved[each]):
        if saved[way] > HELPS_SHARE * now_us:
            yield f"{way}: done {about(saved[way])} sooner"


# --- in words


def _verdict(made: Plan, batch: Batch) -> str:
    jobs = counted(batch.jobs, "job")
    if made.refused:
        return f"not like this: {made.refused[0]}"
    if not batch.jobs:
        return "nothing is left to do"
    if made.finish_s is None or made.finish_best_s is None or made.finish_worst_s is None:
        sent = f"{jobs} are sent within {about(made.submit_s * SECOND_US)} at the soonest"
        return f"{sent}; when they end nobody knows yet"
    ends = f"{jobs} in about {about(made.finish_s * SECOND_US)}"
    spread = f" ({about(made.finish_best_s * SECOND_US)} to {about(made.finish_worst_s * SECOND_US)})"
    cost = ""
    if made.cost is not None:
        cost = f" for about {of_money(made.cost.likely)} ({of_money(made.cost.best)} to {of_money(made.cost.worst)})"
    return f"{ends}{spread}{cost}; {made.bound_by}"


def about(time_us: float) -> str:
    """A time for people, as exact as a forecast is."""
    if time_us < SECOND_US:
        return f"{max(time_us, 0) / 1000:.0f} ms"
    for unit_us, name in ((_DAY_US, "days"), (HOUR_US, "h"), (MINUTE_US, "min")):
        if time_us >= 2 * unit_us:
            number = time_us / unit_us
            return f"{number:.1f} {name}" if number < 10 and name != "min" else f"{number:.0f} {name}"  # noqa: PLR2004
    return f"{time_us / SECOND_US:.0f} s"
