"""What is known of an endpoint before a run is sent there, and in one line how the run will go."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from orchestrator.client import for_a_batch
from orchestrator.core.gates.costs import Price
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.planning.bottlenecks import TRIP_US_USUAL, SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, TimesSource, Workers
from orchestrator.core.planning.observed_times import ObservedExecution, experience
from orchestrator.core.planning.plan_types import Batch, Candidate, Known, Terms
from orchestrator.core.planning.planner import plan_of_pool
from orchestrator.core.planning.pool_forecast import PoolRule
from orchestrator.core.pools.member import Prefer
from orchestrator.core.service.health import Health
from orchestrator.engine.observers.served_run import ServedRun, as_it_is
from orchestrator.engine.ports.local_endpoints import LOCAL_WORKERS, absolute_endpoint, is_local
from orchestrator.engine.runtime.console import Console
from orchestrator.engine.sending.canary_jobs import rows_first
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.command_requests import PlanFigures, PlanRequest
from orchestrator.settings.connection_settings import ConnectionSettings, place_for
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.units import MILLISECOND_US

WORTH_TELLING: Final = 20
"""Of fewer jobs a run says nothing before it begins."""


async def outlook(ledger: Ledger, run: Run, settings: RunSettings, connection: ConnectionSettings) -> str | None:
    """In one line how `run` will go, whose jobs wait in the ledger; None where nothing is known, or it is soon over."""
    jobs = (await ledger.runs.counts(run=run.id)).get(State.QUEUED.value, 0)
    if jobs < WORTH_TELLING:
        return None
    found = [
        candidate(place, connection, settings, await executions_at(ledger, place))
        for place in endpoint_places(settings, Place(run.service_url, run.endpoint))
    ]
    if not any(each.known.times for each in found):
        return None
    return plan_of_pool(Batch(rows=jobs), found, terms_of(settings, ledger.now()), rule_of(settings)).verdict


async def tell_outlook(
    ledger: Ledger,
    run: Run,
    settings: RunSettings,
    connection: ConnectionSettings,
    console: Console,
    *,
    of: str = "",
) -> None:
    """Says how `run` will go, where that is known; `of` says what of it is meant."""
    if (told := await outlook(ledger, run, settings, connection)) is not None:
        console.info(f"{run.name}: {of}{told}")


async def tell_after_canary(
    ledger: Ledger, served: ServedRun, settings: RunSettings, connection: ConnectionSettings, console: Console
) -> None:
    """Says how the rest of a run will go once enough of the rows have succeeded that go first: by what these took.
    Nothing where that is so by now, or cannot come to be.
    """
    share, progress, is_out = settings.canary.share, served.progress, False
    while True:
        seen = progress.changes
        rows = await rows_first(ledger, served.run.id, share)
        if rows is not None and (rows.has_passed or rows.has_failed):
            break
        is_out = True
        while progress.changes == seen:
            await progress.change()
    if is_out and rows.has_passed:
        run = await as_it_is(ledger, served.run)
        await tell_outlook(ledger, run, run.settings, connection, console, of="the rest: ")


class Place(NamedTuple):
    """Where an endpoint is."""

    service_url: str
    endpoint: str

    @property
    def is_local(self) -> bool:
        """Whether it is a function of the user's."""
        return self.service_url == LOCAL


def endpoint_place(endpoint: str, service_url: str) -> Place:
    """Where an endpoint is that a request names, if it is at that service."""
    if is_local(endpoint):
        return Place(LOCAL, absolute_endpoint(endpoint))
    return Place(place_for(endpoint, service_url), endpoint)


def endpoint_places(settings: RunSettings, home: Place) -> Sequence[Place]:
    """Where a run that is at `home` has its jobs executed; by prices, where its pool goes by these."""
    if settings.prefer is Prefer.CHEAP:
        names = settings.cheapest_first
    else:
        names = tuple(each.endpoint for each in settings.members)
    return [endpoint_place(each, home.service_url) for each in names] or [home]


def candidate(
    place: Place,
    connection: ConnectionSettings,
    settings: RunSettings,
    executions: list[ObservedExecution],
    request: PlanRequest | None = None,
    health: Health | None = None,
    trip_us: int | None = None,
) -> Candidate:
    """An endpoint for a run with these settings, with its latest `executions`."""
    price, settings = settings.price_at(place.endpoint), settings.at(place.endpoint)
    return Candidate(
        endpoint=place.endpoint,
        line=_line(connection, settings, is_embedded=place.is_local, trip_us=trip_us),
        known=_known_of(executions, settings, request, health, is_embedded=place.is_local),
        price=None if price is None else Price(price),
    )


def rule_of(settings: RunSettings) -> PoolRule:
    """Which member of the pool of a run with these settings takes a job."""
    return PoolRule(prefer=settings.prefer, spill_after_us=settings.spill_after_us)


def _line(
    connection: ConnectionSettings, settings: RunSettings, *, is_embedded: bool, trip_us: int | None
) -> SendingLimits:
    """The way to the endpoint, as a run with these settings has it."""
    limits = connection.limits if is_embedded else for_a_batch(connection.limits)
    via = settings.via.foreseen
    return SendingLimits(
        run=limits[via.operation],
        sync=limits[Operation.RUNSYNC],
        status=limits[Operation.STATUS],
        pacing=connection.pacing,
        webhooks=connection.listen is not None,
        trip_us=MILLISECOND_US if is_embedded else trip_us or TRIP_US_USUAL,
        queue_depth=settings.queue_depth,
        retention_us=settings.retention_us,
        via=via,
    )


def terms_of(settings: RunSettings, now: int) -> Terms:
    """What is to be kept of a run with these settings that begins at `now`."""
    via = settings.via
    return Terms(
        ttl_us=settings.ttl_us,
        execution_timeout_us=settings.policy.timeout_ms * MILLISECOND_US,
        finish_within_us=max(0, settings.finish_by - now) if settings.finish_by else None,
        budget=settings.budget or None,
        worker_range=settings.worker_range,
        per_hour=settings.budget_per_hour,
        are_kept_warm=settings.workers_min is not None,
        chunk=settings.chunk,
        batch_rows=settings.batch_rows if via is not via.foreseen else None,
        batch_discount=settings.batch_discount,
    )


def _known_of(
    executions: list[ObservedExecution],
    settings: RunSettings,
    request: PlanRequest | None,
    health: Health | None,
    *,
    is_embedded: bool,
) -> Known:
    """What is known of an endpoint, with its latest executions first: what was given goes before what the account says,
    and that before what was seen.
    """
    figures = PlanFigures() if request is None else request.figures
    found = experience(executions)
    times = None if found is None else found.times
    if request is not None and request.probe is not None:
        probe = experience(executions[: request.probe], TimesSource.PROBE)
        times = times if probe is None else probe.times
    if figures.execution_us is not None:
        times = ExecutionSample.given(figures.execution_us)
    least_wished, most_wished = settings.workers_min or 0, max(settings.workers_max or 0, settings.workers_min or 0)
    most, where = _workers(settings, request, found.workers if found else None, health, is_embedded=is_embedded)
    if not isinstance(settings.workers, int) and most_wished and not is_embedded and most_wished > (most or 0):
        most, where = most_wished, "as the run wants"
    if most is None:
        return Known(times=times)
    warm = _up(health)
    start_us = figures.start_us if figures.start_us is not None else found.workers.start_us if found else 0
    if is_embedded:
        warm = most
    workers = Workers(most=max(most, 1), warm=min(max(warm, least_wished), most), start_us=start_us)
    return Known(times=times, workers=workers, workers_from=where)


def _workers(
    settings: RunSettings,
    request: PlanRequest | None,
    seen: Workers | None,
    health: Health | None,
    *,
    is_embedded: bool,
) -> tuple[int | None, str]:
    up = _up(health)
    if isinstance(settings.workers, int):
        return settings.workers, "as given"
    if is_embedded:
        return LOCAL_WORKERS, "of the embedded emulator"
    if request is not None and request.workers_there is not None:
        return request.workers_there, "as the account says"
    if seen is not None:
        return max(seen.most, up), "as many as were seen at work"
    return (up, "as the endpoint says how it is") if up else (None, "")


def _up(health: Health | None) -> int:
    """How many workers are there, busy or not."""
    return 0 if health is None else (health.workers.idle or 0) + (health.workers.running or 0)


async def executions_at(ledger: Ledger, place: Place) -> list[ObservedExecution]:
    """The latest executions at an endpoint that the ledger knows of."""
    return await ledger.jobs.history.executions(
        service_url=place.service_url, endpoint=place.endpoint, now=ledger.now()
    )
