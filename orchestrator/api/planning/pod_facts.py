"""What is known of pods before a run that is to have them is planned: how long requests take there and how many go at
once, how soon they are ready, and their price.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import anyio
import msgspec

from orchestrator.api.foreground.forecast_line import endpoint_place, executions_at
from orchestrator.api.planning.endpoint_facts import ASK_S_MAX
from orchestrator.core.gates.costs import Price
from orchestrator.core.planning.forecast import Workers
from orchestrator.core.planning.observed_times import ObservedExecution, experience
from orchestrator.core.planning.plan_types import Candidate, KnownPods
from orchestrator.core.planning.pod_plan import latest_of, observed_start
from orchestrator.core.pods.pod_lease import PodLease
from orchestrator.core.pods.pod_template import PodTemplate
from orchestrator.core.text.wording import counted
from orchestrator.engine.hosting.worker_scaling import knows_account
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import OrchestratorError
from orchestrator.ledger import Ledger
from orchestrator.settings.command_requests import PlanRequest
from orchestrator.settings.run_settings import RunSettings

PODS_LOOKED_AT: Final = 20


class PodHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Of pods such as a template makes."""

    leases: Sequence[PodLease] = ()
    """The latest first."""

    executions: Sequence[ObservedExecution] = ()
    """The latest first."""

    at_once: int | None = None
    """So many requests were seen under way at one pod at once; None: nothing was."""


async def pod_history(ledger: Ledger, template: PodTemplate, service_url: str) -> PodHistory:
    """What the ledger knows of such pods. Raises `StorageError`."""
    leases = latest_of(await ledger.runs.pod_leases.all(), template)
    urls = dict.fromkeys(lease.url for lease in leases[:PODS_LOOKED_AT] if lease.url is not None)
    of_each = [await executions_at(ledger, endpoint_place(url, service_url)) for url in urls]
    seen = [found.workers.most for each in of_each if (found := experience(each)) is not None]
    return PodHistory(
        leases=leases,
        executions=sorted((one for each in of_each for one in each), key=lambda one: -one.ended_at),
        at_once=max(seen, default=None),
    )


async def known_pods(
    history: PodHistory, request: PlanRequest, settings: RunSettings, given: Dependencies, *, jobs: int
) -> KnownPods:
    """How many there will be, how soon, and at what price: as the file says, as the account said of earlier ones, or as
    its catalog says.
    """
    template = settings.pod_template
    assert template is not None
    start_us, start_from = observed_start(history.leases)
    if request.figures.start_us is not None:
        start_us, start_from = request.figures.start_us, "as given"
    seen = next((lease.per_hour for lease in history.leases if lease.per_hour), None)
    if template.price_per_hour is not None:
        price: Price | None = Price(template.price_per_hour, "as the pod template says")
    elif seen is not None:
        price = Price(seen, "as the account said of the latest one")
    else:
        price = await _catalog_price(request, template, given)
    return KnownPods(
        template=template.name,
        count=max(1, min(settings.pods or 1, jobs)),
        start_us=start_us,
        start_from=start_from,
        per_hour=None if price is None else price.per_s,
        price_from="" if price is None else price.source,
    )


def at_pods(found: Candidate, pods: KnownPods, history: PodHistory, settings: RunSettings) -> Candidate:
    """`found`, a place where nothing is ever sent, with what its pods do: as many at once as one was seen to, or as its
    limit allows.
    """
    one = history.at_once or found.line.run.concurrent
    if isinstance(settings.workers, int):
        most, where = settings.workers, "as given"
    elif one is not None:
        how = "was seen" if history.at_once is not None else "the limit allows"
        most, where = one * pods.count, f"{one:,} at once at each of {counted(pods.count, 'pod')}, as {how}"
    else:
        return msgspec.structs.replace(found, known=msgspec.structs.replace(found.known, workers=None))
    workers = Workers(most=most, warm=most)
    known = msgspec.structs.replace(found.known, workers=workers, workers_from=where)
    return msgspec.structs.replace(found, known=known)


async def _catalog_price(request: PlanRequest, template: PodTemplate, given: Dependencies) -> Price | None:
    """For an hour; None where the account has none, or says nothing in time."""
    connection = request.run.connection
    if not connection.api_key or not knows_account(connection.rest_url, connection.serverless_url):
        return None
    with anyio.move_on_after(ASK_S_MAX), suppress(OrchestratorError):
        async with given.service(connection, given.clock) as service:
            return await given.pods(service, connection.rest_url).price(template)
    return None
