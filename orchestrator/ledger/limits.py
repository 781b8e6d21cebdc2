"""Limits that people set while a run goes on, and how the process at work stands with its own.

Both belong to an endpoint, since the service counts by endpoint, whichever run a request is for.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from sqlalchemy import bindparam, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.pacing import Limit, Meter, Operation
from orchestrator.ledger.sqlite.statements import IN_BATCH, batch_of, upsert
from orchestrator.ledger.tables import limits, meters
from orchestrator.units import SECOND_US

_OPERATIONS: Final = frozenset(Operation)

_SET: Final = upsert(
    limits, lambda new: {name: new[name] for name in ("requests", "window_us", "concurrent", "set_at")}
)
_RESET: Final = delete(limits).where(
    limits.c.endpoint_id == bindparam("of"),
    limits.c.operation.in_(IN_BATCH),
)
_FORGET: Final = delete(meters).where(
    meters.c.endpoint_id == bindparam("of"),
    meters.c.operation.in_(IN_BATCH),
)
_WRITE: Final = upsert(meters, lambda new: {name: new[name] for name in ("used", "allowance", "throttled", "at")})


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How an operation stood with its limit at `at` (microseconds UTC): `used` of `allowance` slots, 429s so far."""

    endpoint_id: int
    operation: Operation
    used: int
    allowance: int
    throttled: int
    at: int


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that a person has set, and when (microseconds UTC)."""

    limit: Limit
    set_at: int


async def limits_all(connection: AsyncConnection) -> Mapping[int, Mapping[Operation, Chosen]]:
    """The limits that people have set, by endpoint."""
    found: dict[int, dict[Operation, Chosen]] = {}
    for row in await connection.execute(select(limits)):
        if row.operation in _OPERATIONS:
            limit = Limit(row.requests, row.window_us / SECOND_US, row.concurrent)
            of_endpoint = found.setdefault(row.endpoint_id, {})
            of_endpoint[Operation(row.operation)] = Chosen(limit=limit, set_at=row.set_at)
    return found


async def limits_set(
    connection: AsyncConnection, endpoint_id: int, chosen: Mapping[Operation, Limit], *, at: int
) -> None:
    """Sets limits of an endpoint, whatever they were; at least one is `chosen`. How their operations stand with the
    former limits is forgotten.
    """
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
    await connection.execute(_FORGET, _these(endpoint_id, chosen))


async def limits_reset(connection: AsyncConnection, endpoint_id: int, operations: Collection[Operation]) -> None:
    """Forgets what was set for these operations of an endpoint, and how they stand with that."""
    await connection.execute(_RESET, _these(endpoint_id, operations))
    await connection.execute(_FORGET, _these(endpoint_id, operations))


def _these(endpoint_id: int, operations: Collection[Operation]) -> Mapping[str, object]:
    return {"of": endpoint_id, **batch_of(sorted(operations))}


async def meters_replace(connection: AsyncConnection, read: Mapping[tuple[int, Operation], Meter], *, at: int) -> None:
    """Like `meters_write`, and forgets what any earlier process has written."""
    await connection.execute(delete(meters))
    if read:
        await meters_write(connection, read, at=at)


async def meters_write(connection: AsyncConnection, read: Mapping[tuple[int, Operation], Meter], *, at: int) -> None:
    """Writes down how operations of endpoints stand; at least one."""
    rows = [
        {
            "endpoint_id": endpoint_id,
            "operation": operation.value,
            "used": figures.used,
            "allowance": figures.allowance,
            "throttled": figures.throttled,
            "at": at,
        }
        for (endpoint_id, operation), figures in read.items()
    ]
    await connection.execute(_WRITE, rows)


async def meters_all(connection: AsyncConnection) -> list[Reading]:
    """What was written last, of every operation of every endpoint."""
    return [
        Reading(
            endpoint_id=row.endpoint_id,
            operation=Operation(row.operation),
            used=row.used,
            allowance=row.allowance,
            throttled=row.throttled,
            at=row.at,
        )
        for row in await connection.execute(select(meters))
        if row.operation in _OPERATIONS
    ]
