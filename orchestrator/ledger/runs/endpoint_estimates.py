"""What processes have found out about the endpoints of a ledger, for those who come later or look from outside."""

from collections.abc import Mapping
from typing import Final

import msgspec
from sqlalchemy import select, update

from orchestrator.core.polling.endpoint_estimates import Learned
from orchestrator.ledger.schema.job_tables import endpoints
from orchestrator.ledger.transactions.repository import Repository

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
        await self._access.execute(update(endpoints).where(endpoints.c.id == endpoint).values(learned=encoded))


def _decoded(learned: bytes) -> Learned:
    """What another program wrote in words that this one does not know is not known here."""
    try:
        return _decode(learned)
    except msgspec.ValidationError:
        return Learned()
