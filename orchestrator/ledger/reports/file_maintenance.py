"""The ledger as a file: its size, what it holds by table, and its unused room (vacuum)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sqlalchemy import func, select, text

from orchestrator.ledger.database import LedgerDatabase, Size
from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.ledger.transactions.repository import Access, Repository

_SCHEMA: Final = text("SELECT version_num FROM alembic_version")


class Upkeep(Repository):
    """What is done with a ledger as a whole."""

    def __init__(self, access: Access, database: LedgerDatabase) -> None:
        super().__init__(access)
        self._database = database

    async def size(self) -> Size:
        """Its pages."""
        return await self._database.size()

    async def schema(self) -> str:
        """The latest migration that was applied."""
        return str(await self._access.value(_SCHEMA))

    async def rows(self) -> Mapping[str, int]:
        """How many rows each table has. It counts them one by one, each table in a view of its own."""
        return {
            table.name: int(await self._access.value(select(func.count()).select_from(table)))
            for table in metadata.sorted_tables
        }

    async def compact(self) -> None:
        """Writes the file anew without unused pages. Nobody else writes meanwhile. Raises `StorageError`."""
        await self._database.compact()

    async def copy_to(self, path: Path) -> None:
        """Writes all that is committed into the empty file at `path`, also where the ledger's own is gone.

        Raises `StorageError`.
        """
        await self._database.copy_to(path)
