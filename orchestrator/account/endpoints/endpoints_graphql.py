"""Endpoints by GraphQL (as observed): `myself { endpoints }`, `saveEndpoint`, `deleteEndpoint`.

An endpoint is saved as a whole. So one that is changed is read first, and what was not said is sent as it was.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from orchestrator.account.endpoints.endpoints import (
    EndpointRecord,
    Fields,
    WorkerRecord,
    flashboot_word,
    read_endpoint,
)
from orchestrator.account.endpoints.gpu_pools import are_pools
from orchestrator.account.templates.templates import Losing
from orchestrator.account.transport.fallback import USE_V2, CannotSayError
from orchestrator.account.transport.graphql_client import ByGraphQL, EnumWord, GraphQLError, literal, read_at
from orchestrator.account.transport.logs import LogQuery, Tell
from orchestrator.client.jobs.refusals import Refusal
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.core.service.job_record import read_members

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


_listed: Final = partial(read_at, ("myself", "endpoints"), msgspec.json.Decoder(list[dict[str, Any]]).decode)


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
        kept, hidden = await self._kept(doing, endpoint_id)
        unknown = [name for name in hidden if name not in wanted]
        if unknown:
            losing(f"endpoint {endpoint_id}: the service does not show {', '.join(unknown)}; a save may reset that")
        return await self._save(doing, {**kept, **wanted})

    async def delete(self, endpoint_id: str) -> None:
        """One that may have workers is not deleted; so there may be none any more, first."""
        doing = f"endpoints delete {endpoint_id}"
        kept, _ = await self._kept(doing, endpoint_id)
        await self._save(doing, {**kept, "workersMin": 0, "workersMax": 0})
        await self._graphql.ask(doing, f"mutation {{ deleteEndpoint(id: {literal(endpoint_id)}) }}", read_members)

    async def workers(self, endpoint_id: str) -> tuple[WorkerRecord, ...]:
        raise CannotSayError(Interface.GRAPHQL, f"which workers {endpoint_id} has", USE_V2)

    async def read_log(self, endpoint_id: str, worker_id: str, query: LogQuery, tell: Tell) -> None:  # noqa: ARG002  it is not read
        raise CannotSayError(Interface.GRAPHQL, f"what worker {worker_id} of {endpoint_id} has printed", USE_V2)

    async def _save(self, doing: str, wanted: Mapping[str, Any]) -> EndpointRecord:
        given = {name: EnumWord(value) if name == "flashBootType" else value for name, value in wanted.items()}
        saved = await self._graphql.change(doing, "saveEndpoint", given, _FIELDS, read_members)
        return _record(doing, {**{name: value for name, value in wanted.items() if name in _MORE}, **saved})

    async def _kept(self, doing: str, endpoint_id: str) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """What a save has to say of the endpoint for it to stay as it is, and what the service does not show of it."""
        present, hidden = await self._one(doing, endpoint_id)
        return {name: value for name, value in present.items() if name in _SENT and value is not None}, hidden

    async def _one(self, doing: str, endpoint_id: str) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        records, hidden = await self._all(doing)
        found = next((record for record in records if record.get("id") == endpoint_id), None)
        if found is None:
            raise GraphQLError(doing, Refusal(status=404, title="Not Found", detail="endpoint not found"))
        return found, hidden

    async def _all(self, doing: str) -> tuple[Sequence[Mapping[str, Any]], tuple[str, ...]]:
        """All records, and the names of what the service does not show of them."""
        head = f"query {{ myself {{ endpoints {{ {_FIELDS} %s }} }} }}"
        return await self._graphql.ask_known(doing, head, _MORE, _listed)


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
        wanted["flashBootType"] = flashboot_word(wanted.pop("flashboot"))
    for name in wanted:
        if name not in _SENT:
            raise CannotSayError(Interface.GRAPHQL, name)
    return wanted


def _record(doing: str, record: Mapping[str, Any]) -> EndpointRecord:
    gpus = [each.strip() for each in str(record.get("gpuIds") or "").split(",") if each.strip()]
    fields = {**record, "gpuTypeIds": gpus}
    return read_endpoint(doing, {name: value for name, value in fields.items() if value is not None}, record)
