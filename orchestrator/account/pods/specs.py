"""What creates or modifies a pod, and every rule of the contract about it that can be checked before sending.

A field that is left out is not sent: at creation the template's or the service's default applies, at modification the
present value stays. Unknown properties cannot occur: the records have no place for them.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from orchestrator.account.pods.command import command_problems
from orchestrator.account.pods.pod_record import Mounts, Pod

DISK_GB_MIN: Final = 1
PERSISTENT_GB_MIN: Final = 10
GPU_COUNT_MIN: Final = 1
PER_GPU_MIN: Final = 1
VCPU_COUNT_MIN: Final = 2
MOUNTS_OF_A_KIND_MAX: Final = 1

_PORT: Final = re.compile(r"(\d{1,5})/[a-z]+")
_PORT_MAX: Final = 65_535

Unset = msgspec.UnsetType
UNSET: Final = msgspec.UNSET

T = TypeVar("T")


class GpuRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`count` GPUs of the type `id`. The count is always sent: without it the service finds no instance (observed)."""

    id: str
    count: int = GPU_COUNT_MIN
    allowed_cuda_versions: tuple[str, ...] | Unset = UNSET
    min_cuda_version: str | Unset = UNSET
    min_ram_per_gpu: int | Unset = UNSET
    """In GB: only machines that have so much for each GPU (as published; not in the contract)."""
    min_vcpu_count_per_gpu: int | Unset = UNSET
    """The same of vCPUs."""


class CpuRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A CPU flavor (as the catalog names it) and the number of vCPUs."""

    id: str
    vcpu_count: int


class _Container(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a pod is made of, whether it is created or modified."""

    image: str | Unset = UNSET
    template_id: str | Unset = UNSET
    args: str | Unset = UNSET
    cmd: tuple[str, ...] | Unset = UNSET
    entrypoint: tuple[str, ...] | Unset = UNSET
    disk: int | Unset = UNSET
    env: Mapping[str, str] | Unset = UNSET
    ports: tuple[str, ...] | Unset = UNSET
    mounts: Mounts | Unset = UNSET
    """To modify: without any mount in it, the mounts stay as they are. Only the `path` of a mount can change."""
    global_networking: bool | Unset = UNSET

    def __repr__(self) -> str:
        """Without `env`, which may hold secrets."""
        return f"{type(self).__name__}(...)"


class PodCreate(_Container, frozen=True, kw_only=True, rename="camel"):
    """The body of `POST /v2/pods` (as observed): `gpu` or `cpu`; `image` unless `template_id` brings one."""

    name: str
    gpu: GpuRequest | Unset = UNSET
    cpu: CpuRequest | Unset = UNSET
    registry: str | Unset = UNSET
    cloud: str | Unset = UNSET
    data_center_ids: tuple[str, ...] | Unset = UNSET
    start_ssh: bool | Unset = UNSET
    """Without it, the account's SSH keys never reach the pod, whatever its `ssh` block says."""
    start_jupyter: bool | Unset = UNSET

    def __repr__(self) -> str:
        """Without `env`, which may hold secrets."""
        return f"PodCreate(name={self.name!r})"


class PodModify(_Container, frozen=True, kw_only=True, rename="camel"):
    """The body of `PATCH /v2/pods/{id}`. An empty `args`, `cmd` or `entrypoint` clears the value (rule 4)."""

    name: str | Unset = UNSET
    registry: str | Unset | None = UNSET
    locked: bool | Unset = UNSET


def create_problems(spec: PodCreate) -> tuple[str, ...]:
    """What the service would refuse about `spec`, one text each; empty when nothing."""
    problems = [*_container_problems(spec)]
    if not spec.name.strip():
        problems.append("name is empty")
    if (spec.gpu is UNSET) == (spec.cpu is UNSET):
        problems.append("exactly one of gpu and cpu must be given")
    if spec.image is UNSET and spec.template_id is UNSET:
        problems.append("image is missing, and no template brings one")
    if not isinstance(spec.gpu, Unset):
        problems += _gpu_problems(spec.gpu)
    if not isinstance(spec.cpu, Unset):
        problems += _cpu_problems(spec.cpu)
    if not isinstance(spec.mounts, Unset):
        problems += mount_problems(spec.mounts, on_cpu=not isinstance(spec.cpu, Unset))
    return tuple(problems)


def _container_problems(spec: PodCreate | PodModify) -> Iterable[str]:
    if not isinstance(spec.disk, Unset) and spec.disk < DISK_GB_MIN:
        yield f"disk is {spec.disk} GB; at least {DISK_GB_MIN}"
    yield from command_problems(_none(spec.args), _none(spec.entrypoint), _none(spec.cmd))
    for port in spec.ports or ():
        found = _PORT.fullmatch(port)
        if found is None or not 1 <= int(found[1]) <= _PORT_MAX:
            yield f"port {port!r} is not of the form port/protocol, as in 8888/http"


def _none(value: T | Unset) -> T | None:
    return None if isinstance(value, Unset) else value


def _gpu_problems(gpu: GpuRequest) -> Iterable[str]:
    counts = (
        ("count", gpu.count, GPU_COUNT_MIN),
        ("minRamPerGpu", _none(gpu.min_ram_per_gpu), PER_GPU_MIN),
        ("minVcpuCountPerGpu", _none(gpu.min_vcpu_count_per_gpu), PER_GPU_MIN),
    )
    for field, number, least in counts:
        if number is not None and number < least:
            yield f"gpu.{field} is {number}; at least {least}"


def _cpu_problems(cpu: CpuRequest) -> Iterable[str]:
    """Whether the number is valid for the flavor, only the service's catalog knows."""
    if not cpu.id:
        yield "cpu.id is empty"
    if cpu.vcpu_count < VCPU_COUNT_MIN or cpu.vcpu_count & (cpu.vcpu_count - 1):
        yield f"cpu.vcpuCount is {cpu.vcpu_count}; a power of two, at least {VCPU_COUNT_MIN}"


def mount_problems(mounts: Mounts, *, on_cpu: bool) -> tuple[str, ...]:
    """What is wrong with the mounts of a pod to be created (contract, Mounts rules 1 to 3)."""
    problems = []
    if mounts.persistent and (mounts.network or mounts.global_):
        problems.append("mounts.persistent excludes mounts.network and mounts.global")
    if mounts.persistent and on_cpu:
        problems.append("mounts.persistent is not allowed on CPU pods")
    if mounts.persistent and mounts.persistent.size < PERSISTENT_GB_MIN:
        problems.append(f"mounts.persistent.size is {mounts.persistent.size} GB; at least {PERSISTENT_GB_MIN}")
    for kind, entries in (("network", mounts.network), ("global", mounts.global_)):
        if len(entries or ()) > MOUNTS_OF_A_KIND_MAX:
            problems.append(f"mounts.{kind} holds at most one volume")
    return tuple(problems)


def modify_problems(spec: PodModify, pod: Pod | None) -> tuple[str, ...]:
    """What the service would refuse about `spec`, for `pod` as it is (None: unknown), one text each."""
    problems = [*_container_problems(spec)]
    if not isinstance(spec.mounts, Unset):
        problems += mount_problems(spec.mounts, on_cpu=pod is not None and pod.cpu is not None)
        problems += _emptied(spec.mounts)
        problems += () if pod is None else _changed(spec.mounts, pod.mounts)
    if pod is not None and pod.cluster is not None:
        problems.append(f"the pod belongs to cluster {pod.cluster.id} and is modified through /v2/clusters only")
    return tuple(problems)


def _emptied(mounts: Mounts) -> Iterable[str]:
    kinds = (("network", mounts.network), ("global", mounts.global_))
    return (f"mounts.{kind} cannot be emptied; leave it out to keep it" for kind, entries in kinds if entries == ())


def _changed(wanted: Mounts, present: Mounts) -> Iterable[str]:
    """What would change beside a path (contract, Mounts rule 4): the kind and the volume are fixed at creation."""
    kinds = (
        ("persistent", wanted.persistent, present.persistent),
        ("network", wanted.network, present.network),
        ("global", wanted.global_, present.global_),
    )
    for kind, new, old in kinds:
        if new and not old:
            yield f"mounts.{kind} cannot be introduced; the kind of a mount is fixed when the pod is created"
    if wanted.persistent and present.persistent and wanted.persistent.size != present.persistent.size:
        yield "mounts.persistent.size cannot change; only the path can"
    for kind, volumes, before in (
        ("network", wanted.network, present.network),
        ("global", wanted.global_, present.global_),
    ):
        if volumes and before and volumes[0].volume_id != before[0].volume_id:
            yield f"mounts.{kind} names another volume; only the path can change"
