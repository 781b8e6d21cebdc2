"""A pod as it goes over the wire (contract of pods, Resources), and its statuses and actions."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

Omitted = msgspec.UnsetType
OMITTED = msgspec.UNSET


class PodPhase(StrEnum):
    """The lifecycle of a pod. A TERMINATED one is gone."""

    PROVISIONING = "PROVISIONING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    EXITED = "EXITED"
    ERROR = "ERROR"


class PodVerb(StrEnum):
    """What may be asked of a pod."""

    START = "start"
    STOP = "stop"
    RESTART = "restart"
    TERMINATE = "terminate"


VALID_ACTIONS: Mapping[PodPhase, tuple[PodVerb, ...]] = MappingProxyType(
    {
        PodPhase.RUNNING: (PodVerb.STOP, PodVerb.RESTART, PodVerb.TERMINATE),
        PodPhase.EXITED: (PodVerb.START, PodVerb.TERMINATE),
        PodPhase.ERROR: (PodVerb.START, PodVerb.TERMINATE),
        PodPhase.PROVISIONING: (PodVerb.STOP, PodVerb.TERMINATE),
        PodPhase.STARTING: (PodVerb.STOP, PodVerb.TERMINATE),
    }
)
"""The contract's table, States and transitions."""

COMPUTING = frozenset({PodPhase.PROVISIONING, PodPhase.STARTING, PodPhase.RUNNING})
"""Statuses in which a pod holds GPUs or CPUs."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The GPUs of a pod; vCPUs and memory (GB) are those of all of them together."""

    id: str
    count: int
    vcpu_count: float
    memory: float


class Cpu(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The CPUs of a pod without GPUs."""

    id: str
    vcpu_count: int
    memory: int


class SshEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One way in."""

    host: str
    port: int
    username: str
    command: str


class Ssh(msgspec.Struct, frozen=True, kw_only=True):
    """Both keys are always there."""

    proxy: SshEndpoint | None = None
    direct: SshEndpoint | None = None


class ClusterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Membership in a cluster."""

    id: str
    rank: int | None = None
    role: str | Omitted = OMITTED
    ip: str | Omitted = OMITTED


class Networking(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Global networking: address and name only once there is an address."""

    enabled: bool = False
    ip: str | Omitted = OMITTED
    internal_dns: str | Omitted = OMITTED


class GpuUse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """In percent."""

    util: int = 0
    memory_util: int = 0


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """In percent, 0 to 100."""

    util: int = 0


class RuntimePort(msgspec.Struct, frozen=True, kw_only=True):
    """A port as it is reached now."""

    private: int
    public: int | None
    type: str
    ip: str | None


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """What a RUNNING pod is at; `uptime` in seconds."""

    uptime: int
    gpus: tuple[GpuUse, ...]
    cpu: Use = Use()
    memory: Use = Use()
    ports: tuple[RuntimePort, ...]


class PodRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One pod, in the order of the contract's table."""

    id: str
    name: str
    status: PodPhase
    actions: tuple[PodVerb, ...]
    image: str
    args: str
    cmd: tuple[str, ...] | Omitted
    entrypoint: tuple[str, ...] | Omitted
    disk: int
    env: Mapping[str, str]
    ports: tuple[str, ...]
    registry: str | None
    mounts: Mapping[str, object]
    gpu: Gpu | Omitted
    cpu: Cpu | Omitted
    cloud: str
    data_center_id: str | None
    cuda_version: str | None
    ssh: Ssh
    cluster: ClusterRecord | Omitted
    template: str | None
    cost: float
    locked: bool
    global_networking: Networking
    runtime: Runtime | None
    created_at: str
    started_at: str | None
