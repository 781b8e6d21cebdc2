"""The bounds of an endpoint's workers, as the account's REST interfaces have them: for the engine, which may raise them
for the length of a run.
"""

import httpx

from orchestrator.account.endpoints.endpoints import EndpointClient, Endpoints, EndpointSpec
from orchestrator.account.endpoints.rest_v1 import EndpointsV1
from orchestrator.account.endpoints.rest_v2 import EndpointsV2
from orchestrator.account.transport.fallback import PUBLIC, InterfaceFallback
from orchestrator.account.transport.rest import Rest
from orchestrator.client import Service
from orchestrator.client.jobs.refusals import AnswerError
from orchestrator.client.jobs.serverless import service_url
from orchestrator.core.gates.scaling_override import Bounds
from orchestrator.core.service.account_interfaces import Interface, Noun


def endpoints_at(service: Service, rest_url: str) -> Endpoints:
    """The account's endpoints, by the interfaces that `EndpointBounds` uses."""
    at = service_url(rest_url)
    newer = service_url(PUBLIC[Interface.V2]) if rest_url.rstrip("/") == PUBLIC[Interface.V1] else at

    def rest(url: httpx.URL) -> Rest:
        return Rest(url, service.headers, service.transport_to(url), service.clock)

    forms: list[EndpointClient] = [EndpointsV2(rest(newer)), EndpointsV1(rest(at))]
    return Endpoints(InterfaceFallback(Noun.ENDPOINTS, Interface.AUTO, forms))


class EndpointBounds:
    """Reads and sets how many workers an endpoint may have. Calls raise what `Endpoints` raises."""

    def __init__(self, service: Service, rest_url: str) -> None:
        """`service` has the key, `rest_url` is where REST v1 is. v2, which is asked first, is at its own address at the
        public service, and elsewhere at the same one. Raises `UsageError` for a URL that is none.
        """
        self._endpoints = endpoints_at(service, rest_url)

    async def show(self, endpoint: str) -> Bounds:
        """The bounds in force."""
        record = await self._endpoints.show(endpoint)
        if record.workers_min is None or record.workers_max is None:
            raise AnswerError(f"endpoints show {endpoint}: the service does not say how many workers it may have")
        return Bounds(record.workers_min, record.workers_max)

    async def set(self, endpoint: str, bounds: Bounds) -> None:
        """Sets the bounds."""
        await self._endpoints.update(endpoint, EndpointSpec(workers_min=bounds.least, workers_max=bounds.most))
