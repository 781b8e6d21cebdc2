"""The pods of the emulated service: what each is at a given time. Pure: `now` is an argument, chance is seeded.

A pod on its way (PROVISIONING, STARTING) gets on by itself when its time has come, and that is found out when somebody
looks. The rules are the contract's (States and transitions); what it does not show is a setting or stands here:

- A started pod is PROVISIONING first, like a new one (`PodSettings.started_as`).
- It gets its machine when provisioning ends, and keeps it while stopped.
- `locked` refuses `stop` and `restart` with 409 (there is no action called "reset"); `terminate` goes through.
- Members of a cluster take no action, modification or deletion: 409.
- A terminated pod is forgotten: 404.
- A modification never moves a pod to another status, and `template` stays the one that the pod was created from,
  whichever it took its values from since.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import assert_never

import msgspec

from orchestrator.emulator.account.pod_bodies import (
    Creation,
    Modification,
    PodGpuBody,
    PodGpuCreateBody,
    change_mounts,
    check_mounts,
    command_after,
    with_paths,
)
from orchestrator.emulator.account.pod_fates import drawn_fate
from orchestrator.emulator.account.pod_logs import CONTAINER, LogSelection, PodLogLine
from orchestrator.emulator.account.pod_records import (
    COMPUTING,
    OMITTED,
    VALID_ACTIONS,
    ClusterRecord,
    Omitted,
    PodPhase,
    PodRecord,
    PodVerb,
)
from orchestrator.emulator.account.pod_state import MEMORY_GB_PER_GPU, VCPUS_PER_GPU, PodState, record_of
from orchestrator.emulator.account.templates import ServiceTemplate, TemplateStore, blank_template
from orchestrator.emulator.contract.answers import ProblemRefusal, invalid_problem, not_found_problem
from orchestrator.emulator.contract.callers import QUOTAS, Caller, Quota
from orchestrator.emulator.contract.faults import Fault, FaultDice, Faults
from orchestrator.emulator.contract.ids_and_times import resource_id
from orchestrator.emulator.contract.paging import PAGE_MAX, Pages, Pagination
from orchestrator.units import SECOND_US

NO_CAPACITY = "There are no longer any instances available with the requested specifications."
"""The live service's words (as observed)."""


class PodSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How pods behave where the contract leaves it open."""

    provisioning_s: float = 3.0
    starting_s: float = 2.0
    booting_s: float = 0.0
    """How long after its start a container takes to listen at its ports."""
    started_as: PodPhase = PodPhase.PROVISIONING
    """The status that `start` answers with."""
    strict: bool = False
    """Whether what the service was seen to refuse is refused also where the contract is silent."""
    assumes_gpu_count: bool = False
    """Whether a GPU pod without `gpu.count` has one GPU, as the schema says; else no instance is found for it."""
    capacity: int | None = None
    """How many pods may compute at a time; beyond that 400, as for every lack of capacity."""
    balance: bool = True
    """False: creation is answered 402."""
    disk: int = 20
    """GB, where neither body nor template says."""
    callers: Mapping[str, Caller] | None = None
    """Who each key stands for; None has every key that the emulator takes be one user's."""
    quotas: Mapping[str, Quota] = QUOTAS
    page_max: int = PAGE_MAX
    """How many pods a page of the list holds at most."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a list."""

    pods: tuple[PodRecord, ...]
    pagination: Pagination | Omitted = OMITTED


class PodWorld:
    """All pods, of all accounts. Operations raise Problem; an id of another account is not found."""

    def __init__(self, settings: PodSettings, rng: random.Random, templates: TemplateStore) -> None:
        self.settings = settings
        self._templates = templates
        self._rng = rng
        self._pods: dict[str, PodState] = {}
        self.dice = FaultDice(Faults(), random.Random(0))  # noqa: S311
        """What befalls pods by faults: nothing, unless they are given the dice of the service."""

        self.on_stop: Callable[[str], None] = lambda _: None
        """Is told the id of a pod that runs no more."""

    def list(self, account: str, now: int, *, include_cluster_pods: bool = False) -> tuple[PodRecord, ...]:
        """The account's pods, oldest first; members of clusters only if asked for."""
        return tuple(
            self._record(self._advance(pod, now), now)
            for pod in self._of(account, now)
            if include_cluster_pods or pod.cluster is OMITTED
        )

    def page(self, account: str, now: int, query: Mapping[str, str], *, include_cluster_pods: bool = False) -> Listed:
        """The page of them that `query` asks for, newest first; the contract's form, without pages, where it asks for
        none and all fit on one. Members of clusters are left out after it was cut, so it may be shorter (as published).
        """
        part, pagination = Pages(self.settings.page_max).cut("pods", self._of(account, now), query)
        is_paged = pagination.has_next_page or not query.keys().isdisjoint(("limit", "cursor"))
        return Listed(
            pods=tuple(
                self._record(self._advance(pod, now), now)
                for pod in part
                if include_cluster_pods or pod.cluster is OMITTED
            ),
            pagination=pagination if is_paged else OMITTED,
        )

    def _of(self, account: str, now: int) -> Sequence[PodState]:
        return tuple(pod for pod in self._there(now).values() if pod.account == account)

    def _there(self, now: int) -> Mapping[str, PodState]:
        """Those that are there by `now`."""
        for pod in [pod for pod in self._pods.values() if pod.fate.has_vanished(now)]:
            self._forget(pod, now)
        return self._pods

    def get(self, account: str, pod_id: str, now: int) -> PodRecord:
        return self._record(self._pod(account, pod_id, now), now)

    def create(
        self, account: str, body: Creation, now: int, *, cluster: ClusterRecord | Omitted = OMITTED
    ) -> PodRecord:
        """A new pod. `cluster`: as a member of one, which no request can ask for here (the cluster operations do)."""
        if not self.settings.balance:
            raise ProblemRefusal(HTTPStatus.PAYMENT_REQUIRED, "insufficient balance")
        template = self._template(body.template_id)
        self._check_capacity(now)
        gpu = _counted(body.gpu, self.settings)
        args, command = command_after(body, template.docker_args)
        pod = PodState(
            id=resource_id(self._rng),
            account=account,
            name=body.name,
            image=template.image_name if isinstance(body.image, Omitted) else body.image,
            args=args,
            command=command,
            disk=template.container_disk_in_gb if isinstance(body.disk, Omitted) else body.disk,
            env={**template.variables, **(body.env or {})},
            ports=template.port_list if isinstance(body.ports, Omitted) else body.ports,
            registry=template.container_registry_auth_id if isinstance(body.registry, Omitted) else body.registry,
            mounts=with_paths(body.mounts),
            gpu=gpu,
            cpu=body.cpu,
            cloud=body.cloud,
            data_centers=body.data_center_ids,
            template=None if isinstance(body.template_id, Omitted) else body.template_id,
            networking=body.global_networking is True,
            cluster=cluster,
            created_at=now,
            status=PodPhase.PROVISIONING,
            status_at=now,
            fate=drawn_fate(self.dice, now),
        )
        self._pods[pod.id] = pod
        pod.write(now, f"pod created with image {pod.image}")
        if pod.template is not None:
            self._templates.use(pod.template, pod.id)
        return self._record(self._advance(pod, now), now)

    def modify(self, account: str, pod_id: str, body: Modification, now: int) -> PodRecord:
        pod = _free(self._pod(account, pod_id, now))
        template = None if isinstance(body.template_id, Omitted) else self._template(body.template_id)
        check_mounts(body.mounts, on_cpu=pod.cpu is not OMITTED)
        mounts = change_mounts(pod.mounts, body.mounts)
        pod.args, pod.command = command_after(body, pod.args if template is None else template.docker_args)
        pod.mounts = mounts
        if template is not None:
            pod.image, pod.disk, pod.ports = template.image_name, template.container_disk_in_gb, template.port_list
            pod.registry = template.container_registry_auth_id
            pod.env = {**template.variables, **(body.env or {})}
        elif not isinstance(body.env, Omitted):
            pod.env = body.env
        for field in ("name", "image", "disk", "ports", "registry", "locked"):
            if (value := getattr(body, field)) is not OMITTED:
                setattr(pod, field, value)
        if not isinstance(body.global_networking, Omitted):
            pod.networking = body.global_networking
        return self._record(pod, now)

    def delete(self, account: str, pod_id: str, now: int) -> None:
        """Forgets a pod; its resources are released."""
        self._forget(_free(self._pod(account, pod_id, now)), now)

    def act(self, account: str, pod_id: str, action: PodVerb, now: int) -> PodRecord | None:
        """Carries `action` out; None when the pod is gone by it. Raises Problem 409, and the pod is unchanged then."""
        pod = _free(self._pod(account, pod_id, now))
        valid = VALID_ACTIONS[pod.status]
        if action not in valid:
            raise _conflict(f"action '{action}' is not valid for status {pod.status}; valid: {', '.join(valid)}")
        if pod.locked and action in (PodVerb.STOP, PodVerb.RESTART):
            raise _conflict(f"pod is locked: '{action}' is prevented")
        match action:
            case PodVerb.TERMINATE:
                self._forget(pod, now)
                return None
            case PodVerb.START:
                self._check_capacity(now)
                pod.fate = drawn_fate(self.dice, now)
                self._move(pod, self.settings.started_as, now)
            case PodVerb.STOP:
                self._move(pod, PodPhase.EXITED, now)
            case PodVerb.RESTART:
                pod.files.clear()
                pod.started_at = now
                pod.write(now, "container restarted")
            case _:
                assert_never(action)
        return self._record(self._advance(pod, now), now)

    def listens(self, pod_id: str, port: int, now: int) -> bool | None:
        """Whether the server of a running pod is up that has this HTTP port; None: there is no such."""
        pod = self._there(now).get(pod_id)
        if pod is None or self._advance(pod, now).status is not PodPhase.RUNNING or f"{port}/http" not in pod.ports:
            return None
        return not pod.fate.is_mute and now >= (pod.started_at or now) + round(self.settings.booting_s * SECOND_US)

    def knows(self, pod_id: str) -> bool:
        """Whether there is such a pod, whoever's it is."""
        return pod_id in self._pods

    def exit(self, pod_id: str, now: int) -> None:
        """The container of a running pod ends by itself."""
        self._move(self._advance(self._pods[pod_id], now), PodPhase.EXITED, now)

    def fail(self, pod_id: str, now: int) -> None:
        """Something happens to the pod that only another `start` can mend."""
        self._move(self._advance(self._pods[pod_id], now), PodPhase.ERROR, now)

    def join(self, pod_id: str, cluster: ClusterRecord) -> None:
        """The pod is a member of a cluster from now on."""
        self._pods[pod_id].cluster = cluster

    def print(self, pod_id: str, text: str, now: int) -> None:
        """The container prints a line."""
        self._advance(self._pods[pod_id], now).write(now, text, source=CONTAINER)

    def log(self, account: str, pod_id: str, asked: LogSelection, now: int) -> tuple[Sequence[PodLogLine], bool]:
        """The lines of a pod's log that are asked for, and whether more may come: a pod that rests prints nothing."""
        pod = self._pod(account, pod_id, now)
        return asked.of(pod.log), pod.status in COMPUTING

    def files(self, pod_id: str) -> dict[str, bytes]:
        """The container's disk, to be read and written: `stop` keeps it, `restart` wipes it."""
        return self._pods[pod_id].files

    def _pod(self, account: str, pod_id: str, now: int) -> PodState:
        pod = self._there(now).get(pod_id)
        if pod is None or pod.account != account:
            raise not_found_problem()
        return self._advance(pod, now)

    def _template(self, template_id: str | Omitted) -> ServiceTemplate:
        """What a pod takes where its own body says nothing. A template's volume makes no mount: mounts stand in a pod's
        own body. References to secrets stay as they are written: a pod's record never shows a value.
        """
        if isinstance(template_id, Omitted):
            return blank_template(self.settings.disk)
        template = self._templates.find(template_id)
        if template is None:
            raise not_found_problem()
        if template.is_serverless:
            raise invalid_problem(["$.templateId: the template is for serverless endpoints"])
        return template

    def _forget(self, pod: PodState, now: int) -> None:
        if pod.template is not None:
            self._templates.release(pod.template, pod.id, now)
        del self._pods[pod.id]
        self.on_stop(pod.id)

    def _check_capacity(self, now: int) -> None:
        taken = sum(self._advance(pod, now).status in COMPUTING for pod in self._there(now).values())
        is_full = self.settings.capacity is not None and taken >= self.settings.capacity
        if is_full or self.dice.strikes(Fault.NO_MACHINES):
            raise ProblemRefusal(HTTPStatus.BAD_REQUEST, NO_CAPACITY)

    def _advance(self, pod: PodState, now: int) -> PodState:
        """`pod` at the time `now`: what was due meanwhile has happened at its own time."""
        provisioned_at = pod.status_at + round(self.settings.provisioning_s * SECOND_US)
        if pod.status is PodPhase.PROVISIONING and provisioned_at <= now and not pod.fate.is_stuck:
            self._move(pod, PodPhase.STARTING, provisioned_at)
        started_at = pod.status_at + round(self.settings.starting_s * SECOND_US)
        if pod.status is PodPhase.STARTING and started_at <= now:
            self._move(pod, PodPhase.RUNNING, started_at)
        if pod.status in COMPUTING and pod.fate.has_failed(now):
            self._move(pod, PodPhase.ERROR, now)
        return pod

    def _move(self, pod: PodState, status: PodPhase, at: int) -> None:
        if pod.machine is None and status in (PodPhase.STARTING, PodPhase.RUNNING):
            pod.machine = self._rng.getrandbits(32)
        if status is PodPhase.RUNNING:
            pod.started_at = at
        was_up = pod.status is PodPhase.RUNNING
        pod.become(status, at)
        if was_up and status is not PodPhase.RUNNING:
            self.on_stop(pod.id)

    def _record(self, pod: PodState, now: int) -> PodRecord:
        return record_of(pod, now)


def _counted(gpu: PodGpuCreateBody | Omitted, settings: PodSettings) -> PodGpuBody | Omitted:
    if isinstance(gpu, Omitted):
        return gpu
    if gpu.min_ram_per_gpu > MEMORY_GB_PER_GPU or gpu.min_vcpu_count_per_gpu > VCPUS_PER_GPU:
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, NO_CAPACITY)
    if not isinstance(gpu.count, Omitted):
        return PodGpuBody(id=gpu.id, count=gpu.count)
    if settings.strict or not settings.assumes_gpu_count:
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, NO_CAPACITY)
    return PodGpuBody(id=gpu.id, count=1)


def _free(pod: PodState) -> PodState:
    if not isinstance(pod.cluster, Omitted):
        raise _conflict(f"pod belongs to cluster '{pod.cluster.id}'; use /v2/clusters/{pod.cluster.id}")
    return pod


def _conflict(detail: str) -> ProblemRefusal:
    return ProblemRefusal(HTTPStatus.CONFLICT, detail)
