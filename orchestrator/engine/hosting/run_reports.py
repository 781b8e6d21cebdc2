"""How the runs of this process stand, for those who look from outside."""

from collections.abc import Iterator
from functools import reduce
from typing import Final

from msgspec.structs import replace

from orchestrator.core.gates.gates import Gate, Hold
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.hosting.endpoint_registry import EndpointRegistry
from orchestrator.engine.hosting.run_registry import RunRegistry
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.engine.hosting.stuck_jobs import StuckJobs
from orchestrator.engine.pools.run_pool import RunPool
from orchestrator.ledger.runs.heartbeats import RunReport, of_pool, together
from orchestrator.units import MINUTE_US, SECOND_US
from orchestrator.views.members import MemberStatus, members_first
from orchestrator.views.status import Collecting, StuckSummary

REPORTED_FOR_US: Final = MINUTE_US
"""For so long after its end others still hear how a run stood."""

UNWANTED_US: Final = 30 * SECOND_US
"""A shorter rest that the service wants is a matter of course, and no news."""


def run_reports(
    runs: RunRegistry, endpoints: EndpointRegistry, stuck: StuckJobs, now: int, *, lately: bool, only: int | None = None
) -> dict[int, RunReport]:
    """Of each run of which there is something to say, or of `only` that one; `lately`: of those that ended long ago
    there is not.
    """
    reported = {*runs.unfinished, *runs.sessions, *runs.unservable}
    if only is not None:
        reported &= {only}
    if lately:  # a process may serve thousands, one a night
        for run, session in runs.sessions.items():
            is_done = not session.progress.unfinished and not session.is_saving and run not in runs.unservable
            session.ended_at = (session.ended_at or now) if is_done else None
            if session.ended_at is not None and session.ended_at < now - REPORTED_FOR_US:
                reported.remove(run)
    return {run: _report(run, runs, endpoints, stuck.found(run)) for run in reported}


def _report(run: int, runs: RunRegistry, endpoints: EndpointRegistry, stuck: StuckSummary) -> RunReport:
    if run not in endpoints.homes.endpoints:
        unservable = runs.unservable.get(run)
        hold = unservable and Hold(Gate.UNSERVABLE, unservable.why, stops=False)
        return RunReport(blocked_by=hold, is_unserved=True)
    session, pool = runs.sessions.get(run), runs.pools.of.get(run)
    at = {number: _at(endpoints.endpoints[number], run, session, stuck) for number in endpoints.homes.endpoints[run]}
    own, *others = at.values()
    report = reduce(together, others, own)
    if session is not None and others:
        report = replace(report, stopped=session.why_stopped, is_uncollectable=session.is_uncollectable)
    if session is not None and pool is not None:
        report = of_pool(report, [said for number, said in at.items() if number in pool.members])
        report = replace(report, members=tuple(_members(session, pool, runs)))
    if session is not None and runs.settings_of[run].worker_range is not None and not session.is_over:
        report = replace(report, workers=runs.workers.get(session.run.endpoint_id))
    if batches := [each for number in at for each in endpoints.served[number].batches.of_run(run)]:
        report = replace(report, batches=tuple(batches))
    refused = (endpoints.served[number].batches.none_for(run) for number in at)
    report = replace(report, no_batch=next(filter(None, refused), None))
    if session is None or session.standstill is None or session.standstill.stands != session.progress.stands:
        return report
    return replace(report, finding=session.standstill.sentence)


def _members(session: RunSession, pool: RunPool, runs: RunRegistry) -> Iterator[MemberStatus]:
    """How each member of the pool stands, and each that was one, in the order of the settings."""
    run, settings = session.run.id, runs.settings_of[session.run.id]
    endpoints = {part.endpoint.id: part.endpoint for part in session.parts}
    names = {number: endpoint.retries.name_of(run, number) for number, endpoint in endpoints.items()}
    took = {number: runs.brakes.spent.of_run_at(run, number) for number in names}
    outstanding = {number: len(endpoint.outstanding.plan.of_run(run)) for number, endpoint in endpoints.items()}
    members = runs.members_of(run)
    for number in members_first(names, members, lambda number: took[number].ended or outstanding[number]):
        name, there = names[number], outstanding[number]
        via, price = settings.at(name).via, settings.price_at(name)
        found = MemberStatus.counted(
            name, took[number], via=via, price=price, outstanding=there, batch_discount=settings.batch_discount
        )
        if settings.pod_template is not None:
            found = replace(found, cost=runs.paid_for_pod(run, name))
        member = pool.members.get(number)
        if member is not None:
            limiter = member.endpoint.api.limiter
            found = replace(
                found,
                state=member.health.state,
                why=member.health.why,
                jobs_per_s=pool.ends[number].per_s() or 0.0,
                window_used=limiter.figures(via.operation).used,
                window_allowed=limiter.figures(via.operation).allowance,
                throttled=sum(limiter.figures(each).throttled for each in Operation),
            )
        yield found


def _at(endpoint: Endpoint, run: int, session: RunSession | None, stuck: StuckSummary) -> RunReport:
    part = None if session is None else session.part(endpoint.id)
    sending, now = None if part is None else part.sending, endpoint.clock.now()
    is_released = session is not None and session.is_released
    unreachable_us = endpoint.health.connectivity.unreachable_us(now)
    unwanted_until = endpoint.api.limiter.throttled_until(Operation.STATUS)
    safe_until = endpoint.outstanding.plan.deadlines.soonest()
    return RunReport(
        collecting=None if endpoint.is_local else Collecting(by=endpoint.estimates.collected_by, safe_until=safe_until),
        stuck=stuck,
        # But for what people ask: the ledger says that itself, and at once.
        blocked_by=None if sending is None else sending.blocked_by,
        stopped=endpoint.why_stopped(run) if sending is None else sending.why_stopped,
        refused_status=endpoint.health.stopped_status,
        crawl_s=None if sending is None else sending.crawl_s,
        webhook_share=endpoint.estimates.webhook_health.share,
        is_released=is_released,
        is_saving=session is not None and session.is_saving,
        is_unserved=sending is None or is_released,
        is_bound=part is not None and part.dispatcher.turns.is_bound(part.sending),
        is_uncollectable=endpoint.health.uncollectable is not None,
        unwanted_until=unwanted_until if unwanted_until - now > UNWANTED_US else None,
        unreachable_since=None if unreachable_us is None else now - unreachable_us,
        line_bytes_per_s=endpoint.estimates.line_bytes_per_s,
    )
