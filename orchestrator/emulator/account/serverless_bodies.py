"""Endpoints in the words of the REST interface v2 (as observed); kept are those of the older ones."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Annotated

import msgspec

from orchestrator.emulator.account.endpoints import (
    LOAD_BALANCER,
    Changes,
    CpuChoice,
    ServiceEndpoint,
)
from orchestrator.emulator.account.pod_bodies import AtLeastOne, Container, Name, checked
from orchestrator.emulator.account.pod_records import OMITTED, Omitted
from orchestrator.emulator.account.template_bodies import shown_container
from orchestrator.emulator.account.templates import ServiceTemplate
from orchestrator.emulator.contract.answers import ProblemRefusal, invalid_problem
from orchestrator.emulator.contract.gpu_catalog import in_pools, types_of, wanted_types
from orchestrator.emulator.contract.json_shape import one_of

IDLE_TIMEOUT_S_DEFAULT = 10
TIMEOUT_MS_DEFAULT = 300_000

AtLeastZero = Annotated[int, msgspec.Meta(ge=0)]


class ScalingBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When workers are started."""

    type: Annotated[str, one_of("QUEUE_DELAY", "REQUEST_COUNT")]
    queue_delay: Annotated[float, msgspec.Meta(ge=0.5)] | Omitted = OMITTED
    request_count: AtLeastOne | Omitted = OMITTED


class GpuBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which GPUs, and how many for each worker."""

    pools: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1)] | Omitted = OMITTED
    excluded_types: tuple[str, ...] | Omitted = OMITTED
    count: AtLeastOne | Omitted = OMITTED
    allowed_cuda_versions: tuple[str, ...] | Omitted = OMITTED
    min_cuda_version: str | Omitted = OMITTED


class WorkersBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many workers, and for how many seconds one without a job is kept."""

    min: AtLeastZero | Omitted = OMITTED
    max: AtLeastZero | Omitted = OMITTED
    idle_timeout: Annotated[int, msgspec.Meta(ge=1, le=3600)] | Omitted = OMITTED


class EndpointBody(Container, frozen=True, kw_only=True, rename="camel"):
    """The body of an update; what it leaves out stays."""

    name: Name | Omitted = OMITTED
    template_id: str | Omitted = OMITTED
    scaling: ScalingBody | Omitted = OMITTED
    gpu: GpuBody | Omitted = OMITTED
    cpu: Annotated[tuple[CpuChoice, ...], msgspec.Meta(min_length=1)] | Omitted = OMITTED
    workers: WorkersBody = WorkersBody()
    data_center_ids: tuple[str, ...] | Omitted = OMITTED
    network_volumes: tuple[str, ...] | Omitted = OMITTED
    timeout: AtLeastZero | Omitted = OMITTED
    flashboot: Annotated[str, one_of("OFF", "FLASHBOOT", "PRIORITY_FLASHBOOT")] | Omitted = OMITTED

    @property
    def is_about_container(self) -> bool:
        """Whether it says anything of what the workers start from."""
        names = (*(field.name for field in msgspec.structs.fields(Container)), "template_id")
        return any(getattr(self, name) is not OMITTED for name in names)


class EndpointCreation(EndpointBody, frozen=True, kw_only=True, rename="camel"):
    """The body of a create."""

    name: Name
    type: Annotated[str, one_of("QUEUE", LOAD_BALANCER)]
    scaling: ScalingBody


def parse_endpoint_creation(body: bytes) -> EndpointCreation:
    """Raises Problem (400, 422)."""
    wanted = checked(body, EndpointCreation, _of_creation)
    if isinstance(wanted.gpu, Omitted) == isinstance(wanted.cpu, Omitted):
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "exactly one of 'gpu' and 'cpu' must be given")
    return wanted


def parse_endpoint_update(body: bytes) -> EndpointBody:
    """Raises Problem (400, 422)."""
    return checked(body, EndpointBody, _of_update)


def _of_creation(wanted: EndpointCreation) -> Iterable[str]:
    if isinstance(wanted.image, Omitted) and isinstance(wanted.template_id, Omitted):
        yield "$: missing property 'image'"
    if not isinstance(wanted.gpu, Omitted) and isinstance(wanted.gpu.pools, Omitted):
        yield "$.gpu: missing property 'pools'"
    yield from _of_cpu(wanted)


def _of_update(wanted: EndpointBody) -> Iterable[str]:
    gpu = wanted.gpu
    if not isinstance(gpu, Omitted) and isinstance(gpu.pools, Omitted) and not isinstance(gpu.excluded_types, Omitted):
        yield "$.gpu: missing property 'pools'"
    yield from _of_cpu(wanted)


def _of_cpu(wanted: EndpointBody) -> Iterable[str]:
    for index, each in enumerate(wanted.cpu or ()):
        if each.vcpu_count.bit_count() != 1:
            yield f"$.cpu[{index}].vcpuCount: got {each.vcpu_count}, want a power of two"


def changes_of(body: EndpointBody, before: ServiceEndpoint | None = None) -> Changes:
    """What `body` says, in the older words. `before` None: of a new endpoint, with v2's defaults. Raises Problem."""
    kind = body.type if isinstance(body, EndpointCreation) else before.type if before else OMITTED
    scaling = _scaling(body, kind, before)
    has_cpu = bool(before and before.cpu)
    if not isinstance(body.cpu, Omitted):
        if before is not None and not has_cpu:
            raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "a GPU endpoint cannot become a CPU endpoint")
        has_cpu = True
    said = {
        "name": body.name,
        "type": kind,
        "workersMin": body.workers.min,
        "workersMax": body.workers.max,
        "idleTimeout": body.workers.idle_timeout,
        "executionTimeoutMs": body.timeout,
        "computeType": "CPU" if has_cpu else OMITTED,
        "cpu": msgspec.to_builtins(body.cpu) if body.cpu else OMITTED,
        "dataCenterIds": body.data_center_ids,
        "flashboot": OMITTED if isinstance(body.flashboot, Omitted) else body.flashboot != "OFF",
        "hasPriority": OMITTED if isinstance(body.flashboot, Omitted) else body.flashboot == "PRIORITY_FLASHBOOT",
        "networkVolumeIds": body.network_volumes,
        **scaling,
        **_gpu(body.gpu, has_cpu=has_cpu),
    }
    defaults = {"idleTimeout": IDLE_TIMEOUT_S_DEFAULT, "executionTimeoutMs": TIMEOUT_MS_DEFAULT}
    changes = {name: value for name, value in said.items() if value is not OMITTED}
    return changes if before is not None else {**defaults, **changes}


def _scaling(body: EndpointBody, kind: str | Omitted, before: ServiceEndpoint | None) -> Changes:
    scaling, changes = body.scaling, {}
    if not isinstance(scaling, Omitted):
        given = {"queueDelay": scaling.queue_delay, "requestCount": scaling.request_count}
        needed, other = ("queueDelay", "requestCount")[:: 1 if scaling.type == "QUEUE_DELAY" else -1]
        if given[needed] is OMITTED:
            raise invalid_problem([f"$.scaling: missing property '{needed}'"])
        if given[other] is not OMITTED:
            raise invalid_problem([f"$.scaling: additional properties '{other}' not allowed"])
        changes = {"scalerType": scaling.type, "scalerValue": given[needed]}
    type_ = changes.get("scalerType", before and before.scaler_type)
    if kind == LOAD_BALANCER and type_ == "QUEUE_DELAY":
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "a LOAD_BALANCER endpoint scales by REQUEST_COUNT")
    if kind == "QUEUE" and type_ == "REQUEST_COUNT" and not isinstance(body.workers.idle_timeout, Omitted):
        raise invalid_problem(["$.workers.idleTimeout: idleTimeout does not apply to REQUEST_COUNT scaling"])
    return changes


def _gpu(gpu: GpuBody | Omitted, *, has_cpu: bool) -> Changes:
    if isinstance(gpu, Omitted):
        return {}
    if has_cpu:
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "a CPU endpoint cannot become a GPU endpoint")
    if gpu.allowed_cuda_versions and gpu.min_cuda_version:
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, "allowedCudaVersions and minCudaVersion exclude each other")
    choices: tuple[str, ...] | Omitted = OMITTED
    if not isinstance(gpu.pools, Omitted):
        choices = wanted_types(gpu.pools, gpu.excluded_types or ())
        if unknown := set(gpu.excluded_types or ()) - set(types_of(gpu.pools)):
            raise ProblemRefusal(HTTPStatus.BAD_REQUEST, f"excluded type is in none of the pools: {min(unknown)}")
    return {
        "gpuTypeIds": choices,
        "gpuCount": gpu.count,
        "allowedCudaVersions": gpu.allowed_cuda_versions,
        "minCudaVersion": gpu.min_cuda_version,
    }


def shown_endpoint(endpoint: ServiceEndpoint, template: ServiceTemplate, base_url: str) -> dict[str, object]:
    """The record of v2: no template id and no version. `base_url` is where requests for a load balancing one go."""
    flashboot = "PRIORITY_FLASHBOOT" if endpoint.has_priority else "FLASHBOOT"
    is_delay = endpoint.scaler_type == "QUEUE_DELAY"
    cpus = [{"id": each.id, "vcpuCount": each.vcpu_count, "memory": 4 * each.vcpu_count} for each in endpoint.cpu]
    return {
        "id": endpoint.id,
        "name": endpoint.name,
        "type": endpoint.type,
        **({"requestUrls": {"base": base_url, "health": f"{base_url}/ping"}} if endpoint.is_balanced else {}),
        **shown_container(template),
        **({"cpu": cpus} if cpus else {"gpu": _gpu_shown(endpoint)}),
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
