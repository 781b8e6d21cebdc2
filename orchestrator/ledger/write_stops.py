"""That nothing can be written into a ledger any more, also by those who have it open: how each database says it stands
in its room.
"""

from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.ledger.statements import CarriedOut


class StopsWrites(Protocol):
    """How one database refuses to write."""

    async def put_up(self, connection: AsyncConnection, why: str) -> None: ...

    async def take_down(self, connection: AsyncConnection) -> None: ...


class WriteStop(CarriedOut[StopsWrites]):
    """No row of these tables can be made or changed."""

    def __init__(self, tables: Sequence[Table]) -> None:
        super().__init__()
        self.tables = tables

    async def put_up(self, connection: AsyncConnection, why: str) -> None:
        """From the end of this transaction on; who tries is told `why`, as `StorageError`."""
        await self._body(connection).put_up(connection, why)

    async def take_down(self, connection: AsyncConnection) -> None:
        """They can again."""
        await self._body(connection).take_down(connection)
