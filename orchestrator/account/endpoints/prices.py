"""What a second of an endpoint's worker costs: the catalog's serverless price of its GPU, times how many a worker has.

REST v2 alone tells both. The catalog's prices are for an hour of one GPU. An endpoint names pools in order of priority,
and a worker may get any type of a pool that is not excluded: the dearest of the first one counts.
"""

from typing import Final

import msgspec

from orchestrator.account.endpoints.gpu_pools import gpu_types
from orchestrator.account.transport.rest import Rest, decode_answer
from orchestrator.client import Service
from orchestrator.client.jobs.serverless import checked_id, service_url
from orchestrator.core.gates.costs import Price
from orchestrator.settings.values import BASE_URL_DEFAULT, REST_URL_DEFAULT

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


class EndpointPrices:
    """Of the account's endpoints. Calls raise `OrchestratorError`."""

    def __init__(self, service: Service, rest_url: str) -> None:
        """`service` has the key, `rest_url` is where the older interface is; v2 is at its own address at the public
        service, and elsewhere at the same one. Raises `UsageError` for a URL that is none.
        """
        url = service_url(BASE_URL_DEFAULT if rest_url.rstrip("/") == REST_URL_DEFAULT else rest_url)
        self._rest = Rest(url, service.headers, service.transport_to(url), service.clock)

    async def per_second(self, endpoint: str) -> Price | None:
        """None where the catalog tells of none: of CPUs, of a type that it does not have."""
        doing = f"endpoints show {endpoint}"
        answer = await self._rest.get(doing, f"/v2/serverless/{checked_id(endpoint, 'endpoint')}")
        gpu = decode_answer(doing, answer, _endpoint.decode).gpu
        if gpu is None or not gpu.pools:
            return None
        types = await gpu_types(self._rest, _Type)
        wanted = [each for each in types if each.pool == gpu.pools[0] and each.id not in gpu.excluded_types]
        priced = [(each.price.serverless, each.id) for each in wanted if each.price.serverless is not None]
        if not priced:
            return None
        amount, name = max(priced)
        each = f"{gpu.count} {name}" if gpu.count > 1 else name
        return Price(amount * gpu.count / HOUR_S, f"as the catalog says of {each}")
