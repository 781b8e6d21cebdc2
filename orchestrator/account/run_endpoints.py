"""What runs need of an account: the ids of endpoints by their names, the bounds of their workers, and what those cost.

Where the URL of the older REST interface is that of the public service, the newer one is at its own address there; else
both are at the same one.
"""

from contextlib import suppress
from typing import Final

import msgspec

from orchestrator.account.endpoints.endpoints import EndpointClient, Endpoints, EndpointSpec
from orchestrator.account.endpoints.endpoints_rest import EndpointsV1, EndpointsV2
from orchestrator.account.endpoints.gpu_pools import gpu_types
from orchestrator.account.name_lookup import UnknownNameError, id_of
from orchestrator.account.transport.fallback import PUBLIC, InterfaceFallback
from orchestrator.account.transport.rest_client import Rest
from orchestrator.client import AnswerError, RefusedError, Service
from orchestrator.client.jobs.serverless import checked_id
from orchestrator.core.gates.costs import Price
from orchestrator.core.gates.scaling_override import Bounds
from orchestrator.core.service.account_interfaces import Interface, Noun
from orchestrator.errors import NotSent, StoppedError, Unanswered, UsageError

HOUR_S: Final = 3_600


class _Gpu(msgspec.Struct, rename="camel"):
    pools: list[str] = []
    excluded_types: list[str] = []
    count: int = 1


class _Endpoint(msgspec.Struct):
    gpu: _Gpu | None = None


class _Amounts(msgspec.Struct):
    serverless: float | None = None


class _Type(msgspec.Struct):
    id: str
    pool: str | None = None
    price: _Amounts = msgspec.field(default_factory=_Amounts)


_endpoint: Final = msgspec.json.Decoder(_Endpoint)


class RunEndpoints:
    """The endpoints of the account whose key `service` has, by the REST interfaces. Calls raise `OrchestratorError`."""

    def __init__(self, service: Service, rest_url: str) -> None:
        """`rest_url` is where REST v1 is. Raises `UsageError` for a URL that is none."""
        is_public = rest_url.rstrip("/") == PUBLIC[Interface.V1]
        self._service = service
        self._newer = Rest(service, PUBLIC[Interface.V2] if is_public else rest_url)
        forms: list[EndpointClient] = [EndpointsV2(self._newer), EndpointsV1(Rest(service, rest_url))]
        self._endpoints = Endpoints(InterfaceFallback(Noun.ENDPOINTS, Interface.AUTO, forms))

    async def id_of(self, given: str) -> str:
        """As `find_endpoint_id`."""
        return await find_endpoint_id(given, self._endpoints, self._service)

    async def bounds(self, endpoint: str) -> Bounds:
        """How many workers it may have."""
        record = await self._endpoints.show(endpoint)
        if record.workers_min is None or record.workers_max is None:
            raise AnswerError(f"endpoints show {endpoint}: the service does not say how many workers it may have")
        return Bounds(record.workers_min, record.workers_max)

    async def set_bounds(self, endpoint: str, bounds: Bounds) -> None:
        """Sets how many it may have."""
        await self._endpoints.update(endpoint, EndpointSpec(workers_min=bounds.least, workers_max=bounds.most))

    async def timeout_ms(self, endpoint: str) -> int | None:
        """How long an execution may take whose job does not say; 0: as long as the service allows. None where that is
        not told.
        """
        return (await self._endpoints.show(endpoint)).execution_timeout_ms

    async def price(self, endpoint: str) -> Price | None:
        """What a second of a worker costs: the catalog's serverless price of its GPU, times how many a worker has.

        REST v2 alone tells both. The catalog's prices are for an hour of one GPU. An endpoint names pools in order of
        priority, and a worker may get any type of a pool that is not excluded: the dearest of the first one counts.
        None where the catalog tells of none: of CPUs, of a type that it does not have.
        """
        path = f"/v2/serverless/{checked_id(endpoint, 'endpoint')}"
        gpu = (await self._newer.get(f"endpoints show {endpoint}", path, _endpoint.decode)).gpu
        if gpu is None or not gpu.pools:
            return None
        types = await gpu_types(self._newer, _Type)
        wanted = [each for each in types if each.pool == gpu.pools[0] and each.id not in gpu.excluded_types]
        priced = [(each.price.serverless, each.id) for each in wanted if each.price.serverless is not None]
        if not priced:
            return None
        amount, name = max(priced)
        each = f"{gpu.count} {name}" if gpu.count > 1 else name
        return Price(amount * gpu.count / HOUR_S, f"as the catalog says of {each}")


async def find_endpoint_id(given: str, endpoints: Endpoints, service: Service) -> str:
    """The id of the endpoint that is called `given`, or has that id. Raises `UsageError`, and `StoppedError` where
    nobody can say.

    What the account does not have may still be an id: of an endpoint that is everybody's, or of an emulator's.
    """
    try:
        return id_of("endpoint", given, await endpoints.list())
    except (UnknownNameError, RefusedError) as error:
        why = error
    except (NotSent, Unanswered) as error:
        raise StoppedError(str(error)) from None
    with suppress(RefusedError, UsageError, NotSent, Unanswered):
        await service.endpoint(given).health()
        return given
    if isinstance(why, UnknownNameError):
        raise why
    raise StoppedError(f"the endpoint {given:.80}: {why}; the endpoint's id needs no list") from None
