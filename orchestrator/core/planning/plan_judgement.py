"""What a plan means for people: what cannot be kept, what is doubtful, what would help, and a verdict."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from orchestrator.core.jobs.deadlines import margin_us
from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, Forecast, Workers, course
from orchestrator.core.planning.plan_types import Batch, Known, Money, Plan, Terms
from orchestrator.core.text.figures import money as of_money
from orchestrator.core.text.wording import counted
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US

FASTEST: Final = 0.05
SLOWEST: Final = 0.95
"""The shares of the executions that stand for the fastest and the slowest."""

HELPS_SHARE: Final = 0.05
"""What saves less of the time than this is not worth telling."""

DOUBLE: Final = 2

_DAY_US: Final = 24 * HOUR_US


# --- what cannot be kept


def of_input(batch: Batch) -> Iterator[str]:
    if batch.oversize:
        yield f"{counted(batch.oversize, 'row')} would be larger than the service takes: `run` refuses the input"


def of_times(line: SendingLimits, terms: Terms, times: ExecutionSample | None) -> Iterator[str]:
    kept_us = line.retention_us - margin_us(line.retention_us)
    if not line.brings_results and kept_us < SECOND_US + 2 * line.trip_us:
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


def of_terms(found: Forecast | None, money: Money | None, terms: Terms, workers: Workers | None) -> Iterator[str]:
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


def doubts(
    found: Forecast | None, money: Money | None, line: SendingLimits, terms: Terms, times: ExecutionSample | None
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


def helps(batch: Batch, line: SendingLimits, known: Known, found: Forecast | None) -> Iterator[str]:
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
    if not line.brings_results:
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


def verdict(made: Plan, batch: Batch) -> str:
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
