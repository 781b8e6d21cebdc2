"""The Pod record as the service answers it (contract of pods, Resources), and what its status allows.

Reading is tolerant: an unknown member or value is kept, and only `id`, `name` and `status` are indispensable, since
the published versions of the interface differ in the others. Whoever decides on a `str` that the contract enumerates
compares it with the enumeration here; an unknown value equals none of them.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec


class PodAction(StrEnum):
    """What can be asked of a pod."""

    START = "start"
    STOP = "stop"
    RESTART = "restart"
    TERMINATE = "terminate"


class PodStatus(StrEnum):
    """Where a pod stands."""

    PROVISIONING = "PROVISIONING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    EXITED = "EXITED"
    ERROR = "ERROR"
    TERMINATED = "TERMINATED"


class Cloud(StrEnum):
    """Whose hardware: the operator's, or that of the community."""

    SECURE = "SECURE"
    COMMUNITY = "COMMUNITY"


class PodClusterRole(StrEnum):
    """What a member of a SLURM or RAY cluster does there."""

    SLURM_CONTROLLER = "SLURM_CONTROLLER"
    SLURM_COMPUTE = "SLURM_COMPUTE"
    RAY_HEAD = "RAY_HEAD"
    RAY_WORKER = "RAY_WORKER"


ACTIONS_BY_STATUS: Final[Mapping[str, tuple[PodAction, ...]]] = MappingProxyType(
    {
        PodStatus.RUNNING: (PodAction.STOP, PodAction.RESTART, PodAction.TERMINATE),
        PodStatus.EXITED: (PodAction.START, PodAction.TERMINATE),
        PodStatus.ERROR: (PodAction.START, PodAction.TERMINATE),
        PodStatus.PROVISIONING: (PodAction.STOP, PodAction.TERMINATE),
        PodStatus.STARTING: (PodAction.STOP, PodAction.TERMINATE),
    }
)
"""The contract's table of valid actions; it says nothing of TERMINATED."""


class PersistentMount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Storage on the pod's host, `size` in GB; it does not survive the host. Deprecated by the contract."""

    size: int
    path: str


class NetworkMount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An existing network volume of the pod's data center."""

    volume_id: str
    path: str


class GlobalMount(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A global volume; without `path`, the service chooses one at creation."""

    volume_id: str
    path: str | None = None


class Mounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A pod's storage. None: there is none of that kind."""

    persistent: PersistentMount | None = None
    network: tuple[NetworkMount, ...] | None = None
    global_: tuple[GlobalMount, ...] | None = msgspec.field(default=None, name="global")


class GpuConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """GPUs; `vcpu_count` and `memory` (GB) are those of the whole pod."""

    id: str
    count: int = 1
    vcpu_count: float | None = None
    memory: float | None = None


class CpuConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A CPU pod: its flavor, number of vCPUs, memory in GB."""

    id: str
    vcpu_count: int
    memory: int | None = None


class PodSshEndpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where to connect, and the `ssh` command that does it."""

    host: str
    port: int
    username: str
    command: str


class PodSsh(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The proxy takes a shell only; `direct` needs the pod's published `22/tcp`. None: not now."""

    proxy: PodSshEndpoint | None = None
    direct: PodSshEndpoint | None = None


class PodCluster(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Membership in a cluster; `rank` is None until provisioned, rank 0 is the entry node."""

    id: str
    rank: int | None = None
    role: str | None = None
    """A `PodClusterRole`; None for TRAINING and APPLICATION clusters."""
    ip: str | None = None


class PodGlobalNetworking(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A private address that is reachable across data centers."""

    enabled: bool = False
    ip: str | None = None
    internal_dns: str | None = None


class PodGpuUtilization(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One GPU, in percent."""

    util: int = 0
    memory_util: int = 0


class Utilization(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """In percent, 0 to 100."""

    util: int = 0


class PodRuntimePort(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A port of the container (`private`) and where it is reached."""

    private: int
    public: int | None = None
    type: str = ""
    ip: str | None = None


class PodRuntime(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A running pod's figures; `uptime` is in seconds since the container started."""

    uptime: int = 0
    gpus: tuple[PodGpuUtilization, ...] = ()
    cpu: Utilization = Utilization()
    memory: Utilization = Utilization()
    ports: tuple[PodRuntimePort, ...] = ()


class Pod(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One pod. Times are RFC 3339 text as the service wrote it, `cost` is USD per hour, `disk` GB."""

    id: str
    name: str
    status: str
    """A `PodStatus`, or a word that this version does not know."""
    actions: tuple[str, ...] | None = None
    """The actions valid now, as the service says; None where it said nothing."""
    image: str = ""
    args: str = ""
    """The command in stored form, see `pod_command.parse_args`."""
    cmd: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    disk: int | None = None
    env: Mapping[str, str] = {}
    ports: tuple[str, ...] = ()
    registry: str | None = None
    mounts: Mounts = Mounts()
    gpu: GpuConfig | None = None
    cpu: CpuConfig | None = None
    cloud: str = ""
    """A `Cloud`."""
    data_center_id: str | None = None
    cuda_version: str | None = None
    ssh: PodSsh = PodSsh()
    cluster: PodCluster | None = None
    template: str | None = None
    cost: float = 0.0
    locked: bool = False
    global_networking: PodGlobalNetworking = PodGlobalNetworking()
    runtime: PodRuntime | None = None
    created_at: str | None = None
    started_at: str | None = None
    raw: bytes = msgspec.field(default=b"", name="<raw>")  # a name that no member on the wire has
    """The record exactly as it came, unknown members of every level included."""

    def __repr__(self) -> str:
        """Without `env`, which may hold secrets."""
        return f"Pod(id={self.id!r}, name={self.name!r}, status={self.status!r})"

    @property
    def unknown(self) -> Mapping[str, object]:
        """The members of the record that this version has no field for."""
        members = _members.decode(self.raw) if self.raw else {}
        return {name: value for name, value in members.items() if name not in _NAMES}

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """The actions that may be sent now; None where nobody knows, and the service decides.

        What the record lists, and what the contract lists for its status: a published example of the service's shows a
        PROVISIONING pod without the `stop` that the contract promises there, and the service should decide then.
        """
        listed = self.actions
        if listed is None:
            return ACTIONS_BY_STATUS.get(self.status)
        return (*listed, *(action for action in ACTIONS_BY_STATUS.get(self.status, ()) if action not in listed))


_NAMES: Final = frozenset(field.encode_name for field in msgspec.structs.fields(Pod))
_members: Final = msgspec.json.Decoder(dict[str, object])
_pod: Final = msgspec.json.Decoder(Pod)


def decode_pod(raw: bytes) -> Pod:
    """The pod in the JSON text `raw`. Raises ValueError (or RecursionError, for absurd nesting) for what is none."""
    return msgspec.structs.replace(_pod.decode(raw), raw=raw)
