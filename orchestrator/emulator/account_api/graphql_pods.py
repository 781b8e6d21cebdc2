"""Pods by GraphQL, as the official SDK, its command line and Pulumi manage them (as observed): its words for what
`pods` knows.

The contract's pods are REST's; this is here so that those tools find what they ask for. Where GraphQL has a wish that
they cannot have here (bids, the least memory of a host), it is taken and has no effect.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from orchestrator.emulator.account.pod_bodies import parse_creation, parse_modification
from orchestrator.emulator.account.pod_records import Omitted, PodPhase, PodRecord, PodVerb
from orchestrator.emulator.account.pods import PodWorld
from orchestrator.emulator.contract.answers import ProblemRefusal

_POD = """
  cloudType: CloudTypeEnum
  containerDiskInGb: Int
  containerRegistryAuthId: String
  countryCode: String
  dataCenterId: String
  dockerArgs: String
  env: [EnvironmentVariableInput]
  imageName: String
  minDownload: Int
  minUpload: Int
  name: String
  networkVolumeId: String
  ports: String
  startJupyter: Boolean
  startSsh: Boolean
  templateId: String
  volumeMountPath: String
"""
"""What is said of every new pod."""

SCHEMA = (
    """
scalar Port
scalar DateTime

enum CloudTypeEnum { ALL COMMUNITY SECURE }

extend type Query { pod(input: PodFilter): Pod }

extend type Mutation {
  podFindAndDeployOnDemand(input: PodFindAndDeployOnDemandInput): Pod
  deployCpuPod(input: deployCpuPodInput): Pod
  podEditJob(input: PodEditJobInput!): Pod
  podStop(input: PodStopInput!): Pod
  podResume(input: PodResumeInput!): Pod
  podTerminate(input: PodTerminateInput!): Void
}

extend type User { pods: [Pod] }

type Pod {
  id: String!
  name: String
  imageName: String
  templateId: String
  containerDiskInGb: Int
  containerRegistryAuthId: String
  volumeInGb: Float
  volumeMountPath: String
  costPerHr: Float
  desiredStatus: String
  dockerArgs: String
  dockerId: String
  env: [String]
  gpuCount: Int
  gpuTypeId: String
  lastStatusChange: String
  lastStartedAt: DateTime
  createdAt: DateTime
  locked: Boolean
  machineId: String!
  memoryInGb: Float
  networkVolumeId: String
  podType: String
  port: Port
  ports: String
  uptimeSeconds: Int
  vcpuCount: Float
  runtime: PodRuntime
  machine: PodMachineInfo
}

type PodRuntime { uptimeInSeconds: Int, ports: [PodRuntimePorts] }

type PodRuntimePorts { ip: String, isIpPublic: Boolean, privatePort: Int, publicPort: Int, type: String }

type PodMachineInfo { gpuDisplayName: String, gpuTypeId: String, location: String, podHostId: String }

input PodFilter { podId: String! }
input PodStopInput { podId: String!, incrementVersion: Boolean }
input PodResumeInput { podId: String!, gpuCount: Int, syncMachine: Boolean }
input PodTerminateInput { podId: String! }
input SavingsPlanInput { planLength: String, upfrontCost: Float }

input PodFindAndDeployOnDemandInput {"""
    + _POD
    + """  aiApiId: String
  allowedCudaVersions: [String]
  cudaVersion: String
  deployCost: Float
  globalNetwork: Boolean
  gpuCount: Int
  gpuTypeId: String
  gpuTypeIdList: [String]
  minDisk: Int
  minMemoryInGb: Int
  minVcpuCount: Int
  port: Port
  savingsPlan: SavingsPlanInput
  stopAfter: DateTime
  supportPublicIp: Boolean
  terminateAfter: DateTime
  volumeInGb: Int
  volumeKey: String
}

input deployCpuPodInput {"""
    + _POD
    + """  instanceId: String
}

input PodEditJobInput {
  podId: String!
  imageName: String!
  containerDiskInGb: Int!
  containerRegistryAuthId: String
  dockerArgs: String
  env: [EnvironmentVariableInput]
  port: Port
  ports: String
  volumeInGb: Int
  volumeMountPath: String
}
"""
)

_OFFICIAL: Final = "runpod-"
"""What the id of a template of the service's own begins with; of those there are none here, and the image counts."""

_INSTANCE: Final = "cpu3c-2-4"
"""Flavor, vCPUs and GB of memory of a CPU pod that names none."""

_STOPPED: Final = frozenset({PodPhase.EXITED, PodPhase.ERROR})

GraphQLInput = Mapping[str, Any]


class PodDocuments:
    """The operations on the pods of an account. They raise Problem."""

    def __init__(self, pods: PodWorld) -> None:
        self._pods = pods

    def list(self, account: str, now: int) -> list[dict[str, Any]]:
        """All of them, oldest first."""
        return [_shown(pod) for pod in self._pods.list(account, now)]

    def find(self, wanted: GraphQLInput, account: str, now: int) -> dict[str, Any] | None:
        """None where there is no such pod (as observed)."""
        try:
            return _shown(self._pods.get(account, wanted["podId"], now))
        except ProblemRefusal:
            return None

    def deploy(self, wanted: GraphQLInput, account: str, now: int) -> dict[str, Any]:
        """A new pod with GPUs."""
        types = [wanted.get("gpuTypeId"), *(wanted.get("gpuTypeIdList") or ())]
        gpu = {"id": next(filter(None, types), None), "count": wanted.get("gpuCount") or 1}
        return self._create({**_creation(wanted), "gpu": _given(gpu)}, account, now)

    def deploy_cpu(self, wanted: GraphQLInput, account: str, now: int) -> dict[str, Any]:
        """A new pod without."""
        flavor, _, size = (wanted.get("instanceId") or _INSTANCE).partition("-")
        vcpus = size.partition("-")[0]
        cpu = {"id": flavor, "vcpuCount": int(vcpus) if vcpus.isdecimal() else vcpus}
        return self._create({**_creation(wanted), "cpu": cpu}, account, now)

    def edit(self, wanted: GraphQLInput, account: str, now: int) -> dict[str, Any]:
        """Changes what a pod runs."""
        body = {**_container(wanted), "registry": wanted.get("containerRegistryAuthId")}
        modification = parse_modification(msgspec.json.encode(_given(body)))
        return _shown(self._pods.modify(account, wanted["podId"], modification, now))

    def act(self, action: PodVerb, wanted: GraphQLInput, account: str, now: int) -> dict[str, Any] | None:
        """Stops, starts or terminates a pod; None once it is gone."""
        pod = self._pods.act(account, wanted["podId"], action, now)
        return None if pod is None else _shown(pod)

    def _create(self, body: Mapping[str, Any], account: str, now: int) -> dict[str, Any]:
        return _shown(self._pods.create(account, parse_creation(msgspec.json.encode(body)), now))


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _container(wanted: GraphQLInput) -> dict[str, Any]:
    """What a pod runs, in REST's words."""
    ports, env = wanted.get("ports"), wanted.get("env")
    return {
        "image": wanted.get("imageName") or None,
        "args": wanted.get("dockerArgs"),
        "disk": wanted.get("containerDiskInGb"),
        "env": None if env is None else {variable["key"]: variable["value"] for variable in env if variable},
        "ports": None if ports is None else [port.strip() for port in ports.split(",") if port.strip()],
    }


def _creation(wanted: GraphQLInput) -> dict[str, Any]:
    template, image = wanted.get("templateId"), wanted.get("imageName")
    place = wanted.get("dataCenterId")
    body = {
        "name": wanted.get("name") or "pod",
        "templateId": None if not template or (image and template.startswith(_OFFICIAL)) else template,
        "registry": wanted.get("containerRegistryAuthId"),
        "cloud": "COMMUNITY" if wanted.get("cloudType") == "COMMUNITY" else "SECURE",
        "dataCenterIds": [place] if place else None,
        "globalNetworking": wanted.get("globalNetwork"),
        "mounts": _mounts(wanted),
    }
    return _given({**_container(wanted), **body})


def _mounts(wanted: GraphQLInput) -> dict[str, Any] | None:
    path = wanted.get("volumeMountPath") or "/workspace"
    if wanted.get("networkVolumeId"):
        return {"network": [{"volumeId": wanted["networkVolumeId"], "path": path}]}
    size = wanted.get("volumeInGb")
    return {"persistent": {"size": size, "path": path}} if size else None


def _shown(pod: PodRecord) -> dict[str, Any]:
    gpu, cpu = pod.gpu, pod.cpu
    of = cpu if isinstance(gpu, Omitted) else gpu
    vcpus, memory = (0.0, 0.0) if isinstance(of, Omitted) else (float(of.vcpu_count), float(of.memory))
    machine = None if pod.data_center_id is None else f"m-{pod.id}"
    type_id = None if isinstance(gpu, Omitted) else gpu.id
    return {
        "id": pod.id,
        "name": pod.name,
        "imageName": pod.image,
        "templateId": pod.template,
        "containerDiskInGb": pod.disk,
        "containerRegistryAuthId": pod.registry,
        **_storage(pod.mounts),
        "costPerHr": pod.cost,
        "desiredStatus": "EXITED" if pod.status in _STOPPED else "RUNNING",
        "dockerArgs": pod.args,
        "env": [f"{name}={value}" for name, value in pod.env.items()],
        "gpuCount": 0 if isinstance(gpu, Omitted) else gpu.count,
        "gpuTypeId": type_id,
        "lastStatusChange": str(pod.status),
        "lastStartedAt": pod.started_at,
        "createdAt": pod.created_at,
        "locked": pod.locked,
        "machineId": machine or "",
        "memoryInGb": memory,
        "podType": "RESERVED",
        "ports": ",".join(pod.ports),
        "uptimeSeconds": 0 if pod.runtime is None else pod.runtime.uptime,
        "vcpuCount": vcpus,
        "runtime": _runtime(pod),
        "machine": {
            "gpuDisplayName": type_id,
            "gpuTypeId": type_id,
            "location": pod.data_center_id,
            "podHostId": machine,
        },
    }


def _storage(mounts: Mapping[str, Any]) -> dict[str, Any]:
    persistent = mounts.get("persistent")
    network = next(iter(mounts.get("network") or ()), None)
    return {
        "volumeInGb": persistent["size"] if persistent else 0,
        "volumeMountPath": (persistent or network or {}).get("path"),
        "networkVolumeId": network["volumeId"] if network else None,
    }


def _runtime(pod: PodRecord) -> dict[str, Any] | None:
    if pod.runtime is None:
        return None
    ports = [
        {
            "ip": port.ip,
            "isIpPublic": port.public is not None,
            "privatePort": port.private,
            "publicPort": port.public,
            "type": port.type,
        }
        for port in pod.runtime.ports
    ]
    return {"uptimeInSeconds": pod.runtime.uptime, "ports": ports}
