"""One pod as the emulator keeps it, and the record that a client sees of it at a given time."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from orchestrator.emulator.account.pod_bodies import CommandBody, MountsBody, PodCpuBody, PodGpuBody
from orchestrator.emulator.account.pod_fates import PodFate
from orchestrator.emulator.account.pod_logs import SYSTEM, TAIL_MAX, PodLogLine
from orchestrator.emulator.account.pod_records import (
    COMPUTING,
    OMITTED,
    VALID_ACTIONS,
    ClusterRecord,
    Cpu,
    Gpu,
    GpuUse,
    Networking,
    Omitted,
    PodPhase,
    PodRecord,
    Runtime,
    RuntimePort,
    Ssh,
    SshEndpoint,
)
from orchestrator.emulator.contract.gpu_catalog import GPU_USD, VCPU_USD
from orchestrator.units import SECOND_US

SSH_PROXY = "ssh.emulator.invalid"
INTERNAL_SUFFIX = "emulator.internal"
DATA_CENTER = "EMU-1"
CUDA_VERSION = "12.8"

VCPUS_PER_GPU = 8.0
MEMORY_GB_PER_GPU = 64.0
MEMORY_GB_PER_VCPU = 4

_PUBLIC_PORT_MIN = 20_000


_SAID: Mapping[PodPhase, str] = {
    PodPhase.PROVISIONING: "looking for a machine",
    PodPhase.STARTING: "machine found; starting the container",
    PodPhase.RUNNING: "container started",
    PodPhase.EXITED: "container stopped",
    PodPhase.ERROR: "pod failed",
}
"""What the log has of each change of status; in the service's own words it says more."""


class PodState(msgspec.Struct, kw_only=True):
    """What is remembered of a pod; times in µs."""

    id: str
    account: str
    name: str
    image: str
    args: str
    command: CommandBody
    disk: int
    env: Mapping[str, str]
    ports: tuple[str, ...]
    registry: str | None
    mounts: MountsBody
    gpu: PodGpuBody | Omitted
    cpu: PodCpuBody | Omitted
    cloud: str
    data_centers: tuple[str, ...]
    template: str | None
    networking: bool
    cluster: ClusterRecord | Omitted
    created_at: int
    status: PodPhase
    status_at: int
    """Since when it has its status."""
    locked: bool = False
    machine: int | None = None
    """Which machine it was given; kept while it is stopped."""
    started_at: int | None = None
    """When its container last started."""
    files: dict[str, bytes] = {}
    log: list[PodLogLine] = []
    """Its last lines, oldest first."""
    fate: PodFate = PodFate()

    def become(self, status: PodPhase, at: int) -> None:
        """It has another status from then on."""
        self.status, self.status_at = status, at
        self.write(at, _SAID[status])

    def write(self, at: int, text: str, *, source: str = SYSTEM) -> None:
        """A line of its log."""
        number = self.log[-1].number + 1 if self.log else 1
        self.log.append(PodLogLine(at, number, source, text))
        del self.log[:-TAIL_MAX]


def record_of(pod: PodState, now: int) -> PodRecord:
    """What a client sees of `pod` at `now`."""
    computing = pod.status in COMPUTING
    running = pod.status is PodPhase.RUNNING
    ports = _ports(pod) if running else ()
    return PodRecord(
        id=pod.id,
        name=pod.name,
        status=pod.status,
        actions=VALID_ACTIONS[pod.status],
        image=pod.image,
        args=pod.args,
        cmd=pod.command.cmd or OMITTED,
        entrypoint=pod.command.entrypoint or OMITTED,
        disk=pod.disk,
        env=pod.env,
        ports=pod.ports,
        registry=pod.registry,
        mounts=msgspec.to_builtins(pod.mounts),
        gpu=_gpu(pod.gpu),
        cpu=_cpu(pod.cpu),
        cloud=pod.cloud,
        data_center_id=None if pod.machine is None else next(iter(pod.data_centers), DATA_CENTER),
        cuda_version=CUDA_VERSION if pod.machine is not None and pod.gpu is not OMITTED else None,
        ssh=Ssh(proxy=_proxy(pod), direct=_direct(ports)),
        cluster=pod.cluster,
        template=pod.template,
        cost=_cost(pod) if computing else 0.0,
        locked=pod.locked,
        global_networking=_networking(pod),
        runtime=_runtime(pod, ports, now) if running else None,
        created_at=_time(pod.created_at),
        started_at=None if pod.started_at is None else _time(pod.started_at),
    )


def _gpu(wish: PodGpuBody | Omitted) -> Gpu | Omitted:
    if isinstance(wish, Omitted):
        return OMITTED
    vcpus, memory = VCPUS_PER_GPU * wish.count, MEMORY_GB_PER_GPU * wish.count
    return Gpu(id=wish.id, count=wish.count, vcpu_count=vcpus, memory=memory)


def _cpu(wish: PodCpuBody | Omitted) -> Cpu | Omitted:
    if isinstance(wish, Omitted):
        return OMITTED
    return Cpu(id=wish.id, vcpu_count=wish.vcpu_count, memory=MEMORY_GB_PER_VCPU * wish.vcpu_count)


def _cost(pod: PodState) -> float:
    gpus = 0 if isinstance(pod.gpu, Omitted) else pod.gpu.count
    vcpus = 0 if isinstance(pod.cpu, Omitted) else pod.cpu.vcpu_count
    return round(gpus * GPU_USD[pod.cloud] + vcpus * VCPU_USD, 4)


def _proxy(pod: PodState) -> SshEndpoint | None:
    """There as soon as there is a machine."""
    if pod.machine is None:
        return None
    username = f"{pod.id}-{pod.machine:08x}"
    return SshEndpoint(host=SSH_PROXY, port=22, username=username, command=f"ssh {username}@{SSH_PROXY}")


def _direct(ports: tuple[RuntimePort, ...]) -> SshEndpoint | None:
    """There while a running pod has its `22/tcp` published."""
    for port in ports:
        if port.private == 22 and port.type == "tcp" and port.public is not None and port.ip is not None:  # noqa: PLR2004
            command = f"ssh root@{port.ip} -p {port.public}"
            return SshEndpoint(host=port.ip, port=port.public, username="root", command=command)
    return None


def _ports(pod: PodState) -> tuple[RuntimePort, ...]:
    """Live mappings: TCP and UDP have a public port of the machine, HTTP goes through the service's proxy."""
    ip = f"203.0.113.{(pod.machine or 0) % 254 + 1}"
    found = []
    for index, text in enumerate(pod.ports):
        number, _, protocol = text.partition("/")
        direct = protocol != "http"
        public = _PUBLIC_PORT_MIN + (pod.machine or 0) % 10_000 + index if direct else None
        found.append(RuntimePort(private=int(number), public=public, type=protocol, ip=ip if direct else None))
    return tuple(found)


def _networking(pod: PodState) -> Networking:
    """Enabled is who has an address, and that comes with the machine."""
    if not pod.networking or pod.machine is None:
        return Networking()
    address = f"10.1.{pod.machine >> 8 & 255}.{pod.machine & 255}"
    return Networking(enabled=True, ip=address, internal_dns=f"{pod.id}.{INTERNAL_SUFFIX}")


def _runtime(pod: PodState, ports: tuple[RuntimePort, ...], now: int) -> Runtime:
    gpus = 0 if isinstance(pod.gpu, Omitted) else pod.gpu.count
    uptime = (now - (pod.started_at or now)) // SECOND_US
    return Runtime(uptime=uptime, gpus=(GpuUse(),) * gpus, ports=ports)


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / SECOND_US, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
