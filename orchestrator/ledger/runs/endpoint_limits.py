"""Limits that people set while a run goes on.

They belong to an endpoint, since the service counts by endpoint, whichever run a request is for.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from sqlalchemy import bindparam, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.ledger.schema.job_tables import limits
from orchestrator.ledger.sqlite.statements import IN_BATCH, batch_of, upsert
from orchestrator.ledger.transactions.repository import Repository
from orchestrator.units import SECOND_US

_OPERATIONS: Final = frozenset(Operation)

_SET: Final = upsert(
    limits, lambda new: {name: new[name] for name in ("requests", "window_us", "concurrent", "set_at")}
)
_RESET: Final = delete(limits).where(limits.c.endpoint_id == bindparam("of"), limits.c.operation.in_(IN_BATCH))


class ChosenLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that a person has set, and when (microseconds UTC)."""

    limit: Limit
    set_at: int


class ChosenLimits(Repository):
    """The limits that people have set in a ledger."""

    async def all(self) -> Mapping[int, Mapping[Operation, ChosenLimit]]:
        """The limits that people have set, by endpoint."""
        found: dict[int, dict[Operation, ChosenLimit]] = {}
        for row in await self._access.rows(select(limits)):
            if row.operation in _OPERATIONS:
                limit = Limit(row.requests, row.window_us / SECOND_US, row.concurrent)
                of_endpoint = found.setdefault(row.endpoint_id, {})
                of_endpoint[Operation(row.operation)] = ChosenLimit(limit=limit, set_at=row.set_at)
        return found


async def chosen_limits_write(
    connection: AsyncConnection, endpoint_id: int, chosen: Mapping[Operation, Limit], *, at: int
) -> None:
    """Sets limits of an endpoint, whatever they were; at least one is `chosen`."""
    rows = [
        {
            "endpoint_id": endpoint_id,
            "operation": operation.value,
            "requests": limit.requests,
            "window_us": round(limit.window_s * SECOND_US),
            "concurrent": limit.concurrent,
            "set_at": at,
        }
        for operation, limit in chosen.items()
    ]
    await connection.execute(_SET, rows)


async def chosen_limits_delete(
    connection: AsyncConnection, endpoint_id: int, operations: Collection[Operation]
) -> None:
    """Forgets what was set for these operations of an endpoint."""
    await connection.execute(_RESET, {"of": endpoint_id, **batch_of(sorted(operations))})
