"""Endpoints by REST v1 (contract, `POST {rest_url}/v1/endpoints`; the other operations as observed)."""

from typing import Any, Final

import msgspec

from orchestrator.account.endpoints.endpoints import EndpointRecord, Fields, WorkerRecord, read_endpoint
from orchestrator.account.endpoints.gpu_pools import are_pools
from orchestrator.account.templates.templates import Losing
from orchestrator.account.transport.fallback import USE_V2, CannotSayError
from orchestrator.account.transport.logs import Log
from orchestrator.account.transport.rest import ByRest, decode_answer, encode_body, read_object
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.core.service.answers import Answer

_PATH: Final = "/v1/endpoints"

_one: Final = msgspec.json.Decoder(dict[str, Any]).decode


class EndpointsV1(ByRest):
    """`/v1/endpoints`."""

    interface = Interface.V1
    path = _PATH
    in_pages = False

    async def create(self, fields: Fields) -> EndpointRecord:
        doing = "endpoints create"
        return _record(doing, await self._rest.post(doing, _PATH, _body(fields)), changed=True)

    async def list(self, limit: int | None) -> tuple[EndpointRecord, ...]:
        doing = "endpoints list"
        records = await self._rest.all(doing, _PATH, "endpoints", read_object, limit=limit, in_pages=False)
        return tuple(read_endpoint(doing, record) for record in records)

    async def show(self, endpoint_id: str) -> EndpointRecord:
        doing = f"endpoints show {endpoint_id}"
        return _record(doing, await self._rest.get(doing, f"{_PATH}/{endpoint_id}"))

    async def update(self, endpoint_id: str, fields: Fields, losing: Losing) -> EndpointRecord:  # noqa: ARG002  nothing
        doing = f"endpoints update {endpoint_id}"
        answer = await self._rest.patch(doing, f"{_PATH}/{endpoint_id}", _body(fields))
        return _record(doing, answer, changed=True)

    async def delete(self, endpoint_id: str) -> None:
        await self._rest.delete(f"endpoints delete {endpoint_id}", f"{_PATH}/{endpoint_id}")

    async def workers(self, endpoint_id: str) -> tuple[WorkerRecord, ...]:
        raise CannotSayError(Interface.V1, f"which workers {endpoint_id} has, without their keys", USE_V2)

    def log(self, endpoint_id: str, worker_id: str) -> Log:
        raise CannotSayError(Interface.V1, f"what worker {worker_id} of {endpoint_id} has printed", USE_V2)


def _body(fields: Fields) -> bytes:
    if pools := are_pools(fields.get("gpuTypeIds") or ()):
        raise CannotSayError(Interface.V1, f"the GPU pool {pools[0]}", f"name GPU types, or {USE_V2}")
    return encode_body(fields)


def _record(doing: str, answer: Answer, *, changed: bool = False) -> EndpointRecord:
    return read_endpoint(doing, decode_answer(doing, answer, _one, changed=changed))
