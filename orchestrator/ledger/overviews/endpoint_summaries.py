"""All endpoints at once, for those who look: which there are, and how many runs were ever at each."""

from typing import Final

import msgspec
from sqlalchemy import bindparam, func, select

from orchestrator.ledger.schema.job_tables import endpoints, runs
from orchestrator.ledger.transactions.repository import Repository


class EndpointRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An endpoint of the service."""

    id: int
    service_url: str
    endpoint: str
    runs: int
    """How many runs there are of which it is the endpoint."""


_ENDPOINTS: Final = (
    select(endpoints.c.id, endpoints.c.service_url, endpoints.c.endpoint, func.count(runs.c.id))
    .select_from(endpoints.outerjoin(runs, runs.c.endpoint_id == endpoints.c.id))
    .group_by(endpoints.c.id)
    .order_by(func.max(runs.c.id).desc(), endpoints.c.id.desc())
)
_ALL: Final = _ENDPOINTS.limit(bindparam("most"))
_ONE: Final = _ENDPOINTS.where(endpoints.c.id == bindparam("of"))


class EndpointSummaries(Repository):
    """The endpoints of a ledger."""

    async def all(self, most: int) -> list[EndpointRow]:
        """Up to `most`, those of the newest runs first."""
        return await self._access.structs(EndpointRow, _ALL, {"most": most})

    async def numbered(self, number: int) -> EndpointRow | None:
        """The one of that number, or None."""
        return await self._access.first(EndpointRow, _ONE, {"of": number})
