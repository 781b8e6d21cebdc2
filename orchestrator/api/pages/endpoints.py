"""Endpoints: limits and who set them, workers, runs, and how each went of late."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.api.admin.limits import meter_of, operation_limits
from orchestrator.api.pages.sample_charts import (
    SPANS,
    buckets_of,
    gauge_line,
    grown_histogram,
    quantile_lines,
    rate_line,
)
from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.limit_text import format_limit
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Operation
from orchestrator.core.samples.buckets import MARGIN_BOUNDS_S, TIME_BOUNDS_S
from orchestrator.core.service.profiles import address_of, is_by_url, profile_of
from orchestrator.ledger import Ledger
from orchestrator.ledger.actions.action_rows import SubjectKind
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.overviews.endpoint_summaries import EndpointRow
from orchestrator.ledger.reports.run_list import RunsWanted
from orchestrator.ledger.runs.endpoints import ChosenLimit
from orchestrator.ledger.runs.heartbeats import Heartbeat
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.samples.sample_repository import SampledTime
from orchestrator.ledger.samples.samples import EndpointSample
from orchestrator.units import DAY_US
from orchestrator.views.pages.endpoints import (
    EndpointLine,
    EndpointPage,
    EndpointRun,
    EndpointsPage,
    OperationLine,
    RaisedBounds,
)
from orchestrator.views.series import Series

ENDPOINTS_MAX: Final = 100
RUNS_MAX: Final = 200
ACTIONS_MAX: Final = 20
"""So many actions of an endpoint are looked through for who has set its limits."""

_SHARES: Final = {"half are shorter": 0.5, "95 % are shorter": 0.95}
_AT_SERVICE: Final = (State.SUBMITTING, State.UNCERTAIN, State.OUTSTANDING)


async def endpoints_page(ledger: Ledger, held_by: str | None) -> EndpointsPage:
    """All endpoints; `held_by` says who works on the ledger."""
    rows = await ledger.overviews.endpoints.all(ENDPOINTS_MAX)
    return EndpointsPage(endpoints=tuple(await _lines(ledger, held_by, rows)))


async def endpoint_page(ledger: Ledger, held_by: str | None, number: int, span: str) -> EndpointPage | None:
    """The endpoint of that number, with charts of the last `span`; None where there is none."""
    row = await ledger.overviews.endpoints.numbered(number)
    if row is None:
        return None
    until = ledger.now()
    since = until - SPANS[span]
    [line] = await _lines(ledger, held_by, [row], with_setters=True)
    time = await ledger.samples.of_endpoint(number, since, until)
    spent, runs = await _spent_today(ledger, number), [each.run for each in line.runs]
    budget, keeper = await _budget(ledger, runs)
    return EndpointPage(
        line=line,
        span=span,
        spans=tuple(SPANS),
        since=since,
        until=until,
        rates=_rates(time),
        workers=_workers(time),
        queue=quantile_lines(time, lambda sample: sample.queue, TIME_BOUNDS_S, _SHARES),
        execution=quantile_lines(time, lambda sample: sample.execution, TIME_BOUNDS_S, _SHARES),
        refused=(rate_line(time, "answered 429", _throttled, "failed"),),
        margins=buckets_of(grown_histogram(time, lambda sample: sample.margin), MARGIN_BOUNDS_S),
        spent_today=spent,
        budget_per_day=budget,
        budget_run=keeper,
    )


def _throttled(sample: EndpointSample) -> float:
    return sum(use.codes.get("429", 0) for use in sample.operations.values())


def _rates(time: SampledTime[EndpointSample]) -> tuple[Series, ...]:
    """Requests of each operation that was used, and what its limit allows of `/run`."""
    used = dict.fromkeys(operation for sample in time.samples for operation in sample.operations)

    def requests(sample: EndpointSample, operation: str) -> float:
        use = sample.operations.get(operation)
        return 0 if use is None else sum(use.codes.values())

    return tuple(rate_line(time, f"/{each}", lambda sample, each=each: requests(sample, each)) for each in used)  # type: ignore[misc]


def _workers(time: SampledTime[EndpointSample]) -> tuple[Series, ...]:
    states = dict.fromkeys(state for sample in time.samples for state in sample.workers)
    most = gauge_line(time, "at most", lambda sample: sample.workers_most)
    lines = tuple(
        gauge_line(time, state, lambda sample, state=state: sample.workers.get(state))  # type: ignore[misc]
        for state in states
    )
    return (*lines, most) if any(sample.workers_most is not None for sample in time.samples) else lines


# --- lines


async def _lines(
    ledger: Ledger, held_by: str | None, rows: Sequence[EndpointRow], *, with_setters: bool = False
) -> list[EndpointLine]:
    beats = await ledger.beats_at_work(held_by)
    chosen = await ledger.runs.limits.all()
    lent = {each.endpoint_id: each.shown for each in await ledger.runs.scaling_overrides.all()}
    samples = await ledger.samples.endpoints.latest([row.id for row in rows])
    among = await ledger.reports.run_list.page(wanted=RunsWanted.OPEN, before=None, most=RUNS_MAX)
    runs, counts = await ledger.runs.all(among), await ledger.runs.counts_by_run(among)
    found = []
    for row in rows:
        sample = samples.get(row.id, EndpointSample())
        raised = lent.get(row.id)
        setters = await _setters(ledger, row.id) if with_setters else {}
        found.append(
            EndpointLine(
                number=row.id,
                endpoint=row.endpoint,
                service="" if is_by_url(row.service_url) else address_of(row.service_url),
                profile=profile_of(row.service_url),
                operations=_operations(row.id, beats, chosen.get(row.id, {}), setters),
                workers=sample.workers,
                workers_at=sample.workers_at,
                raised=None
                if raised is None
                else RaisedBounds(before=str(raised.before), raised=str(raised.raised), since=raised.since),
                is_stopped=sample.is_stopped,
                safe_until=sample.safe_until if held_by else None,
                runs=_runs_there([run for run in runs if run.endpoint_id == row.id], counts),
                runs_ever=row.runs,
            )
        )
    return found


def _operations(
    number: int,
    beats: Sequence[Heartbeat],
    chosen: Mapping[Operation, ChosenLimit],
    setters: Mapping[str, str],
) -> tuple[OperationLine, ...]:
    found = []
    for operation in Operation:
        meter = meter_of(beats, number, operation, chosen.get(operation))
        limits = operation_limits(operation, chosen.get(operation), meter)
        found.append(
            OperationLine(
                **msgspec.structs.asdict(limits),
                base=format_limit(operation, CONTRACT_LIMITS[operation]),
                set_by=None if limits.set_at is None else setters.get(operation),
                in_flight=None if meter is None else meter.in_flight,
                at_once=None if meter is None else meter.concurrent,
                rate_share=1.0 if meter is None else meter.share,
            )
        )
    return tuple(found)


async def _setters(ledger: Ledger, endpoint: int) -> Mapping[str, str]:
    """Who has set the limit of each operation last, as far as that is kept."""
    found: dict[str, str] = {}
    for action in reversed(await ledger.actions.about(SubjectKind.ENDPOINT, endpoint, ACTIONS_MAX)):
        if action.verb == Action.LIMITS_SET and not action.is_refused:
            limits: str = msgspec.json.decode(action.options, type=dict[str, str]).get("limits", "")
            found.update((limit.partition("=")[0], action.asked_by) for limit in limits.split())
    return found


def _runs_there(runs: Sequence[Run], counts: Mapping[int, Mapping[str, int]]) -> tuple[EndpointRun, ...]:
    """Newest first."""
    there = {run.id: sum(counts.get(run.id, {}).get(state, 0) for state in _AT_SERVICE) for run in runs}
    whole = sum(there.values())
    return tuple(
        EndpointRun(
            run=run.id,
            name=run.name,
            queued=counts.get(run.id, {}).get(State.QUEUED, 0),
            at_service=there[run.id],
            share=there[run.id] / whole if whole else 0.0,
            priority=run.settings.priority,
        )
        for run in reversed(runs)
    )


# --- money


async def _spent_today(ledger: Ledger, endpoint: int) -> float | None:
    """What executions there have cost today (UTC), as far as the prices of their runs are known."""
    today = ledger.now() // DAY_US
    took: dict[int, DurationTotals] = {
        place[0]: totals
        for place, totals in (await ledger.jobs.brakes.executed()).items()
        if place[1] == endpoint and place[2] == today
    }
    settings = {run.id: run.settings for run in await ledger.runs.all(took)}
    prices = {run: price for run, each in settings.items() if (price := each.price) is not None}
    costs = [took[run].cost(price, settings[run].batch_discount) for run, price in prices.items()]
    return sum(costs) if costs else None


async def _budget(ledger: Ledger, runs: Collection[int]) -> tuple[float | None, str | None]:
    budgets = {run.name: run.settings.budget_per_day for run in await ledger.runs.all(runs)}
    kept = [(budget, name) for name, budget in budgets.items() if budget]
    return min(kept) if kept else (None, None)
