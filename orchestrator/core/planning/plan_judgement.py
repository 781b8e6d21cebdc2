"""What a plan means for people: what cannot be kept, what is doubtful, what would help, and a verdict."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from orchestrator.core.jobs.deadlines import margin_us
from orchestrator.core.lanes.direct_answers import WHAT_A_LOST_ANSWER_IS
from orchestrator.core.lanes.sync_requests import WHAT_A_CRASH_LOSES
from orchestrator.core.lanes.via import Via
from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, Forecast
from orchestrator.core.planning.plan_types import Batch, Candidate, Money, Plan, Terms
from orchestrator.core.planning.pool_forecast import EndpointWay, PoolRule, courses, joint_course
from orchestrator.core.pools.member import Prefer
from orchestrator.core.text.figures import money as of_money
from orchestrator.core.text.wording import counted
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US

FASTEST: Final = 0.05
SLOWEST: Final = 0.95
"""The shares of the executions that stand for the fastest and the slowest."""

HELPS_SHARE: Final = 0.05
"""What saves less of the time than this is not worth telling."""

DOUBLE: Final = 2

WITHOUT_IT: Final = "it is reckoned without it"

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
    if line.via.has_queue and fastest_us + line.trip_us >= terms.ttl_us:
        yield (
            f"the TTL ({about(terms.ttl_us)}) deletes nearly every job before its end: even the fastest executions take"
            f" {about(fastest_us)}"
        )
    if fastest_us > terms.execution_timeout_us:
        yield (
            f"the execution timeout ({about(terms.execution_timeout_us)}) ends nearly every job: even the fastest"
            f" executions take {about(fastest_us)}"
        )


def of_terms(found: Forecast | None, money: Money | None, terms: Terms, *, workers: int) -> Iterator[str]:
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


def _needed(found: Forecast, within_us: int, workers: int) -> str:
    if found.binds is not Bottleneck.WORKERS or within_us <= 0 or not workers:
        return ""
    needed = -int(-workers * found.likely.finished_us // within_us)
    return f"; it would take about {counted(needed, 'worker')}"


def doubts_of_times(line: SendingLimits, terms: Terms, times: ExecutionSample | None) -> Iterator[str]:
    if times is None:
        return
    slowest_us, fastest_us = times.quantile_us(SLOWEST), times.quantile_us(FASTEST)
    of_queue = (("TTL", terms.ttl_us),) if line.via.has_queue else ()
    for name, most_us in (*of_queue, ("execution timeout", terms.execution_timeout_us)):
        if fastest_us + line.trip_us < most_us <= slowest_us:
            share = sum(each > most_us for each in times.executions_us) / len(times.executions_us)
            yield f"the {name} ({about(most_us)}) ends {share:.0%} of the executions"


def doubts_of_lanes(line: SendingLimits) -> Iterator[str]:
    if line.via in (Via.SYNC, Via.BOTH):
        yield WHAT_A_CRASH_LOSES
    if not line.via.has_queue:
        yield WHAT_A_LOST_ANSWER_IS


def doubts_of_members(members: Sequence[Candidate]) -> Iterator[str]:
    """Of a pool's: with which of them it is not reckoned."""
    are_all_unwell = all(each.unwell is not None for each in members)
    for each in members:
        if each.unwell is not None:
            what = "none of them is well: it is reckoned as if they were" if are_all_unwell else WITHOUT_IT
            yield f"{each.endpoint} is not well ({each.unwell}); {what}"
        elif missing := _missing([each]):
            yield f"{each.endpoint}: nobody knows {' and '.join(missing)}; {WITHOUT_IT}"


def doubts(found: Forecast | None, money: Money | None, terms: Terms) -> Iterator[str]:
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


def to_find_out(batch: Batch, candidates: Sequence[Candidate]) -> Iterator[str]:
    """What is to be known before more can be said."""
    if batch.jobs:
        yield f"to know {' and '.join(_missing(candidates))}"


def _missing(candidates: Sequence[Candidate]) -> list[str]:
    missing = [] if any(each.known.times for each in candidates) else ["how long a job takes"]
    return missing + ([] if any(each.known.workers for each in candidates) else ["how many workers there are"])


def helps(
    jobs: int, ways: Mapping[str, EndpointWay], rule: PoolRule, found: Forecast, *, pods: int = 0
) -> Iterator[str]:
    """What would make `jobs` faster, of which that is `found`, the most helpful first. `ways` are by endpoint; `pods`:
    so many are that endpoint.
    """
    saved = {
        told: found.likely.finished_us - joint_course(courses(jobs, [*then.values()], rule)).finished_us
        for told, then in _others(ways, pods)
    }
    for told in sorted(saved, key=lambda each: -saved[each]):
        if saved[told] > HELPS_SHARE * found.likely.finished_us:
            yield f"{told}: done {about(saved[told])} sooner"


def saves(
    jobs: int, ways: Mapping[str, EndpointWay], prices: Mapping[str, float], terms: Terms, rule: PoolRule
) -> Iterator[str]:
    """By which rule of the pool it would cost less, and still end in time. `prices` are by endpoint."""
    within_us = terms.finish_within_us
    if within_us is None or len(ways) == 1 or not ways.keys() <= prices.keys():
        return
    cheapest = sorted(ways, key=lambda each: prices[each])
    patient = replace(rule, prefer=Prefer.CHEAP, spill_after_us=within_us)
    now_us, cost = _priced(jobs, ways, prices, [*ways], rule)
    then_us, less = _priced(jobs, ways, prices, cheapest, patient)
    if then_us <= within_us and less < (1 - HELPS_SHARE) * cost:
        told = f'prefer = "{Prefer.CHEAP}" and spill-after = "{-(-within_us // MINUTE_US)}m" in the table of the pool'
        late = f", {about(then_us - now_us)} later" if then_us > now_us else ""
        yield f"{told}: costs {of_money(cost - less)} less{late}"


def _priced(
    jobs: int, ways: Mapping[str, EndpointWay], prices: Mapping[str, float], order: Sequence[str], rule: PoolRule
) -> tuple[float, float]:
    """When it ends, and what its executions cost, by that rule and in that order."""
    found = courses(jobs, [ways[each] for each in order], rule)
    paid = [(each, prices[name]) for each, name in zip(found, order, strict=True) if each is not None]
    return joint_course(found).finished_us, sum(each.executing_us / SECOND_US * price for each, price in paid)


def _others(ways: Mapping[str, EndpointWay], pods: int) -> Iterator[tuple[str, Mapping[str, EndpointWay]]]:
    """Other ways, and how they are called."""
    for endpoint, way in ways.items():
        more = replace(way.workers, most=DOUBLE * way.workers.most)
        if pods:
            more = replace(more, warm=more.most)
            yield f"{DOUBLE * pods} pods instead of {pods}", {**ways, endpoint: replace(way, workers=more)}
            continue
        there = f" at {endpoint}" if len(ways) > 1 else ""
        told = f"{counted(more.most, 'worker')} instead of {way.workers.most:,}{there}"
        yield told, {**ways, endpoint: replace(way, workers=more)}
    lines = {endpoint: way.line for endpoint, way in ways.items()}
    paths = dict.fromkeys(line.via.paths for line in lines.values())
    yield (
        f"a higher limit of {' and '.join(paths)}",
        {
            each: replace(ways[each], line=replace(line, run=replace(line.run, requests=DOUBLE * line.run.requests)))
            for each, line in lines.items()
        },
    )
    if not all(line.brings_results for line in lines.values()):
        yield "webhooks", {each: replace(ways[each], line=replace(line, webhooks=True)) for each, line in lines.items()}
    if any(way.workers.start_us and way.workers.warm < way.workers.most for way in ways.values()):
        yield (
            "workers that are warm already",
            {each: replace(way, workers=replace(way.workers, warm=way.workers.most)) for each, way in ways.items()},
        )


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
