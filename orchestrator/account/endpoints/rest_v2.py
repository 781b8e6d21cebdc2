"""Endpoints by REST v2, `/v2/serverless` (as observed).

An endpoint is created from a copy of its template; a PATCH changes what it names. Time-outs that are not said are the
service's: 300 s for an execution and 10 s for an idle worker, not the 600 s and 5 s of REST v1.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from orchestrator.account.endpoints.endpoints import EndpointRecord, Fields, WorkerRecord, read_endpoint
from orchestrator.account.endpoints.gpu_pools import GpuPools
from orchestrator.account.templates.templates import Losing, warn_of_lost_variables
from orchestrator.account.transport.fallback import CannotSayError
from orchestrator.account.transport.logs import Log
from orchestrator.account.transport.rest import ByRest, Rest, decode_answer, encode_body, read_object
from orchestrator.client.jobs.refusals import AnswerError
from orchestrator.client.jobs.serverless import checked_id
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.core.service.answers import Answer
from orchestrator.core.service.records import known_members

_PATH: Final = "/v2/serverless"

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

_one: Final = msgspec.json.Decoder(dict[str, Any]).decode


class EndpointsV2(ByRest):
    """`/v2/serverless`."""

    interface = Interface.V2
    path = _PATH

    def __init__(self, rest: Rest) -> None:
        super().__init__(rest)
        self._gpus = GpuPools(rest)

    async def create(self, fields: Fields) -> EndpointRecord:
        doing = "endpoints create"
        body = await self._body({"scalerType": "QUEUE_DELAY", **fields}, None)
        if "gpu" not in body and "cpu" not in body:
            raise CannotSayError(Interface.V2, "an endpoint without a choice of GPUs", "name GPU types or pools")
        if "name" not in body:
            body["name"] = await self._name_of(str(fields["templateId"]))
        answer = await self._rest.post(doing, _PATH, encode_body({"type": "QUEUE", **body}))
        return await self._record(doing, answer, changed=True)

    async def list(self, limit: int | None) -> tuple[EndpointRecord, ...]:
        doing = "endpoints list"
        records = await self._rest.all(doing, _PATH, "endpoints", read_object, limit=limit)
        return tuple([await self._read(doing, record) for record in records])

    async def show(self, endpoint_id: str) -> EndpointRecord:
        doing = f"endpoints show {endpoint_id}"
        return await self._record(doing, await self._rest.get(doing, f"{_PATH}/{endpoint_id}"))

    async def update(self, endpoint_id: str, fields: Fields, losing: Losing) -> EndpointRecord:
        doing, path = f"endpoints update {endpoint_id}", f"{_PATH}/{endpoint_id}"
        present: Mapping[str, Any] | None = None
        if "name" in fields:
            losing(f"endpoint {endpoint_id}: its template is renamed, too, to {fields['name']}-template")
        if fields.keys() & {"scalerType", "scalerValue", "env", "templateId"}:
            present = decode_answer(doing, await self._rest.get(doing, path), _one)
            _tell_lost(endpoint_id, present, fields, losing)
        answer = await self._rest.patch(doing, path, encode_body(await self._body(fields, present)))
        return await self._record(doing, answer, changed=True)

    async def delete(self, endpoint_id: str) -> None:
        await self._rest.delete(f"endpoints delete {endpoint_id}", f"{_PATH}/{endpoint_id}")

    async def workers(self, endpoint_id: str) -> tuple[WorkerRecord, ...]:
        doing = f"endpoints workers {endpoint_id}"
        records = await self._rest.all(doing, f"{_PATH}/{endpoint_id}/workers", "workers", read_object, in_pages=False)
        return tuple(_worker(doing, record) for record in records)

    def log(self, endpoint_id: str, worker_id: str) -> Log:
        async def is_over() -> bool:
            return all(worker.id != worker_id for worker in await self.workers(endpoint_id))

        path = f"{_PATH}/{endpoint_id}/workers/{worker_id}/logs"
        return Log(self._rest, f"endpoints logs {endpoint_id} {worker_id}", path, is_over)

    async def _name_of(self, template_id: str) -> str:
        """A new endpoint's name where nobody says one: its template's, as by REST v1."""
        doing, path = "endpoints create", f"/v2/templates/{checked_id(template_id, 'template')}"
        return str(decode_answer(doing, await self._rest.get(doing, path), _one).get("name") or template_id)

    async def _body(self, fields: Fields, present: Mapping[str, Any] | None) -> dict[str, Any]:
        """`fields` in the words of v2; `present` is the record of an endpoint that is changed."""
        body: dict[str, Any] = {}
        for name, value in fields.items():
            if name not in _APART:
                _put(body, _PLACES.get(name, (name,)), value)
        if fields.get("gpuTypeIds"):
            _put(body, ("gpu",), await self._gpus.wanted(fields["gpuTypeIds"]))
        if "networkVolumeId" in fields:
            _put(body, ("networkVolumes",), [fields["networkVolumeId"]] if fields["networkVolumeId"] else [])
        if "flashboot" in fields:
            words = {True: "FLASHBOOT", False: "OFF"}
            _put(body, ("flashboot",), words.get(fields["flashboot"], fields["flashboot"]))
        if fields.get("computeType") == "CPU" or "cpuFlavorIds" in fields:
            cpus = [
                {"id": each, "vcpuCount": fields.get("vcpuCount", _VCPUS)} for each in fields.get("cpuFlavorIds", ())
            ]
            _put(body, ("cpu",), cpus)
        if fields.keys() & {"scalerType", "scalerValue"} and "scaling" not in fields:
            _put(body, ("scaling",), _scaling(fields, (present or {}).get("scaling") or {}))
        _check(body, present)
        return body

    async def _record(self, doing: str, answer: Answer, *, changed: bool = False) -> EndpointRecord:
        return await self._read(doing, decode_answer(doing, answer, _one, changed=changed))

    async def _read(self, doing: str, record: Mapping[str, Any]) -> EndpointRecord:
        gpu, workers = _members(record, "gpu"), _members(record, "workers")
        fields = {
            "id": record.get("id"),
            "name": record.get("name"),
            "gpuTypeIds": await self._gpus.shown(gpu),
            "gpuCount": gpu.get("count"),
            "workersMin": workers.get("min"),
            "workersMax": workers.get("max"),
            "idleTimeout": workers.get("idleTimeout"),
            "executionTimeoutMs": record.get("timeout"),
            "createdAt": record.get("createdAt"),
        }
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


def _check(body: Mapping[str, Any], present: Mapping[str, Any] | None) -> None:
    """Raises `CannotSayError` for what the service would refuse, however it is written."""
    scaling = _members(body, "scaling") or _members(present or {}, "scaling")
    kind = body.get("type") or (present or {}).get("type") or "QUEUE"
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


def _worker(doing: str, raw: Mapping[str, Any]) -> WorkerRecord:
    known, _ = known_members(WorkerRecord, raw)
    if "id" not in known:
        raise AnswerError(f"{doing}: the service answered with a worker that has no id")
    return WorkerRecord(**known, raw=raw)
