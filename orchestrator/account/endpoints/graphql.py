"""Endpoints by GraphQL (as observed): `myself { endpoints }`, `saveEndpoint`, `deleteEndpoint`.

An endpoint is saved as a whole. So one that is changed is read first, and what was not said is sent as it was.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from orchestrator.account.endpoints.endpoints import EndpointRecord, Fields, WorkerRecord, read_endpoint
from orchestrator.account.endpoints.gpu_pools import are_pools
from orchestrator.account.templates.templates import Losing
from orchestrator.account.transport.fallback import USE_V2, CannotSayError
from orchestrator.account.transport.graphql import ByGraphQL, EnumWord, GraphQLError, literal, read_nothing
from orchestrator.account.transport.logs import Log
from orchestrator.client.jobs.refusals import Refusal
from orchestrator.core.service.account_interfaces import Interface

_FIELDS: Final = "id name templateId gpuIds idleTimeout workersMin workersMax createdAt"

_MORE: Final = (
    *("gpuCount", "networkVolumeId", "locations", "scalerType", "scalerValue", "allowedCudaVersions"),
    *("flashBootType", "executionTimeoutMs"),
)
"""What else the mutation takes, and a save would reset. Not every service shows all of it."""

_SENT: Final = frozenset(
    {*_MORE, "id", "name", "templateId", "gpuIds", "idleTimeout", "workersMin", "workersMax", "type"}
)
"""All that the mutation takes."""

_JOINED: Final = {"dataCenterIds": "locations", "allowedCudaVersions": "allowedCudaVersions"}
"""Lists that are one text here, and its name."""


class _Saved(msgspec.Struct, frozen=True):
    endpoint: Mapping[str, Any] = msgspec.field(name="saveEndpoint")


class _Listed(msgspec.Struct, frozen=True):
    endpoints: tuple[Mapping[str, Any], ...]


class _Myself(msgspec.Struct, frozen=True):
    myself: _Listed


_saved: Final = msgspec.json.Decoder(_Saved).decode
_myself: Final = msgspec.json.Decoder(_Myself).decode


class EndpointsGraphQL(ByGraphQL):
    """The account's endpoints, by GraphQL."""

    async def create(self, fields: Fields) -> EndpointRecord:
        wanted = _input(fields)
        if "name" not in wanted:
            raise CannotSayError(Interface.GRAPHQL, "an endpoint without a name", "give it one")
        return await self._save("endpoints create", wanted)

    async def list(self, limit: int | None) -> tuple[EndpointRecord, ...]:
        doing = "endpoints list"
        records, _ = await self._all(doing)
        return tuple(_record(doing, record) for record in records[:limit])

    async def show(self, endpoint_id: str) -> EndpointRecord:
        doing = f"endpoints show {endpoint_id}"
        record, _ = await self._one(doing, endpoint_id)
        return _record(doing, record)

    async def update(self, endpoint_id: str, fields: Fields, losing: Losing) -> EndpointRecord:
        doing = f"endpoints update {endpoint_id}"
        wanted = _input(fields)
        present, hidden = await self._one(doing, endpoint_id)
        unknown = [name for name in hidden if name not in wanted]
        if unknown:
            losing(f"endpoint {endpoint_id}: the service does not show {', '.join(unknown)}; a save may reset that")
        kept = {name: value for name, value in present.items() if name in _SENT and value is not None}
        return await self._save(doing, {**kept, **wanted})

    async def delete(self, endpoint_id: str) -> None:
        """One that may have workers is not deleted; so there may be none any more, first."""
        doing = f"endpoints delete {endpoint_id}"
        present, _ = await self._one(doing, endpoint_id)
        kept = {name: value for name, value in present.items() if name in _SENT and value is not None}
        await self._save(doing, {**kept, "workersMin": 0, "workersMax": 0})
        await self._graphql.ask(doing, f"mutation {{ deleteEndpoint(id: {literal(endpoint_id)}) }}", read_nothing)

    async def workers(self, endpoint_id: str) -> tuple[WorkerRecord, ...]:
        raise CannotSayError(Interface.GRAPHQL, f"which workers {endpoint_id} has", USE_V2)

    def log(self, endpoint_id: str, worker_id: str) -> Log:
        raise CannotSayError(Interface.GRAPHQL, f"what worker {worker_id} of {endpoint_id} has printed", USE_V2)

    async def _save(self, doing: str, wanted: Mapping[str, Any]) -> EndpointRecord:
        given = {name: EnumWord(value) if name == "flashBootType" else value for name, value in wanted.items()}
        query = f"mutation {{ saveEndpoint(input: {literal(given)}) {{ {_FIELDS} }} }}"
        saved = (await self._graphql.ask(doing, query, _saved)).endpoint
        return _record(doing, {**{name: value for name, value in wanted.items() if name in _MORE}, **saved})

    async def _one(self, doing: str, endpoint_id: str) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        records, hidden = await self._all(doing)
        found = next((record for record in records if record.get("id") == endpoint_id), None)
        if found is None:
            raise GraphQLError(doing, Refusal(status=404, title="Not Found", detail="endpoint not found"))
        return found, hidden

    async def _all(self, doing: str) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...]]:
        """All records, and the names of what the service does not show of them."""
        head = f"query {{ myself {{ endpoints {{ {_FIELDS} %s }} }} }}"
        listed, hidden = await self._graphql.ask_known(doing, head, _MORE, _myself)
        return listed.myself.endpoints, hidden


def _input(fields: Fields) -> dict[str, Any]:
    """`fields` in the words of the mutation. Raises `CannotSayError`."""
    wanted = dict(fields)
    gpus = wanted.pop("gpuTypeIds", None)
    if gpus is not None:
        if types := [each for each in gpus if each not in are_pools(gpus)]:
            raise CannotSayError(
                Interface.GRAPHQL,
                f"the GPU type {types[0]}",
                f"name pools of types, as AMPERE_24, or {USE_V2}",
            )
        wanted["gpuIds"] = ",".join(gpus)
    for name, joined in _JOINED.items():
        if isinstance(wanted.get(name), list | tuple):
            wanted[joined] = ",".join(wanted.pop(name))
    if "flashboot" in wanted:
        flashboot = wanted.pop("flashboot")
        wanted["flashBootType"] = {True: "FLASHBOOT", False: "OFF"}.get(flashboot, flashboot)
    for name in wanted:
        if name not in _SENT:
            raise CannotSayError(Interface.GRAPHQL, name)
    return wanted


def _record(doing: str, record: Mapping[str, Any]) -> EndpointRecord:
    gpus = [each.strip() for each in str(record.get("gpuIds") or "").split(",") if each.strip()]
    fields = {**record, "gpuTypeIds": gpus}
    return read_endpoint(doing, {name: value for name, value in fields.items() if value is not None}, record)
