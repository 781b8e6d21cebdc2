"""Endpoints in the words of the REST interface v2 (as observed); kept are those of the older ones."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Literal

import msgspec

from orchestrator.emulator.account.endpoints import (
    LOAD_BALANCER,
    CpuChoice,
    EndpointInput,
    EndpointV2Fields,
    ServiceEndpoint,
)
from orchestrator.emulator.account.pod_bodies import TEXT, TEXTS, Container, checked
from orchestrator.emulator.account.pod_records import OMITTED, Omitted
from orchestrator.emulator.account.template_bodies import CONTAINER_FIELDS, shown_container
from orchestrator.emulator.account.templates import ServiceTemplate
from orchestrator.emulator.contract.gpu_catalog import in_pools, types_of, wanted_types
from orchestrator.emulator.contract.json_shape import Shape
from orchestrator.emulator.contract.problems import ProblemRefusal, invalid_problem

IDLE_TIMEOUT_S_DEFAULT = 10
TIMEOUT_MS_DEFAULT = 300_000
QUEUE_DELAY_S_MIN = 0.5

_ONE_OR_MORE = Shape(kind=list, items=Shape(kind=str, length_min=1), items_min=1)

SCALING = Shape(
    kind=dict,
    properties={
        "type": Shape(kind=str, one_of=("QUEUE_DELAY", "REQUEST_COUNT")),
        "queueDelay": Shape(kind=float, minimum=QUEUE_DELAY_S_MIN),
        "requestCount": Shape(kind=int, minimum=1),
    },
    required=("type",),
)

PATCH = Shape(
    kind=dict,
    properties={
        **CONTAINER_FIELDS,
        "name": Shape(kind=str, length_min=1),
        "templateId": TEXT,
        "scaling": SCALING,
        "gpu": Shape(
            kind=dict,
            properties={
                "pools": _ONE_OR_MORE,
                "excludedTypes": TEXTS,
                "count": Shape(kind=int, minimum=1),
                "allowedCudaVersions": TEXTS,
                "minCudaVersion": TEXT,
            },
        ),
        "cpu": Shape(
            kind=list,
            items_min=1,
            items=Shape(
                kind=dict,
                properties={"id": Shape(kind=str, length_min=1), "vcpuCount": Shape(kind=int, minimum=2)},
                required=("id", "vcpuCount"),
            ),
        ),
        "workers": Shape(
            kind=dict,
            properties={
                "min": Shape(kind=int, minimum=0),
                "max": Shape(kind=int, minimum=0),
                "idleTimeout": Shape(kind=int, minimum=1, maximum=3600),
            },
        ),
        "dataCenterIds": TEXTS,
        "networkVolumes": TEXTS,
        "timeout": Shape(kind=int, minimum=0),
        "flashboot": Shape(kind=str, one_of=("OFF", "FLASHBOOT", "PRIORITY_FLASHBOOT")),
    },
)
CREATE = msgspec.structs.replace(
    PATCH,
    properties={**(PATCH.properties or {}), "type": Shape(kind=str, one_of=("QUEUE", LOAD_BALANCER))},
    required=("name", "type", "scaling"),
)


class ScalingBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When workers are started."""

    type: Literal["QUEUE_DELAY", "REQUEST_COUNT"]
    queue_delay: float | None = None
    request_count: int | None = None


class GpuBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which GPUs, and how many for each worker."""

    pools: tuple[str, ...] | None = None
    excluded_types: tuple[str, ...] | None = None
    count: int | None = None
    allowed_cuda_versions: tuple[str, ...] | None = None
    min_cuda_version: str | None = None


class WorkersBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many workers, and for how many seconds one without a job is kept."""

    min: int | None = None
    max: int | None = None
    idle_timeout: int | None = None


class EndpointBody(Container, frozen=True, kw_only=True, rename="camel"):
    """The body of a create or an update."""

    name: str | None = None
    type: str = "QUEUE"
    scaling: ScalingBody | None = None
    gpu: GpuBody | None = None
    cpu: tuple[CpuChoice, ...] | None = None
    workers: WorkersBody = WorkersBody()
    data_center_ids: tuple[str, ...] | None = None
    network_volumes: tuple[str, ...] | None = None
    timeout: int | None = None
    flashboot: str | None = None

    @property
    def is_about_container(self) -> bool:
        """Whether it says anything of what the workers start from."""
        return any(getattr(self, field.name) is not OMITTED for field in msgspec.structs.fields(Container))


def parse_endpoint_v2(body: bytes, *, create: bool) -> EndpointBody:
    """The body of a create or an update. Raises Problem (400, 422)."""
    more = _of_creation if create else _of_update
    wanted = msgspec.convert(checked(body, CREATE if create else PATCH, more), EndpointBody)
    if create and (wanted.gpu is None) == (wanted.cpu is None):
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "exactly one of 'gpu' and 'cpu' must be given")
    return wanted


def _of_creation(value: Mapping[str, object]) -> Iterable[str]:
    wanted = msgspec.convert(value, EndpointBody)
    if isinstance(wanted.image, Omitted) and isinstance(wanted.template_id, Omitted):
        yield "$: missing property 'image'"
    if wanted.gpu is not None and wanted.gpu.pools is None:
        yield "$.gpu: missing property 'pools'"
    yield from _of_cpu(wanted)


def _of_update(value: Mapping[str, object]) -> Iterable[str]:
    wanted = msgspec.convert(value, EndpointBody)
    if wanted.gpu is not None and wanted.gpu.excluded_types is not None and wanted.gpu.pools is None:
        yield "$.gpu: missing property 'pools'"
    yield from _of_cpu(wanted)


def _of_cpu(wanted: EndpointBody) -> Iterable[str]:
    for index, each in enumerate(wanted.cpu or ()):
        if each.vcpu_count.bit_count() != 1:
            yield f"$.cpu[{index}].vcpuCount: got {each.vcpu_count}, want a power of two"


def endpoint_input_of(
    body: EndpointBody, before: ServiceEndpoint | None = None
) -> tuple[EndpointInput, EndpointV2Fields]:
    """What `body` says, in the older words. `before` None: of a new endpoint, with v2's defaults. Raises Problem."""
    newer = EndpointV2Fields(type=body.type) if before is None else before.newer
    scaler = _scaler(body, newer.type, before)
    if body.flashboot is not None:
        newer = msgspec.structs.replace(newer, has_priority=body.flashboot == "PRIORITY_FLASHBOOT")
    if body.cpu is not None:
        if before is not None and not newer.cpu:
            raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "a GPU endpoint cannot become a CPU endpoint")
        newer = msgspec.structs.replace(newer, cpu=body.cpu)
    is_new = before is None
    settings = EndpointInput(
        name=body.name,
        workers_min=body.workers.min,
        workers_max=body.workers.max,
        idle_timeout=body.workers.idle_timeout or (IDLE_TIMEOUT_S_DEFAULT if is_new else None),
        execution_timeout_ms=TIMEOUT_MS_DEFAULT if body.timeout is None and is_new else body.timeout,
        scaler_type=scaler.type if scaler else None,
        scaler_value=_value(scaler) if scaler else None,
        compute_type="CPU" if newer.cpu else None,
        data_center_ids=body.data_center_ids,
        flashboot=None if body.flashboot is None else body.flashboot != "OFF",
        network_volume_ids=body.network_volumes,
        **_gpu(body.gpu, newer),
    )
    return settings, newer


def _scaler(body: EndpointBody, kind: str, before: ServiceEndpoint | None) -> ScalingBody | None:
    scaling = body.scaling
    if scaling is not None:
        needed, other = ("queueDelay", "requestCount")[:: 1 if scaling.type == "QUEUE_DELAY" else -1]
        given = {"queueDelay": scaling.queue_delay, "requestCount": scaling.request_count}
        if given[needed] is None:
            raise invalid_problem([f"$.scaling: missing property '{needed}'"])
        if given[other] is not None:
            raise invalid_problem([f"$.scaling: additional properties '{other}' not allowed"])
    type_ = scaling.type if scaling else before.scaler_type if before else None
    if kind == LOAD_BALANCER and type_ == "QUEUE_DELAY":
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "a LOAD_BALANCER endpoint scales by REQUEST_COUNT")
    if kind == "QUEUE" and type_ == "REQUEST_COUNT" and body.workers.idle_timeout is not None:
        raise invalid_problem(["$.workers.idleTimeout: idleTimeout does not apply to REQUEST_COUNT scaling"])
    return scaling


def _value(scaling: ScalingBody) -> float | None:
    return scaling.queue_delay if scaling.type == "QUEUE_DELAY" else scaling.request_count


def _gpu(gpu: GpuBody | None, newer: EndpointV2Fields) -> dict[str, Any]:
    if gpu is None:
        return {}
    if newer.cpu:
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "a CPU endpoint cannot become a GPU endpoint")
    if gpu.allowed_cuda_versions and gpu.min_cuda_version:
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "allowedCudaVersions and minCudaVersion exclude each other")
    choices = None
    if gpu.pools is not None:
        choices = wanted_types(gpu.pools, gpu.excluded_types or ())
        if unknown := set(gpu.excluded_types or ()) - set(types_of(gpu.pools)):
            raise ProblemRefusal(HTTPStatus.BAD_REQUEST, f"excluded type is in none of the pools: {min(unknown)}")
    return {
        "gpu_type_ids": choices,
        "gpu_count": gpu.count,
        "allowed_cuda_versions": gpu.allowed_cuda_versions,
        "min_cuda_version": gpu.min_cuda_version,
    }


def shown_endpoint(endpoint: ServiceEndpoint, template: ServiceTemplate, base_url: str) -> dict[str, object]:
    """The record of v2: no template id and no version. `base_url` is where requests for a load balancing one go."""
    flashboot = "PRIORITY_FLASHBOOT" if endpoint.newer.has_priority else "FLASHBOOT"
    is_delay = endpoint.scaler_type == "QUEUE_DELAY"
    return {
        "id": endpoint.id,
        "name": endpoint.name,
        "type": endpoint.newer.type,
        **({"requestUrls": {"base": base_url, "health": f"{base_url}/ping"}} if endpoint.newer.is_balanced else {}),
        **shown_container(template),
        **({"cpu": _cpu(endpoint)} if endpoint.newer.cpu else {"gpu": _gpu_shown(endpoint)}),
        "workers": {
            "min": endpoint.workers_min,
            "max": endpoint.workers_max,
            "idleTimeout": endpoint.idle_timeout,
        },
        "scaling": {
            "type": endpoint.scaler_type,
            ("queueDelay" if is_delay else "requestCount"): endpoint.scaler_value,
        },
        "dataCenterIds": endpoint.data_center_ids,
        "networkVolumes": endpoint.network_volume_ids
        or ([endpoint.network_volume_id] if endpoint.network_volume_id else []),
        "timeout": endpoint.execution_timeout_ms,
        "flashboot": flashboot if endpoint.flashboot else "OFF",
        "createdAt": endpoint.created_at,
    }


def _gpu_shown(endpoint: ServiceEndpoint) -> dict[str, object]:
    pools, excluded = in_pools(endpoint.gpu_type_ids)
    return {
        "pools": pools,
        **({"excludedTypes": excluded} if excluded else {}),
        "count": endpoint.gpu_count,
        "allowedCudaVersions": endpoint.allowed_cuda_versions,
        "minCudaVersion": endpoint.min_cuda_version or None,
    }


def _cpu(endpoint: ServiceEndpoint) -> list[dict[str, object]]:
    return [{"id": each.id, "vcpuCount": each.vcpu_count, "memory": 4 * each.vcpu_count} for each in endpoint.newer.cpu]
