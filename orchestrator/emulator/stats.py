"""`GET /emulator/stats`: what the emulator has seen and done, for whoever tests against it.

Not part of the service. It takes any key, or none.
"""

from collections.abc import Callable, Mapping
from itertools import islice

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.emulator.batches.batch_rules import DOCUMENTED_ON
from orchestrator.emulator.contract.faults import FaultDice
from orchestrator.emulator.contract.limits import MeterFigures
from orchestrator.emulator.http.account_gate import AccountGate
from orchestrator.emulator.http.gate import Gate
from orchestrator.emulator.job_api.webhook_delivery import WebhookDelivery
from orchestrator.emulator.jobs.endpoint_table import endpoint_of
from orchestrator.emulator.jobs.jobs import ServiceStatus
from orchestrator.emulator.jobs.world import HealthReply, World
from orchestrator.units import SECOND_US

JOBS_MAX = 1_000
"""The most jobs that one answer lists, unless `?jobs=N` asks for more or fewer."""


class WebhookFigures(msgspec.Struct, frozen=True, kw_only=True):
    attempts: int
    delivered: int
    dropped: int


class EndpointFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint: its operations by name, its jobs and workers as `/health` shows them."""

    operations: Mapping[str, MeterFigures]
    health: HealthReply
    executed_s: float
    """How long executions have taken."""
    price_share: float
    """Which part of the usual price each second of that costs."""
    results_never_read: int
    """Results that were forgotten before anybody had asked for them."""


class JobFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One job that is still known."""

    endpoint: str
    status: ServiceStatus
    paid: int
    """How often a worker began it."""
    result_read: bool


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Everything; latest jobs first."""

    now_at: int
    """The emulator's time, µs since the epoch."""
    jobs_known: int
    endpoints: Mapping[str, EndpointFigures]
    interfaces: Mapping[str, Mapping[str, MeterFigures]]
    """`pods`, `rest` and `graphql`: their operations by name, highest counts in any minute."""
    batch_documented_on: str
    """Of which day the documents of `/batch` are that are imitated; it is a beta."""
    faults: Mapping[str, int]
    """How often each has struck."""
    webhooks: WebhookFigures
    jobs: Mapping[str, JobFigures]


def stats(
    *,
    world: World,
    gate: Gate,
    dice: FaultDice,
    webhooks: WebhookDelivery,
    interfaces: Mapping[str, AccountGate],
    now: int,
    jobs_max: int,
    batch_price_share: float = 1.0,
) -> Stats:
    """The figures of this moment, with the latest `jobs_max` jobs. The batches of an endpoint, and their workers, stand
    under a name of their own.
    """
    operations: dict[str, dict[str, MeterFigures]] = {}
    for (endpoint, operation), figures in gate.meters.all_figures().items():
        operations.setdefault(endpoint, {})[operation] = figures
    known = {*operations, *world.endpoints.names()}
    return Stats(
        now_at=now,
        jobs_known=len(world.table.by_id),
        endpoints={
            endpoint: EndpointFigures(
                operations=operations.get(endpoint, {}),
                health=world.health(endpoint),
                executed_s=world.endpoints.state(endpoint).executed_us / SECOND_US,
                price_share=1.0 if endpoint == endpoint_of(endpoint) else batch_price_share,
                results_never_read=world.endpoints.state(endpoint).unread,
            )
            for endpoint in sorted(known)
        },
        interfaces={name: front.figures() for name, front in interfaces.items()},
        batch_documented_on=DOCUMENTED_ON,
        faults={str(fault): count for fault, count in dice.counts().items()},
        webhooks=WebhookFigures(attempts=webhooks.attempts, delivered=webhooks.delivered, dropped=webhooks.dropped),
        jobs={
            job.id: JobFigures(endpoint=job.endpoint, status=job.status, paid=job.executions, result_read=job.is_read)
            for job in islice(world.table.newest_first(), jobs_max)
        },
    )


class StatsApi:
    """Answers `/emulator/stats`. `take` gives the figures with so many jobs at most."""

    def __init__(self, take: Callable[[int], Stats]) -> None:
        self._take = take

    def routes(self) -> list[Route]:
        """The route of this API."""
        return [Route("/emulator/stats", self._stats, methods=["GET"])]

    async def _stats(self, request: Request) -> Response:
        wanted = request.query_params.get("jobs", "")
        jobs_max = int(wanted) if wanted.isdecimal() else JOBS_MAX
        return Response(msgspec.json.encode(self._take(jobs_max)), media_type="application/json")
