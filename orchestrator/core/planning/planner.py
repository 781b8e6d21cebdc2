"""The plan of a batch: when it ends, what binds, and what it costs. All figures come from `core.planning.forecast`, and
those of a pool from `core.planning.pool_forecast`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from orchestrator.core.planning.batch_plan import planned_in_batches
from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits
from orchestrator.core.planning.forecast import Forecast
from orchestrator.core.planning.plan_judgement import (
    doubts,
    doubts_of_lanes,
    doubts_of_members,
    doubts_of_times,
    helps,
    of_input,
    of_terms,
    of_times,
    saves,
    to_find_out,
    verdict,
)
from orchestrator.core.planning.plan_parts import Part, money_of, plan_parts
from orchestrator.core.planning.plan_types import Batch, Candidate, Known, MemberPlan, Money, Plan, Terms
from orchestrator.core.planning.plan_workers import with_needed
from orchestrator.core.planning.pod_plan import begun_later, pods_money, pods_plan
from orchestrator.core.planning.pool_forecast import PoolRule
from orchestrator.units import SECOND_US

BOUND_BY: Final[Mapping[Bottleneck, str]] = {
    Bottleneck.RATE: "the rate limit of {path} binds",
    Bottleneck.CONCURRENCY: "the limit of requests to {path} at once binds",
    Bottleneck.STATUS: "the limit of /status binds: results are collected more slowly than jobs end",
    Bottleneck.WORKERS: "the workers bind",
    Bottleneck.QUEUE: "how much may be at the service binds",
}

SINGLE: Final = PoolRule()


def plan_of(batch: Batch, endpoint: str, line: SendingLimits, terms: Terms, known: Known) -> Plan:
    """The plan of `batch` at `endpoint`."""
    return plan_of_pool(batch, [Candidate(endpoint=endpoint, line=line, known=known, price=terms.price)], terms)


def plan_of_pool(batch: Batch, candidates: Sequence[Candidate], terms: Terms, rule: PoolRule = SINGLE) -> Plan:
    """The plan of `batch` at `candidates`, by the rule of their pool; where that goes by prices, the cheapest first.

    Those that are unwell take nothing, where any is well, and those of which too little is known.
    """
    chunk_rows = None if terms.chunk is None else terms.chunk.rows_of(batch.row_bytes)
    candidates = [with_needed(batch, _in_chunks(each, chunk_rows or 1), terms) for each in candidates]
    rule = msgspec.structs.replace(rule, finish_within_us=terms.finish_within_us)
    parts, whole = plan_parts(batch, candidates, rule)
    played = whole
    if whole is not None and terms.pods is not None:
        whole = begun_later(whole, terms.pods)
    money = _cost(parts, whole, terms)
    ways = {each.candidate.endpoint: each.way for each in parts if each.way is not None}
    at_work = [each for each in parts if each.jobs] or [each for each in parts if each.way is not None] or parts
    main = max(at_work, key=lambda each: each.jobs)
    is_pool = len(parts) > 1
    refused = (
        *of_input(batch),
        *_of_each(at_work, lambda each: of_times(each.candidate.line, terms, each.candidate.known.times)),
        *of_terms(whole, money, terms, workers=0 if terms.pods else sum(each.workers for each in at_work)),
    )
    doubtful = (
        *_of_each(at_work, lambda each: doubts_of_lanes(each.candidate.line)),
        *_of_each(at_work, lambda each: doubts_of_times(each.candidate.line, terms, each.candidate.known.times)),
        *(doubts_of_members(candidates) if is_pool and whole is not None else ()),
        *doubts(whole, money, terms),
    )
    prices = {each.endpoint: each.price.per_s for each in candidates if each.price is not None}
    would_help = to_find_out(batch, candidates)
    if played is not None:
        more = helps(batch.jobs, ways, rule, played, pods=0 if terms.pods is None else terms.pods.count)
        would_help = chain(more, saves(batch.jobs, ways, prices, terms, rule))
    made = Plan(
        verdict="",
        is_feasible=not refused,
        endpoint=candidates[0].endpoint,
        rows=batch.rows,
        done=batch.done,
        repeats=batch.repeats,
        oversize=batch.oversize,
        input_bytes=batch.input_bytes,
        known_from=None if main.candidate.known.times is None else main.candidate.known.times.source,
        executions_known=sum(each.executions_known for each in parts),
        execution_s=_mean(at_work, lambda each: each.execution_s),
        executions_per_job=_mean(at_work, lambda each: each.per_job),
        workers=sum(each.workers for each in at_work) or None,
        workers_from="" if is_pool else main.candidate.known.workers_from,
        binds=main.binds,
        bound_by=_bound_by(main),
        jobs_per_s=sum(each.per_s for each in at_work),
        submit_s=_sent_s(batch, at_work) if whole is None else whole.likely.submitted_us / SECOND_US,
        finish_s=None if whole is None else whole.likely.finished_us / SECOND_US,
        finish_best_s=None if whole is None else whole.best.finished_us / SECOND_US,
        finish_worst_s=None if whole is None else whole.worst.finished_us / SECOND_US,
        executing_s=None if whole is None else whole.likely.executing_us / SECOND_US,
        at_service_s=None if whole is None else whole.likely.waits_us / SECOND_US,
        cost=money,
        refused=refused,
        doubtful=doubtful,
        would_help=tuple(would_help),
        prefer=rule.prefer if is_pool else None,
        members=tuple(_member(each, batch, terms) for each in parts) if is_pool else (),
        pods=None if terms.pods is None else pods_plan(terms.pods),
        chunk_rows=chunk_rows,
    )
    made = msgspec.structs.replace(made, verdict=verdict(made, batch))
    return planned_in_batches(made, batch.jobs, terms)


def _cost(parts: Sequence[Part], whole: Forecast | None, terms: Terms) -> Money | None:
    if whole is None:
        return None
    return money_of(parts, terms) if terms.pods is None else pods_money(whole, terms.pods)


def _in_chunks(candidate: Candidate, rows: int) -> Candidate:
    """`candidate`, to which so many rows travel in one request."""
    return msgspec.structs.replace(candidate, line=msgspec.structs.replace(candidate.line, rows=rows))


def _bound_by(part: Part) -> str:
    return BOUND_BY[part.binds].format(path=part.candidate.line.via.paths)


def _of_each(parts: Sequence[Part], told: Callable[[Part], Iterator[str]]) -> Iterator[str]:
    """What is told of each, with its endpoint where there are several."""
    for part in parts:
        yield from (each if len(parts) == 1 else f"{part.candidate.endpoint}: {each}" for each in told(part))


def _mean(parts: Sequence[Part], value: Callable[[Part], float | None]) -> float | None:
    """That of a job, wherever it is executed."""
    known = [(each.jobs or 1, found) for each in parts if (found := value(each)) is not None]
    return sum(jobs * found for jobs, found in known) / sum(jobs for jobs, _ in known) if known else None


def _sent_s(batch: Batch, parts: Sequence[Part]) -> float:
    """How soon all of it can be sent, whatever becomes of it."""
    per_us = sum(1 / max(each.gaps[Bottleneck.RATE], each.gaps[Bottleneck.CONCURRENCY]) for each in parts)
    return batch.jobs / per_us / SECOND_US


def _member(part: Part, batch: Batch, terms: Terms) -> MemberPlan:
    candidate, times, likely = part.candidate, part.candidate.known.times, part.likely
    return MemberPlan(
        endpoint=candidate.endpoint,
        via=candidate.line.via,
        unwell=candidate.unwell,
        jobs=part.jobs,
        share=part.jobs / batch.jobs if batch.jobs else 0.0,
        jobs_per_s=part.per_s if part.way is not None else None,
        bound_by=_bound_by(part) if part.way is not None else "",
        execution_s=part.execution_s,
        executions_known=part.executions_known,
        known_from=None if times is None else times.source,
        workers=part.workers or None,
        workers_from=candidate.known.workers_from,
        finish_s=None if likely is None else likely.finished_us / SECOND_US,
        price_per_s=None if candidate.price is None else candidate.price.per_s,
        price_from="" if candidate.price is None else candidate.price.source,
        cost=None if candidate.price is None or likely is None else part.cost(terms, likely),
    )
