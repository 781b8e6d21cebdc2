"""Endpoints, as a pure world: made from templates, listed, changed and deleted (contract, Endpoint; as observed).

A new endpoint answers 404 on the job API until it has propagated. Queues and workers are somebody else's: `deployed` is
called with every endpoint that was made or changed, `removed` with the id of one that is deleted, whose jobs end then.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from orchestrator.emulator.account.templates import ServiceTemplate, TemplateStore
from orchestrator.emulator.contract.answers import ServiceRefusal, converted
from orchestrator.emulator.contract.gpu_catalog import types_of
from orchestrator.emulator.contract.ids_and_times import iso_time, resource_id
from orchestrator.emulator.jobs.fleet import WorkerView

NAME_LENGTH_MAX = 191
IDLE_TIMEOUT_S_MAX = 3600

LOAD_BALANCER = "LOAD_BALANCER"

LEAKED_KEY = "rpa_EMULATEDKEYOFAWORKER"
"""The service shows a worker's key to whoever lists workers: what a client should not pass on."""


Changes = Mapping[str, object]
"""What a create or an update says, in the words of v1. Whatever is no setting of an endpoint is ignored; what is not
said, or None, takes its default, or at an update stays.
"""


class CpuChoice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Workers without GPUs: so many vCPUs of this flavor."""

    id: Annotated[str, msgspec.Meta(min_length=1)]
    vcpu_count: Annotated[int, msgspec.Meta(ge=2)]


class Release(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One version of what an endpoint's workers start from. Workers of the emulator are never behind the newest."""

    id: str
    version: int
    created_at: str
    worker_count: int
    diff: tuple[Mapping[str, object], ...]
    """`field`, `old` and `new` of whatever is not as in the one before."""
    source: str = "MANUAL"
    build_id: str | None = None
    created_by_user_id: str | None = "user_emulated"


class ServiceEndpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An endpoint as it is shown. The defaults are those of the public interface."""

    id: str
    created_at: str
    name: str = ""
    template_id: str
    gpu_type_ids: tuple[str, ...] = ()
    gpu_count: int = 1
    workers_min: int = 0
    workers_max: int = 3
    idle_timeout: int = 5
    """Seconds."""
    execution_timeout_ms: int = 600_000
    scaler_type: Literal["QUEUE_DELAY", "REQUEST_COUNT"] = "QUEUE_DELAY"
    scaler_value: int | float = 4
    compute_type: Literal["GPU", "CPU"] = "GPU"
    data_center_ids: tuple[str, ...] = ()
    flashboot: bool = False
    network_volume_id: str | None = None
    network_volume_ids: tuple[str, ...] = ()
    allowed_cuda_versions: tuple[str, ...] = ()
    min_cuda_version: str | None = None
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    """As the template has it: secrets unresolved."""
    user_id: str = "user_emulated"
    version: int = 0
    type: str = "QUEUE"
    has_priority: bool = False
    """Of its flashboot."""
    cpu: tuple[CpuChoice, ...] = ()

    @property
    def is_balanced(self) -> bool:
        """Whether requests go straight to its workers: it has no queue."""
        return self.type == LOAD_BALANCER


_SETTINGS = frozenset(field.encode_name for field in msgspec.structs.fields(ServiceEndpoint)) - {
    *("id", "createdAt", "env", "userId", "version")
}

V2_ONLY = ("type", "hasPriority", "cpu")
"""What the older interfaces neither take nor show."""


def parse_endpoint(body: bytes) -> Changes:
    """The body of a create or an update. Raises Refusal 400."""
    return {name: value for name, value in converted(body, dict[str, Any]).items() if name not in V2_ONLY}


class EndpointStore:
    """The endpoints that were created. `gpus` are the types in stock; None has all of them."""

    def __init__(
        self,
        templates: TemplateStore,
        rng: random.Random,
        *,
        propagation_us: int,
        gpus: Collection[str] | None = None,
        deployed: Callable[[ServiceEndpoint], None] = lambda _: None,
        removed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._templates = templates
        self._rng = rng
        self._propagation_us = propagation_us
        self._gpus = gpus
        self._deployed = deployed
        self._removed = removed
        self._endpoints: dict[str, ServiceEndpoint] = {}
        self._serves_from: dict[str, int] = {}
        self._releases: dict[str, list[Release]] = {}

    def create(
        self,
        wanted: Changes,
        now: int,
        *,
        own: ServiceTemplate | None = None,
    ) -> ServiceEndpoint:
        """From a template, or from one that is to be its `own`. Raises Refusal 400 for a broken rule, an unknown
        template included.
        """
        template_id = wanted.get("templateId") if own is None else own.id
        if template_id is None:
            raise ServiceRefusal(400, "templateId is required")
        endpoint_id = resource_id(self._rng)
        endpoint = ServiceEndpoint(id=endpoint_id, created_at=iso_time(now), template_id=str(template_id))
        endpoint = self._changed(endpoint, wanted, own)
        if own is not None:
            self._templates.bind(own)
        self._templates.use(endpoint.template_id, endpoint_id)
        self._endpoints[endpoint_id] = endpoint
        self._serves_from[endpoint_id] = now + self._propagation_us
        self._releases[endpoint_id] = [self._release(endpoint, None, None, now)]
        self._deployed(endpoint)
        return endpoint

    def list(self) -> Sequence[ServiceEndpoint]:
        """All of them, oldest first."""
        return tuple(self._endpoints.values())

    def find(self, endpoint_id: str) -> ServiceEndpoint:
        """Raises Refusal 404."""
        endpoint = self._endpoints.get(endpoint_id)
        if endpoint is None:
            raise ServiceRefusal(404, "endpoint not found")
        return endpoint

    def update(
        self,
        endpoint_id: str,
        wanted: Changes,
        now: int,
        *,
        template: ServiceTemplate | None = None,
    ) -> ServiceEndpoint:
        """Changes what is given; `template` is the one that it has, changed. Raises Refusal 404 or 400."""
        before = self.find(endpoint_id)
        present = self._templates.find(before.template_id)
        after = self._changed(before, wanted, template)
        after = msgspec.structs.replace(after, version=before.version + 1)
        if template is not None:
            keep = self._templates.bind if self._templates.is_bound(template.id) else self._templates.put
            keep(template)
        if after.template_id != before.template_id:
            self._templates.use(after.template_id, endpoint_id)
            self._templates.release(before.template_id, endpoint_id, now)
        self._endpoints[endpoint_id] = after
        release = self._release(after, present, before, now)
        if release.diff:
            self._releases[endpoint_id].append(release)
        self._deployed(after)
        return after

    def delete(self, endpoint_id: str, now: int) -> None:
        """Its jobs end with it. Raises Refusal 404."""
        endpoint = self.find(endpoint_id)
        self._removed(endpoint_id)
        self._templates.release(endpoint.template_id, endpoint_id, now)
        self._templates.unbind(endpoint.template_id)
        del self._endpoints[endpoint_id]
        del self._serves_from[endpoint_id]
        del self._releases[endpoint_id]

    def releases(self, endpoint_id: str) -> Sequence[Release]:
        """The versions of what its workers start from, oldest first. Raises Refusal 404."""
        return tuple(self._releases[self.find(endpoint_id).id])

    def _release(
        self, after: ServiceEndpoint, was: ServiceTemplate | None, before: ServiceEndpoint | None, now: int
    ) -> Release:
        template = self._templates.find(after.template_id)
        old = {} if was is None or before is None else _started_from(before, was)
        new = {} if template is None else _started_from(after, template)
        return Release(
            id=resource_id(self._rng),
            version=after.version,
            created_at=iso_time(now),
            worker_count=after.workers_max,
            diff=tuple(
                {"field": name, "old": old.get(name), "new": value}
                for name, value in new.items()
                if name not in old or old[name] != value
            ),
        )

    def serves(self, endpoint_id: str, now: int) -> bool:
        """Whether the job API knows the endpoint by now."""
        serves_from = self._serves_from.get(endpoint_id)
        return serves_from is not None and now >= serves_from

    def propagates(self, endpoint_id: str, now: int) -> bool:
        """Whether the endpoint was created and the job API does not know it yet."""
        return endpoint_id in self._endpoints and not self.serves(endpoint_id, now)

    def balances(self, endpoint_id: str) -> bool:
        """Whether the endpoint was created as a load balancing one."""
        endpoint = self._endpoints.get(endpoint_id)
        return endpoint is not None and endpoint.is_balanced

    def template_of(self, endpoint_id: str) -> ServiceTemplate | None:
        """What the endpoint's workers start from."""
        endpoint = self._endpoints.get(endpoint_id)
        return None if endpoint is None else self._templates.find(endpoint.template_id)

    def environment_of(self, endpoint_id: str) -> dict[str, str]:
        """What a worker of the endpoint finds in its environment, secrets resolved; empty where nothing is known."""
        template = self.template_of(endpoint_id)
        return {} if template is None else self._templates.resolve_environment(template)

    def gpu_of(self, endpoint_id: str) -> str | None:
        """The GPU type that its next worker gets: the first choice that is in stock (contract, `gpuTypeIds`).

        None: none of them is, so no worker can start. Without a choice any type will do.
        """
        choices = types_of(self.find(endpoint_id).gpu_type_ids) or tuple(self._gpus or ("NVIDIA GeForce RTX 4090",))
        return next((choice for choice in choices if self._gpus is None or choice in self._gpus), None)

    def _changed(
        self, endpoint: ServiceEndpoint, wanted: Changes, template: ServiceTemplate | None = None
    ) -> ServiceEndpoint:
        given = {name: value for name, value in wanted.items() if name in _SETTINGS and value is not None}
        after = converted({**msgspec.to_builtins(endpoint), **given}, ServiceEndpoint)
        template = template or self._templates.find(after.template_id)
        if template is None or not template.is_serverless:
            raise ServiceRefusal(400, "template not found, or not a serverless template")
        _check(after)
        return msgspec.structs.replace(after, name=after.name or template.name, env=template.variables)


def _started_from(endpoint: ServiceEndpoint, template: ServiceTemplate) -> dict[str, object]:
    """What makes another release once it changes (as published: image and variables, not scaling)."""
    return {"image": template.image_name, "args": template.docker_args, "env": endpoint.env}


def _check(endpoint: ServiceEndpoint) -> None:
    if len(endpoint.name) > NAME_LENGTH_MAX:
        raise ServiceRefusal(400, f"name must have at most {NAME_LENGTH_MAX} characters")
    if not 0 <= endpoint.workers_min <= endpoint.workers_max:
        raise ServiceRefusal(400, "workersMin must be between 0 and workersMax")
    if not 1 <= endpoint.idle_timeout <= IDLE_TIMEOUT_S_MAX:
        raise ServiceRefusal(400, f"idleTimeout must be between 1 and {IDLE_TIMEOUT_S_MAX} seconds")
    if endpoint.scaler_value <= 0 or endpoint.gpu_count < 1 or endpoint.execution_timeout_ms < 0:
        raise ServiceRefusal(400, "scalerValue, gpuCount or executionTimeoutMs is too small")


def shown_endpoint_v1(
    endpoint: ServiceEndpoint, template: ServiceTemplate | None = None, workers: Sequence[WorkerView] | None = None
) -> dict[str, Any]:
    """The record as it goes over the wire, with its template and its workers if asked for."""
    record: dict[str, Any] = msgspec.to_builtins(endpoint)
    for name in V2_ONLY:
        del record[name]
    if template is not None:
        record["template"] = msgspec.to_builtins(template)
    if workers is not None:
        record["workers"] = [_worker_shown(endpoint, worker) for worker in workers]
    return record


def _worker_shown(endpoint: ServiceEndpoint, worker: WorkerView) -> dict[str, Any]:
    """A worker is a pod of the public interface. Its environment shows its own key (as observed)."""
    return {
        "id": worker.id,
        "name": f"{endpoint.name} - {worker.id}",
        "endpointId": endpoint.id,
        "templateId": endpoint.template_id,
        "desiredStatus": "RUNNING",
        "lastStatusChange": "ready" if worker.is_ready else "initializing",
        "lastStartedAt": iso_time(worker.started_at),
        "gpu": {"id": next(iter(endpoint.gpu_type_ids), None), "count": endpoint.gpu_count},
        "env": {**endpoint.env, "RUNPOD_AI_API_KEY": LEAKED_KEY, "RUNPOD_ENDPOINT_ID": endpoint.id},
        "slsVersion": endpoint.version,
    }
