"""How a run stands, in numbers: for the summary and the progress display."""

from collections import Counter
from collections.abc import Mapping

from orchestrator.api.counts import margin_summary, state_counts, uncertain_summary
from orchestrator.core.job import FAILED_EXECUTIONS, NO_NEWS, PAID_TWICE
from orchestrator.core.lifecycle import State
from orchestrator.core.pacing import Operation
from orchestrator.engine.endpoint import Endpoint
from orchestrator.engine.engine import Engine
from orchestrator.engine.runs import RunSession
from orchestrator.ledger.margins import Margins
from orchestrator.units import SECOND_US
from orchestrator.views import CollectedBy, Snapshot, Summary


def summary_of(
    counts: Mapping[str, int],
    margins: Margins,
    engine: Engine,
    session: RunSession,
    *,
    safe_offline_s: float | None,
    wall_s: float,
    interrupted: bool,
) -> Summary:
    """The summary of a run: what `counts` and `margins` of the ledger say, and what this process sent."""
    meters = engine.endpoints.meters()
    sent: Counter[str] = Counter()
    for operation, meter in meters:
        if meter.sent:
            sent[operation.value] += meter.sent
    return Summary(
        run=session.run.name,
        jobs=state_counts(counts),
        requests=dict(sent),
        throttled=sum(meter.throttled for _, meter in meters),
        uncertain=uncertain_summary(counts),
        lost=counts.get("lost", 0),
        expired=counts.get("expired", 0),
        paid_twice=counts.get(PAID_TWICE, 0),
        failed_executions=counts.get(FAILED_EXECUTIONS, 0),
        no_news=counts.get(NO_NEWS, 0),
        stuck=engine.stuck.found(session.run.id),
        margin_s=margin_summary(margins),
        safe_offline_s=safe_offline_s,
        wall_s=round(wall_s, 3),
        interrupted=interrupted,
    )


def snapshot_of(engine: Engine, session: RunSession, *, wall_s: float) -> Snapshot:
    """How a run stands now."""
    progress, endpoint = session.progress, session.endpoint
    meter = engine.endpoints.served(endpoint.id).api.figures(Operation.RUN)
    held_up = session.held_up
    waits = held_up is not None and progress.count(State.QUEUED.value) > 0
    return Snapshot(
        run=session.run.name,
        reading=session.rows_read is not None,
        rows_read=session.rows_read or 0,
        counts=progress.counts,
        jobs_per_s=progress.jobs_per_s(),
        eta_s=None if waits else progress.eta_s(),
        sent=meter.sent,
        window_used=meter.used,
        window_allowed=meter.allowance,
        throttled=sum(each.throttled for _, each in engine.endpoints.meters()),
        queue_full=meter.queue_full,
        held_up=held_up,
        unreachable_s=_unreachable_s(endpoint),
        line_bytes_per_s=line_bytes_per_s(endpoint),
        uncertain_seen=progress.count("uncertain_seen"),
        paid_twice=progress.count(PAID_TWICE),
        failed_executions=progress.count(FAILED_EXECUTIONS),
        stuck=engine.stuck.found(session.run.id),
        janitor=engine.janitor.summary,
        margin_min_s=progress.margin_min_s,
        safe_offline_s=engine.endpoints.safe_offline_s(),
        webhooks_fail=endpoint.collected_by is CollectedBy.POLLING_INSTEAD,
        wall_s=wall_s,
    )


def line_bytes_per_s(endpoint: Endpoint) -> float | None:
    """What the line brings where it is full, up or down, whichever is more."""
    api = endpoint.api
    return max((rate for way in (api.up, api.down) if (rate := way.bytes_per_s()) is not None), default=None)


def _unreachable_s(endpoint: Endpoint) -> float | None:
    since_us = endpoint.connectivity.unreachable_us(endpoint.clock.now())
    return None if since_us is None else since_us / SECOND_US
