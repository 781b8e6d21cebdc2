"""The bounds of an endpoint's workers, as the account's REST interface has them: for the engine, which may raise them
for the length of a run.
"""

from orchestrator.account.endpoints import Endpoints, EndpointSpec
from orchestrator.account.rest import Rest
from orchestrator.client import Service
from orchestrator.client.refusals import AnswerError
from orchestrator.client.serverless import service_url
from orchestrator.core.lending import Bounds


class EndpointBounds:
    """Those of the account's endpoints. Calls raise what `Endpoints` raises."""

    def __init__(self, service: Service, rest_url: str) -> None:
        """`service` has the key, `rest_url` is where endpoints are. Raises `UsageError` for a URL that is none."""
        url = service_url(rest_url)
        self._endpoints = Endpoints(Rest(url, service.headers, service.transport_to(url), service.clock))

    async def show(self, endpoint: str) -> Bounds:
        """How they are now."""
        record = await self._endpoints.show(endpoint)
        if record.workers_min is None or record.workers_max is None:
            raise AnswerError(f"endpoints show {endpoint}: the service does not say how many workers it may have")
        return Bounds(record.workers_min, record.workers_max)

    async def set(self, endpoint: str, bounds: Bounds) -> None:
        """Makes them so."""
        await self._endpoints.update(endpoint, EndpointSpec(workers_min=bounds.least, workers_max=bounds.most))
