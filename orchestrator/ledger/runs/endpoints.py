"""What is kept of endpoints: limits that people have set, what processes have found out, and raised bounds of workers.

Limits belong to an endpoint, since the service counts by endpoint, whichever run a request is for. Raised bounds are
written before anything is raised, as they were before, so that whoever comes next can put them back.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from sqlalchemy import INTEGER, bindparam, delete, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.gates.scaling_override import Bounds, RaisedWorkers, ScalingOverride
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.polling.endpoint_estimates import Learned
from orchestrator.ledger.expressions import shard_of
from orchestrator.ledger.schema.job_tables import endpoints, limits, scaling_overrides
from orchestrator.ledger.statements import TEXTS_IN_BATCH, batch_of, upsert
from orchestrator.ledger.transactions.repository import Repository
from orchestrator.units import SECOND_US

_OPERATIONS: Final = frozenset(Operation)

_SET: Final = upsert(
    limits, lambda new: {name: new[name] for name in ("requests", "window_us", "concurrent", "set_at")}
)
_RESET: Final = delete(limits).where(limits.c.endpoint_id == bindparam("of"), limits.c.operation.in_(TEXTS_IN_BATCH))


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


_OF_SHARD: Final = select(endpoints.c.id).where(bindparam("shard") == literal_column(shard_of(), INTEGER))


class Shards(Repository):
    """The endpoints of a ledger by their shards: those that runs use together are one."""

    async def endpoints(self, shard: int) -> list[int]:
        """Those of one, by their numbers."""
        return [row.id for row in await self._access.rows(_OF_SHARD, {"shard": shard})]


_decode: Final = msgspec.json.Decoder(Learned).decode


class LearnedOfEndpoints(Repository):
    """What was learned of a ledger's endpoints, by their numbers."""

    async def all(self) -> Mapping[int, Learned]:
        """Of each endpoint of which anything was found out."""
        query = select(endpoints.c.id, endpoints.c.learned).where(endpoints.c.learned.is_not(None))
        return {row.id: _decoded(row.learned) for row in await self._access.rows(query)}

    async def of(self, endpoint: int) -> Learned:
        """What was found out of one."""
        found = await self._access.value(select(endpoints.c.learned).where(endpoints.c.id == endpoint))
        return Learned() if found is None else _decoded(found)

    async def write(self, endpoint: int, learned: Learned) -> None:
        """Writes it down, in the place of what was known before. Raises `StorageError`."""
        encoded = msgspec.json.encode(learned)
        await self._access.shared.execute(update(endpoints).where(endpoints.c.id == endpoint).values(learned=encoded))


def _decoded(learned: bytes) -> Learned:
    """What another program wrote in words that this one does not know is not known here."""
    try:
        return _decode(learned)
    except msgspec.ValidationError:
        return Learned()


_BOUNDS: Final = ("least_before", "most_before", "least_raised", "most_raised", "least_former", "most_former")

_WRITE: Final = upsert(scaling_overrides, lambda new: {name: new[name] for name in ("rest_url", "lent_at", *_BOUNDS)})


class LentEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint whose workers' bounds were raised."""

    endpoint_id: int
    """Its number in the ledger."""

    service_url: str
    endpoint: str
    rest_url: str
    """Where its bounds are changed."""

    loan: ScalingOverride
    lent_at: int
    """Microseconds UTC."""

    @property
    def shown(self) -> RaisedWorkers:
        """For people."""
        return RaisedWorkers(
            endpoint=self.endpoint,
            service_url=self.service_url,
            before=self.loan.before,
            raised=self.loan.raised,
            since=self.lent_at,
        )


class ScalingOverrides(Repository):
    """The scaling overrides of a ledger."""

    async def all(self) -> list[LentEndpoint]:
        """Those that were not put back."""
        query = select(scaling_overrides, endpoints.c.service_url, endpoints.c.endpoint).join(
            endpoints, endpoints.c.id == scaling_overrides.c.endpoint_id
        )
        return [
            LentEndpoint(
                endpoint_id=row.endpoint_id,
                service_url=row.service_url,
                endpoint=row.endpoint,
                rest_url=row.rest_url,
                lent_at=row.lent_at,
                loan=ScalingOverride(
                    before=Bounds(row.least_before, row.most_before),
                    raised=Bounds(row.least_raised, row.most_raised),
                    former=None if row.most_former is None else Bounds(row.least_former, row.most_former),
                ),
            )
            for row in await self._access.rows(query)
        ]

    async def write(self, endpoint_id: int, rest_url: str, loan: ScalingOverride, *, at: int | None = None) -> None:
        """Writes down what is about to be raised, or (`at`) was raised then, in the place of what was known before.
        Raises `StorageError`.
        """
        values = {
            "endpoint_id": endpoint_id,
            "rest_url": rest_url,
            "least_before": loan.before.least,
            "most_before": loan.before.most,
            "least_raised": loan.raised.least,
            "most_raised": loan.raised.most,
            "least_former": None if loan.former is None else loan.former.least,
            "most_former": None if loan.former is None else loan.former.most,
            "lent_at": self._access.now() if at is None else at,
        }
        await self._access.shared.execute(_WRITE, values)

    async def forget(self, endpoint_id: int) -> None:
        """It was put back, or is somebody else's by now."""
        await self._access.shared.execute(
            delete(scaling_overrides).where(scaling_overrides.c.endpoint_id == endpoint_id)
        )
