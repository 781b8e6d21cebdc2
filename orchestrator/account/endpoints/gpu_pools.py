"""GPU types and the pools that they are in: REST v1 names types, GraphQL pools, REST v2 pools less some types.

Which pool has which types, only the catalog of REST v2 says; it is read once, where somebody needs it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from orchestrator.account.transport.rest_client import Rest
from orchestrator.client.jobs.refusals import AnswerError, RefusedError
from orchestrator.errors import UsageError

_POOL: Final = re.compile(r"[A-Z]+(_[A-Z0-9]+)*_[0-9]+(_[A-Z0-9]+)*")
"""`AMPERE_24`, `ADA_48_PRO`; names of types have spaces and small letters."""

_PATH: Final = "/v2/catalog/gpus"


T = TypeVar("T")


async def gpu_types(rest: Rest, kind: type[T]) -> list[T]:
    """The GPU types of the catalog, each as a `kind`. Raises what `Rest` does."""
    return await rest.all("the catalog of GPUs", _PATH, "gpus", msgspec.json.Decoder(kind).decode, in_pages=False)


def are_pools(names: Collection[str]) -> tuple[str, ...]:
    """Those of `names` that are pools."""
    return tuple(name for name in names if _POOL.fullmatch(name) is not None)


class GpuPools:
    """The catalog of the service, as far as it is about pools. Calls raise what `Rest` does."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._pool_of: Mapping[str, str] | None = None

    async def wanted(self, choices: Sequence[str]) -> dict[str, list[str]]:
        """`choices`, types and pools, as pools and the types in them that are excluded.

        Raises `UsageError` for a type that is in no pool.
        """
        whole = are_pools(choices)
        if len(whole) == len(choices):
            return {"pools": list(choices)}
        pool_of = await self._catalog()
        for choice in choices:
            if choice not in pool_of and choice not in whole:
                known = ", ".join(sorted(pool_of)) or "none"
                raise UsageError(f"the service has no GPU type {choice[:80]!r}; it has {known}; nothing was sent")
        pools = list(dict.fromkeys(pool_of.get(choice, choice) for choice in choices))
        excluded = [
            each for each, pool in pool_of.items() if pool in pools and pool not in whole and each not in choices
        ]
        return {"pools": pools, **({"excludedTypes": excluded} if excluded else {})}

    async def shown(self, gpu: Mapping[str, Any]) -> list[str]:
        """The pools of a record, or the types that are left of one where some are excluded; without a catalog these,
        with a minus.
        """
        pools, excluded = _texts(gpu, "pools"), _texts(gpu, "excludedTypes")
        if not excluded:
            return pools
        try:
            pool_of = await self._catalog()
        except (RefusedError, AnswerError):  # who may see endpoints need not see the catalog
            return [*pools, *(f"-{each}" for each in excluded)]
        shown = []
        for pool in pools:
            types = [each for each, of in pool_of.items() if of == pool]
            left = [each for each in types if each not in excluded]
            shown += [pool] if left == types else left
        return shown

    async def _catalog(self) -> Mapping[str, str]:
        """The pool of each type that has one."""
        if self._pool_of is None:
            types = await gpu_types(self._rest, _GpuType)
            self._pool_of = {each.id: each.pool for each in types if each.pool}
        return self._pool_of


def _texts(members: Mapping[str, Any], name: str) -> list[str]:
    """The texts in a list; none where there is none."""
    value = members.get(name)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


class _GpuType(msgspec.Struct, frozen=True):
    id: str
    pool: str | None = None
