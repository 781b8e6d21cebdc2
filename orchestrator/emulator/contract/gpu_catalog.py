"""What the emulated service has: GPU types and their pools, CPU flavors, data centers (as observed; prices, and which
data centers there are, are made up).

Older interfaces name types, the newer one pools and the types in them that are not wanted: here each is said in the
words of the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final

POOLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "AMPERE_16": ("NVIDIA RTX A4000", "NVIDIA RTX A4500", "NVIDIA RTX 4000 Ada Generation"),
        "AMPERE_24": ("NVIDIA L4", "NVIDIA RTX A5000", "NVIDIA GeForce RTX 3090"),
        "ADA_24": ("NVIDIA GeForce RTX 4090",),
        "AMPERE_48": ("NVIDIA A40", "NVIDIA RTX A6000"),
        "ADA_48_PRO": ("NVIDIA L40", "NVIDIA L40S", "NVIDIA RTX 6000 Ada Generation"),
        "AMPERE_80": ("NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB"),
        "ADA_80_PRO": ("NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL"),
        "HOPPER_141": ("NVIDIA H200",),
    }
)

POOL_OF: Mapping[str, str] = MappingProxyType({each: pool for pool, types in POOLS.items() for each in types})


def types_of(choices: Iterable[str]) -> tuple[str, ...]:
    """The types that `choices`, types and pools, stand for, in their order."""
    return tuple(dict.fromkeys(each for choice in choices for each in POOLS.get(choice, (choice,))))


def wanted_types(pools: Iterable[str], excluded: Iterable[str]) -> tuple[str, ...]:
    """Pools without the types that are excluded: a pool, or what is left of one."""
    without = frozenset(excluded)
    return tuple(each for pool in pools for each in _left(pool, without))


def _left(pool: str, without: AbstractSet[str]) -> tuple[str, ...]:
    types = POOLS.get(pool, ())
    return (pool,) if without.isdisjoint(types) else tuple(each for each in types if each not in without)


def in_pools(choices: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The same as pools and the types in them that are excluded. What no pool holds counts as one."""
    pools = tuple(dict.fromkeys(POOL_OF.get(choice, choice) for choice in choices))
    wanted = types_of(choices)
    return pools, tuple(each for pool in pools for each in POOLS.get(pool, ()) if each not in wanted)


GPU_USD: Mapping[str, float] = MappingProxyType({"SECURE": 1.0, "COMMUNITY": 0.8})
"""What an hour of any GPU of a pod costs, by the cloud that it is in."""

VCPU_USD: Final = 0.03
"""What an hour of a vCPU costs."""


def gpu_type_records() -> list[dict[str, object]]:
    """The catalog as it is shown."""
    return [
        {
            "id": each,
            "name": each.removeprefix("NVIDIA "),
            "pool": pool,
            "manufacturer": "NVIDIA",
            "memory": int(pool.split("_")[1]),
            "secure": True,
            "community": True,
            "price": {"secure": GPU_USD["SECURE"], "community": GPU_USD["COMMUNITY"], "serverless": 1.2},
            "maxCount": {"secure": 8, "community": 8},
        }
        for pool, types in POOLS.items()
        for each in types
    ]


FLAVORS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "cpu3c": ("Compute-Optimized", 2),
        "cpu3g": ("General Purpose", 4),
        "cpu3m": ("Memory-Optimized", 8),
        "cpu5c": ("Compute-Optimized", 2),
        "cpu5g": ("General Purpose", 4),
        "cpu5m": ("Memory-Optimized", 8),
    }
)
"""The group of each CPU flavor, and its GB of memory for each vCPU."""

DATA_CENTERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "EU-RO-1": ("Romania", "EUROPE"),
        "EU-SE-1": ("Sweden", "EUROPE"),
        "US-GA-1": ("Georgia", "NORTH_AMERICA"),
        "US-KS-2": ("Kansas", "NORTH_AMERICA"),
    }
)
"""Where each data center is, and in which region."""


def cpu_type_records() -> list[dict[str, object]]:
    """The CPU flavors as they are shown."""
    return [
        {
            "id": each,
            "name": f"{group} ({each})",
            "group": group,
            "vcpu": {"min": 2, "max": 32},
            "ramGbPerVcpu": memory,
            "price": {"securePerVcpu": VCPU_USD, "serverlessPerVcpu": 0.04},
        }
        for each, (group, memory) in FLAVORS.items()
    ]


def data_center_records(regions: Sequence[str] = ()) -> list[dict[str, object]]:
    """The data centers as they are shown: those of `regions`, or all."""
    return [
        {"id": each, "name": name, "region": region, "globalNetwork": True}
        for each, (name, region) in DATA_CENTERS.items()
        if not regions or region in regions
    ]
