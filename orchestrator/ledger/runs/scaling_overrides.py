"""Scaling overrides: the bounds of endpoints' workers that were raised for runs, as they were before.

One is written before anything is raised, so that whoever comes next can put it back.
"""

from typing import Final

import msgspec
from sqlalchemy import delete, select

from orchestrator.core.gates.scaling_override import Bounds, RaisedWorkers, ScalingOverride
from orchestrator.ledger.schema.job_tables import endpoints, scaling_overrides
from orchestrator.ledger.sqlite.statements import upsert
from orchestrator.ledger.transactions.repository import Repository

_BOUNDS: Final = ("least_before", "most_before", "least_raised", "most_raised")

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
                    before=Bounds(row.least_before, row.most_before), raised=Bounds(row.least_raised, row.most_raised)
                ),
            )
            for row in await self._access.rows(query)
        ]

    async def write(self, endpoint_id: int, rest_url: str, loan: ScalingOverride) -> None:
        """Writes down what is about to be raised, in the place of what was known before. Raises `StorageError`."""
        values = {
            "endpoint_id": endpoint_id,
            "rest_url": rest_url,
            "least_before": loan.before.least,
            "most_before": loan.before.most,
            "least_raised": loan.raised.least,
            "most_raised": loan.raised.most,
            "lent_at": self._access.now(),
        }
        await self._access.execute(_WRITE, values)

    async def forget(self, endpoint_id: int) -> None:
        """It was put back, or is somebody else's by now."""
        await self._access.execute(delete(scaling_overrides).where(scaling_overrides.c.endpoint_id == endpoint_id))
