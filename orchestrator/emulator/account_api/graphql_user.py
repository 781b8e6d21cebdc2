"""What the official tools ask of the account by GraphQL besides endpoints, templates, secrets and pods (as observed):
the user, the credentials of registries, the types of GPUs and where they are. Balances and prices are made up.
"""

import random
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.gpu_catalog import POOLS, gpu_type_records
from orchestrator.emulator.contract.ids_and_times import resource_id

SCHEMA = """
extend type Query {
  gpuTypes(input: GpuTypeFilter): [GpuType]
  cpuFlavors(input: CpuFlavorInput): [CpuFlavor]
  dataCenters: [DataCenter]
  serverlessGpuPools: [ServerlessGpuPool]
  podTemplates(input: PodTemplateInput): [PodTemplate]
}

extend type Mutation {
  updateUserSettings(input: UpdateUserSettingsInput): User
  saveRegistryAuth(input: SaveRegistryAuthInput!): ContainerRegistryAuth
  updateRegistryAuth(input: UpdateRegistryAuthInput!): ContainerRegistryAuth
  deleteRegistryAuth(registryAuthId: String!): Void
}

extend type User {
  email: String
  pubKey: String
  clientBalance: Float
  currentSpendPerHr: Float
  spendLimit: Float
  notifyPodsStale: Boolean
  notifyPodsGeneral: Boolean
  notifyLowBalance: Boolean
  networkVolumes: [UserNetworkVolume]
  containerRegistryCreds: [ContainerRegistryAuth]
}

type UserNetworkVolume { id: String, name: String, size: Int, dataCenterId: String }

type ContainerRegistryAuth { id: String, name: String }

type GpuType {
  id: String
  displayName: String
  manufacturer: String
  memoryInGb: Int
  maxGpuCount: Int
  cudaCores: Int
  secureCloud: Boolean
  communityCloud: Boolean
  securePrice: Float
  communityPrice: Float
  oneWeekPrice: Float
  oneMonthPrice: Float
  threeMonthPrice: Float
  communitySpotPrice: Float
  secureSpotPrice: Float
  lowestPrice(input: GpuLowestPriceInput): LowestPrice
}

type LowestPrice {
  minimumBidPrice: Float
  uninterruptablePrice: Float
  minVcpu: Int
  minMemory: Int
  stockStatus: String
  gpuTypeCudaVersions: [CudaVersionAvailability]
}

type CudaVersionAvailability { cudaVersion: String, availability: String }
type CpuFlavor { id: String, displayName: String, specifics(input: SpecificsInput): CpuSpecifics }
type CpuSpecifics { stockStatus: String, securePrice: Float }
type DataCenter { id: String, name: String, location: String, gpuAvailability: [GpuAvailability] }
type GpuAvailability { gpuTypeId: String, displayName: String, stockStatus: String, available: Boolean }
type ServerlessGpuPool { id: String, gpuTypeIds: [String] }

input GpuTypeFilter { id: String, ids: [String] }
input CpuFlavorInput { id: String }
input SpecificsInput { dataCenterId: String, instanceId: String }
input PodTemplateInput { isRunpod: Boolean }
input UpdateUserSettingsInput { pubKey: String }
input SaveRegistryAuthInput { name: String!, username: String!, password: String! }
input UpdateRegistryAuthInput { id: String!, username: String!, password: String! }

input GpuLowestPriceInput {
  allowedCudaVersions: [String]
  compliance: [String]
  countryCode: String
  dataCenterId: String
  gpuCount: Int
  includeAiApi: Boolean
  minMemoryInGb: Int
  minVcpuCount: Int
  secureCloud: Boolean
  supportPublicIp: Boolean
}
"""

DATA_CENTER = "EMU-1"
CUDA_VERSIONS = ("12.4", "12.8", "13.0")
CPU_FLAVORS = ("cpu3c", "cpu3g", "cpu5c", "cpu5g")

IN_STOCK, OUT_OF_STOCK = "High", None

GraphQLInput = Mapping[str, Any]


class Registry(msgspec.Struct, frozen=True):
    """The credentials of a registry, as they are shown: never their password."""

    id: str
    name: str


class UserDocuments:
    """The operations on the user. `in_stock` are the types of GPUs that there are; None has all of them."""

    def __init__(self, rng: random.Random, in_stock: Collection[str] | None = None) -> None:
        self._rng = rng
        self._in_stock = in_stock
        self._ssh_keys = ""
        self._registries: dict[str, Registry] = {}

    def shown(self) -> dict[str, Any]:
        """The user."""
        return {
            "id": "user_emulated",
            "email": "user@emulator.invalid",
            "pubKey": self._ssh_keys,
            "clientBalance": 100.0,
            "currentSpendPerHr": 0.0,
            "spendLimit": 80.0,
            "notifyPodsStale": True,
            "notifyPodsGeneral": True,
            "notifyLowBalance": True,
            "networkVolumes": [],
            "containerRegistryCreds": list(self._registries.values()),
        }

    def update(self, wanted: GraphQLInput | None) -> dict[str, Any]:
        """Replaces the SSH keys, where they are given."""
        self._ssh_keys = (wanted or {}).get("pubKey") or self._ssh_keys
        return self.shown()

    def save_registry(self, wanted: GraphQLInput) -> Registry:
        """Raises Refusal 400 for a name that is taken."""
        if any(each.name == wanted["name"] for each in self._registries.values()):
            raise ServiceRefusal(400, f"registry auth name must be unique: {wanted['name']}")
        registry = Registry(resource_id(self._rng), wanted["name"])
        self._registries[registry.id] = registry
        return registry

    def update_registry(self, wanted: GraphQLInput) -> Registry:
        """Raises Refusal 404."""
        return self._registry(wanted["id"])

    def delete_registry(self, registry_id: str) -> None:
        """Raises Refusal 404."""
        del self._registries[self._registry(registry_id).id]

    def _registry(self, registry_id: str) -> Registry:
        registry = self._registries.get(registry_id)
        if registry is None:
            raise ServiceRefusal(404, "registry auth not found")
        return registry

    def gpu_types(self, wanted: GraphQLInput | None) -> list[dict[str, Any]]:
        """Those of the catalog that are asked for; without a wish all of them."""
        given = wanted or {}
        asked = {each for each in (given.get("id"), *(given.get("ids") or ())) if each}
        return [self._gpu_type(each) for each in gpu_type_records() if not asked or each["id"] in asked]

    def data_centers(self) -> list[dict[str, Any]]:
        """The only one."""
        stock = [
            {"gpuTypeId": each["id"], "displayName": each["name"], **self._stock(each["id"])}
            for each in gpu_type_records()
        ]
        return [{"id": DATA_CENTER, "name": DATA_CENTER, "location": "nowhere", "gpuAvailability": stock}]

    def _gpu_type(self, known: dict[str, Any]) -> dict[str, Any]:
        secure, community = known["price"]["secure"], known["price"]["community"]
        return {
            "id": known["id"],
            "displayName": known["name"],
            "manufacturer": "Nvidia",
            "memoryInGb": known["memory"],
            "maxGpuCount": known["maxCount"]["secure"],
            "cudaCores": 0,
            "secureCloud": True,
            "communityCloud": True,
            "securePrice": secure,
            "communityPrice": community,
            "oneWeekPrice": secure,
            "oneMonthPrice": secure,
            "threeMonthPrice": secure,
            "communitySpotPrice": community / 2,
            "secureSpotPrice": secure / 2,
            "lowestPrice": lambda **given: self._lowest_price(known, given.get("input") or {}),
        }

    def _lowest_price(self, known: dict[str, Any], wanted: GraphQLInput) -> dict[str, Any]:
        count = wanted.get("gpuCount") or 1
        price = known["price"]["secure" if wanted.get("secureCloud") else "community"] * count
        stock = self._stock(known["id"])["stockStatus"]
        return {
            "minimumBidPrice": price / 2,
            "uninterruptablePrice": price,
            "minVcpu": 8 * count,
            "minMemory": 64 * count,
            "stockStatus": stock,
            "gpuTypeCudaVersions": [{"cudaVersion": each, "availability": stock} for each in CUDA_VERSIONS],
        }

    def _stock(self, gpu_type: object) -> dict[str, Any]:
        is_there = self._in_stock is None or gpu_type in self._in_stock
        return {"stockStatus": IN_STOCK if is_there else OUT_OF_STOCK, "available": is_there}


def cpu_flavors(wanted: GraphQLInput | None) -> list[dict[str, Any]]:
    """Those that are asked for; without a wish all of them."""
    asked = (wanted or {}).get("id")
    return [
        {"id": each, "displayName": each, "specifics": {"stockStatus": IN_STOCK, "securePrice": 0.1}}
        for each in CPU_FLAVORS
        if asked in (None, each)
    ]


def pools() -> list[dict[str, Any]]:
    """The pools of types, and what is in each."""
    return [{"id": pool, "gpuTypeIds": list(types)} for pool, types in POOLS.items()]
