"""Endpoints by the REST interfaces, v2 (as observed) and v1 (contract, `POST {rest_url}/v1/endpoints`; the other
operations as observed).

By v2 an endpoint is created from a copy of its template; a PATCH changes what it names. Time-outs that are not said are
the service's: 300 s for an execution and 10 s for an idle worker, not the 600 s and 5 s of v1.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from orchestrator.account.endpoints.endpoints import (
    EndpointRecord,
    Fields,
    WorkerRecord,
    flashboot_word,
    read_endpoint,
)
from orchestrator.account.endpoints.gpu_pools import GpuPools, are_pools
from orchestrator.account.templates.templates import Losing, warn_of_lost_variables
from orchestrator.account.transport.fallback import USE_V2, CannotSayError
from orchestrator.account.transport.logs import LogQuery, LogReading, Tell
from orchestrator.account.transport.rest_client import ByRest, Rest
from orchestrator.client.jobs.refusals import AnswerError
from orchestrator.client.jobs.serverless import checked_id
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.core.service.job_record import known_members, read_members


class _EndpointsRest(ByRest, ABC):
    """What both have in common."""

    async def create(self, fields: Fields) -> EndpointRecord:
        doing = "endpoints create"
        body = await self._new(fields)
        return await self._record(doing, await self._rest.post(doing, self.path, body, read_members))

    async def list(self, limit: int | None) -> tuple[EndpointRecord, ...]:
        doing = "endpoints list"
        records = await self._all(doing, "endpoints", read_members, limit)
        return tuple([await self._record(doing, record) for record in records])

    async def show(self, endpoint_id: str) -> EndpointRecord:
        doing = f"endpoints show {endpoint_id}"
        return await self._record(doing, await self._rest.get(doing, f"{self.path}/{endpoint_id}", read_members))

    async def update(self, endpoint_id: str, fields: Fields, losing: Losing) -> EndpointRecord:
        doing = f"endpoints update {endpoint_id}"
        body = await self._change(endpoint_id, fields, losing)
        return await self._record(
            doing, await self._rest.patch(doing, f"{self.path}/{endpoint_id}", body, read_members)
        )

    async def delete(self, endpoint_id: str) -> None:
        await self._rest.delete(f"endpoints delete {endpoint_id}", f"{self.path}/{endpoint_id}")

    @abstractmethod
    async def _new(self, fields: Fields) -> Fields:
        """The body that creates an endpoint. Raises `CannotSayError`."""

    @abstractmethod
    async def _change(self, endpoint_id: str, fields: Fields, losing: Losing) -> Fields:
        """The body that changes one. Raises `CannotSayError`."""

    async def _record(self, doing: str, record: Mapping[str, Any]) -> EndpointRecord:
        return read_endpoint(doing, record)


class EndpointsV1(_EndpointsRest):
    """`/v1/endpoints`."""

    interface = Interface.V1
    path = "/v1/endpoints"
    in_pages = False

    async def _new(self, fields: Fields) -> Fields:
        if pools := are_pools(fields.get("gpuTypeIds") or ()):
            raise CannotSayError(Interface.V1, f"the GPU pool {pools[0]}", f"name GPU types, or {USE_V2}")
        return fields

    async def _change(self, endpoint_id: str, fields: Fields, losing: Losing) -> Fields:  # noqa: ARG002  nothing is lost
        return await self._new(fields)

    async def workers(self, endpoint_id: str) -> tuple[WorkerRecord, ...]:
        raise CannotSayError(Interface.V1, f"which workers {endpoint_id} has, without their keys", USE_V2)

    async def read_log(self, endpoint_id: str, worker_id: str, query: LogQuery, tell: Tell) -> None:  # noqa: ARG002  it is not read
        raise CannotSayError(Interface.V1, f"what worker {worker_id} of {endpoint_id} has printed", USE_V2)


_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "gpuCount": ("gpu", "count"),
    "allowedCudaVersions": ("gpu", "allowedCudaVersions"),
    "minCudaVersion": ("gpu", "minCudaVersion"),
    "workersMin": ("workers", "min"),
    "workersMax": ("workers", "max"),
    "idleTimeout": ("workers", "idleTimeout"),
    "executionTimeoutMs": ("timeout",),
    "networkVolumeIds": ("networkVolumes",),
}
"""Where a field of REST v1 stands in v2. Names, templates and data centers are called the same."""

_APART: Final = frozenset(
    {
        "gpuTypeIds",
        "scalerType",
        "scalerValue",
        "flashboot",
        "networkVolumeId",
        "computeType",
        "cpuFlavorIds",
        "vcpuCount",
    }
)
"""Those for which a place is not all."""

_VALUE_OF: Final = {"QUEUE_DELAY": "queueDelay", "REQUEST_COUNT": "requestCount"}
_SCALER_VALUE: Final = 4
"""What REST v1 scales by where nobody says otherwise: seconds of delay, or requests for each worker."""

_VCPUS: Final = 2


class EndpointsV2(_EndpointsRest):
    """`/v2/serverless`."""

    interface = Interface.V2
    path = "/v2/serverless"

    def __init__(self, rest: Rest) -> None:
        super().__init__(rest)
        self._gpus = GpuPools(rest)

    async def _new(self, fields: Fields) -> Fields:
        body = await self._body({"scalerType": "QUEUE_DELAY", **fields}, {})
        if "gpu" not in body and "cpu" not in body:
            raise CannotSayError(Interface.V2, "an endpoint without a choice of GPUs", "name GPU types or pools")
        if "name" not in body:  # then it is called like its template, as by v1
            path = f"/v2/templates/{checked_id(str(fields['templateId']), 'template')}"
            template = await self._rest.get("endpoints create", path, read_members)
            body["name"] = str(template.get("name") or fields["templateId"])
        return {"type": "QUEUE", **body}

    async def _change(self, endpoint_id: str, fields: Fields, losing: Losing) -> Fields:
        present: Mapping[str, Any] = {}
        if "name" in fields:
            losing(f"endpoint {endpoint_id}: its template is renamed, too, to {fields['name']}-template")
        if fields.keys() & {"scalerType", "scalerValue", "env", "templateId"}:
            doing = f"endpoints update {endpoint_id}"
            present = await self._rest.get(doing, f"{self.path}/{endpoint_id}", read_members)
            _tell_lost(endpoint_id, present, fields, losing)
        return await self._body(fields, present)

    async def workers(self, endpoint_id: str) -> tuple[WorkerRecord, ...]:
        doing, path = f"endpoints workers {endpoint_id}", f"{self.path}/{endpoint_id}/workers"
        return tuple(await self._rest.all(doing, path, "workers", partial(_worker, doing), in_pages=False))

    async def read_log(self, endpoint_id: str, worker_id: str, query: LogQuery, tell: Tell) -> None:
        async def is_over() -> bool:
            return all(worker.id != worker_id for worker in await self.workers(endpoint_id))

        path = f"{self.path}/{endpoint_id}/workers/{worker_id}/logs"
        doing = f"endpoints logs {endpoint_id} {worker_id}"
        await LogReading(self._rest, doing, path, query, tell).read(is_over)

    async def _body(self, fields: Fields, present: Mapping[str, Any]) -> dict[str, Any]:
        """`fields` in the words of v2; `present` is the record of an endpoint that is changed."""
        body: dict[str, Any] = {}
        for name, value in fields.items():
            if name not in _APART:
                _put(body, _PLACES.get(name, (name,)), value)
        if fields.get("gpuTypeIds"):
            _put(body, ("gpu",), await self._gpus.wanted(fields["gpuTypeIds"]))
        if "networkVolumeId" in fields:
            body["networkVolumes"] = [fields["networkVolumeId"]] if fields["networkVolumeId"] else []
        if "flashboot" in fields:
            body["flashboot"] = flashboot_word(fields["flashboot"])
        if fields.get("computeType") == "CPU" or "cpuFlavorIds" in fields:
            vcpus = fields.get("vcpuCount", _VCPUS)
            body["cpu"] = [{"id": each, "vcpuCount": vcpus} for each in fields.get("cpuFlavorIds", ())]
        if fields.keys() & {"scalerType", "scalerValue"} and "scaling" not in fields:
            body["scaling"] = _scaling(fields, _members(present, "scaling"))
        _check(body, present)
        return body

    async def _record(self, doing: str, record: Mapping[str, Any]) -> EndpointRecord:
        fields: dict[str, Any] = {name: record.get(name) for name in ("id", "name", "createdAt")}
        fields["gpuTypeIds"] = await self._gpus.shown(_members(record, "gpu"))
        for name in ("gpuCount", "workersMin", "workersMax", "idleTimeout", "executionTimeoutMs"):
            *outer, last = _PLACES[name]
            fields[name] = (_members(record, outer[0]) if outer else record).get(last)
        return read_endpoint(doing, {name: value for name, value in fields.items() if value is not None}, record)


def _put(body: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
    *outer, last = place
    for name in outer:
        body = body.setdefault(name, {})
    present = body.get(last)
    body[last] = {**present, **value} if isinstance(present, dict) and isinstance(value, dict) else value


def _scaling(fields: Fields, present: Mapping[str, Any]) -> dict[str, Any]:
    kind = fields.get("scalerType") or present.get("type") or "QUEUE_DELAY"
    name = _VALUE_OF.get(kind, "queueDelay")
    return {"type": kind, name: fields.get("scalerValue") or present.get(name) or _SCALER_VALUE}


def _check(body: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    """Raises `CannotSayError` for what the service would refuse, however it is written."""
    scaling = _members(body, "scaling") or _members(present, "scaling")
    kind = body.get("type") or present.get("type") or "QUEUE"
    if kind == "QUEUE" and scaling.get("type") == "REQUEST_COUNT" and "idleTimeout" in _members(body, "workers"):
        raise CannotSayError(
            Interface.V2, "an idle time-out where REQUEST_COUNT scales a queue", "leave the idle time-out out"
        )


def _members(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object under `name`; empty where there is none."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _tell_lost(endpoint_id: str, present: Mapping[str, Any], fields: Fields, losing: Losing) -> None:
    if "templateId" in fields:
        losing(f"endpoint {endpoint_id}: its image, command, disk, variables and ports become those of the template")
    elif isinstance(fields.get("env"), dict):
        warn_of_lost_variables(f"endpoint {endpoint_id}", _members(present, "env"), fields["env"], losing)


def _worker(doing: str, body: bytes) -> WorkerRecord:
    raw = read_members(body)
    known, _ = known_members(WorkerRecord, raw)
    if "id" not in known:
        raise AnswerError(f"{doing}: the service answered with a worker that has no id")
    return WorkerRecord(**known, raw=raw)
