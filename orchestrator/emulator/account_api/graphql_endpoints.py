"""Endpoints by GraphQL, as the official SDK manages them (as observed): its words for what `endpoints` knows.

The contract creates endpoints by REST; this is here so that the official tools find what they ask for. GPU ids are
names of pools, comma-separated, and with a minus those of types in them that are not wanted.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from orchestrator.emulator.account.endpoints import Changes, EndpointStore, ServiceEndpoint, shown_endpoint_v1
from orchestrator.emulator.account.template_bodies import DISK_GB
from orchestrator.emulator.account.templates import ServiceTemplate, TemplateStore
from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.gpu_catalog import in_pools, wanted_types

_ENDPOINT = """
  id: String
  templateId: String
  gpuIds: String
  gpuCount: Int
  networkVolumeId: String
  locations: String
  idleTimeout: Int
  scalerType: String
  scalerValue: Int
  workersMin: Int
  workersMax: Int
  allowedCudaVersions: String
  flashBootType: FlashBootType
  executionTimeoutMs: Int
  instanceIds: [String]
  minCudaVersion: String
  modelReferences: [String]
  flashEnvironmentId: String
  workersPFBTarget: Int
  type: String
"""
"""What is said of an endpoint in both directions."""

SCHEMA = (
    """
enum FlashBootType { OFF FLASHBOOT PRIORITY_FLASHBOOT }

type NetworkVolume { id: String, dataCenterId: String }

type EndpointNetworkVolume { networkVolumeId: String, dataCenterId: String }

type Endpoint {"""
    + _ENDPOINT
    + """  name: String
  networkVolume: NetworkVolume
  workersStandby: Int
  computeType: String
  networkVolumeIds: [EndpointNetworkVolume]
  activeBuildid: String
  idePodId: String
  template: PodTemplate
  env: [EnvironmentVariable]
  userId: String
  version: Int
  createdAt: String
  aiKey: String
}

input EndpointInput {"""
    + _ENDPOINT
    + """  name: String!
  template: EndpointTemplateInput
  networkVolumeIds: [NetworkVolumeIdInput]
}

input NetworkVolumeIdInput { networkVolumeId: String!, dataCenterId: String }

input EndpointTemplateInput {
  id: String
  name: String!
  imageName: String
  containerDiskInGb: Int
  containerRegistryAuthId: String
  dockerArgs: String
  env: [EnvironmentVariableInput]
  ports: String
  readme: String
  startScript: String
  advancedStart: Boolean
  config: JSON
}

input UpdateEndpointTemplateInput { endpointId: String!, templateId: String! }
"""
)


class EndpointDocuments:
    """The operations on endpoints."""

    def __init__(self, endpoints: EndpointStore, templates: TemplateStore) -> None:
        self._endpoints = endpoints
        self._templates = templates

    def list(self) -> list[dict[str, Any]]:
        """All of them, oldest first."""
        return [self._shown(endpoint) for endpoint in self._endpoints.list()]

    def find(self, endpoint_id: str) -> dict[str, Any] | None:
        """None where there is none (as observed)."""
        return next((each for each in self.list() if each["id"] == endpoint_id), None)

    def save(self, wanted: Mapping[str, Any], now: int) -> dict[str, Any]:
        """Creates an endpoint, or changes the one whose `id` is given. Raises Refusal."""
        settings = _settings(wanted)
        if wanted.get("id"):
            return self._shown(self._endpoints.update(wanted["id"], settings, now))
        own = None if wanted.get("template") is None else self._template(wanted["template"])
        return self._shown(self._endpoints.create(settings, now, own=own))

    def update_template(self, wanted: Mapping[str, Any], now: int) -> dict[str, Any]:
        """Puts another template under an endpoint. Raises Refusal."""
        return self._shown(self._endpoints.update(wanted["endpointId"], {"templateId": wanted["templateId"]}, now))

    def _template(self, wanted: Mapping[str, Any]) -> ServiceTemplate:
        """The template that a new endpoint is to have for its own."""
        given = {name: value for name, value in wanted.items() if value is not None and value != ""}
        if "imageName" not in given:
            raise ServiceRefusal(400, "image name cannot be empty")
        defaults = {"containerDiskInGb": DISK_GB, "volumeInGb": 0, "isServerless": True}
        return msgspec.convert({**defaults, **given, "id": self._templates.new_id()}, ServiceTemplate)

    def _shown(self, endpoint: ServiceEndpoint) -> dict[str, Any]:
        return {**_shown(endpoint), "template": self._templates.find(endpoint.template_id)}

    def delete(self, endpoint_id: str, now: int) -> None:
        """Raises Refusal: also while the endpoint may have workers, which REST does not ask about."""
        if self._endpoints.find(endpoint_id).workers_max > 0:
            raise ServiceRefusal(400, "workersMin and workersMax must be 0 before an endpoint can be deleted")
        self._endpoints.delete(endpoint_id, now)


def _settings(wanted: Mapping[str, Any]) -> Changes:
    """What is not said is None, which an update leaves as it is."""
    if wanted.get("scalerType") not in {None, "QUEUE_DELAY", "REQUEST_COUNT"}:
        raise ServiceRefusal(400, "scalerType must be QUEUE_DELAY or REQUEST_COUNT")
    flashboot, volumes = wanted.get("flashBootType"), wanted.get("networkVolumeIds")
    return {
        **wanted,
        "type": None,  # as every endpoint here has a queue
        "gpuTypeIds": _gpus(wanted.get("gpuIds")),
        "dataCenterIds": _names(wanted.get("locations")),
        "flashboot": None if flashboot is None else flashboot != "OFF",
        "networkVolumeId": wanted.get("networkVolumeId") or None,
        "networkVolumeIds": None if volumes is None else [each["networkVolumeId"] for each in volumes if each],
        "minCudaVersion": wanted.get("minCudaVersion") or None,
        "allowedCudaVersions": _names(wanted.get("allowedCudaVersions")),
    }


def _gpus(text: str | None) -> tuple[str, ...] | None:
    """Pools, and after them types with a minus that are not wanted of them."""
    names = _names(text)
    if names is None:
        return None
    without = [name.removeprefix("-") for name in names if name.startswith("-")]
    return wanted_types([name for name in names if not name.startswith("-")], without)


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _shown(endpoint: ServiceEndpoint) -> dict[str, Any]:
    """As v1 shows it, but for what GraphQL calls or writes otherwise."""
    pools, excluded = in_pools(endpoint.gpu_type_ids)
    return {
        **shown_endpoint_v1(endpoint),
        "gpuIds": ",".join([*pools, *(f"-{each}" for each in excluded)]),
        "locations": ",".join(endpoint.data_center_ids),
        "scalerValue": math.ceil(endpoint.scaler_value),
        "workersStandby": endpoint.workers_min,
        "flashBootType": "FLASHBOOT" if endpoint.flashboot else "OFF",
        "allowedCudaVersions": ",".join(endpoint.allowed_cuda_versions),
        "networkVolumeIds": [{"networkVolumeId": each} for each in endpoint.network_volume_ids],
        "workersPFBTarget": 0,
        "env": [{"key": key, "value": value} for key, value in endpoint.env.items()],
        "type": "QB",
    }
