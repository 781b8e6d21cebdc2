"""Files of the Batch API: what of each stands in the ledger. A file is there once its row is, and no longer."""

from collections.abc import Collection
from typing import Final

import msgspec
from sqlalchemy import Select, bindparam, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.batch_api.posted_file import PostedFile, Purpose
from orchestrator.ledger.schema.posted_tables import posted_files, posted_storage
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.statements import TEXTS_IN_BATCH, batch_of, replace_into
from orchestrator.ledger.transactions.repository import Repository, alone
from orchestrator.ledger.transactions.transaction import Transaction

_FILES: Final[Select[tuple[object, ...]]] = select(*columns(PostedFile, posted_files))
_ALWAYS: Final = 1
_BOUND: Final = replace_into(posted_storage)
SIZES: Final = select(func.coalesce(func.sum(posted_files.c.size), 0))
"""How many bytes all files have together."""


async def file_add(connection: AsyncConnection, file: PostedFile) -> None:
    """There is this file from now on."""
    row = msgspec.structs.asdict(file) | {"purpose": file.purpose.value}
    await connection.execute(insert(posted_files).values(row))


class PostedFiles(Repository):
    """Those of a ledger."""

    @alone
    async def add(self, transaction: Transaction, file: PostedFile, *, bytes_max: int) -> bool:
        """There is this file from now on. False, and nothing is changed, where all together would have more bytes."""
        before = (await transaction.connection.execute(SIZES)).scalar_one()
        if before + file.size > bytes_max:
            return False
        await file_add(transaction.connection, file)
        return True

    async def one(self, owner: str, file: str) -> PostedFile | None:
        """The one of that id; None where `owner` has none that is called so."""
        query = _FILES.where(posted_files.c.id == bindparam("id"), posted_files.c.owner == bindparam("owner"))
        return await self._access.first(PostedFile, query, {"id": file, "owner": owner})

    async def page(
        self, owner: str, *, after: str | None, most: int, is_oldest_first: bool = False, purpose: Purpose | None = None
    ) -> list[PostedFile]:
        """Those of `owner`, from behind the one of the id `after` on, newest first or oldest first."""
        number = posted_files.c.number
        query = _FILES.where(posted_files.c.owner == owner).order_by(number if is_oldest_first else number.desc())
        if purpose is not None:
            query = query.where(posted_files.c.purpose == purpose.value)
        if after is not None:
            there = select(number).where(posted_files.c.id == after, posted_files.c.owner == owner).scalar_subquery()
            query = query.where(number > there if is_oldest_first else number < there)
        return await self._access.structs(PostedFile, query.limit(most))

    async def remove(self, files: Collection[str]) -> int:
        """There are no files of these ids any more; returns how many there were."""
        return await self._access.shared.execute(
            delete(posted_files).where(posted_files.c.id.in_(TEXTS_IN_BATCH)), batch_of(files)
        )

    async def known(self, files: Collection[str]) -> frozenset[str]:
        """Which of these ids there are."""
        query = select(posted_files.c.id).where(posted_files.c.id.in_(TEXTS_IN_BATCH))
        return frozenset(row[0] for row in await self._access.rows(query, batch_of(files)))

    async def expired(self, now: int) -> list[PostedFile]:
        """Those that are to be there no longer."""
        return await self._access.structs(PostedFile, _FILES.where(posted_files.c.expires_at <= now))

    async def stored_bytes(self) -> int:
        """How many bytes all have together."""
        return int(await self._access.value(SIZES))

    async def bound(self, bytes_max: int) -> None:
        """So many bytes may all have together, by what whoever keeps them was told."""
        await self._access.shared.execute(_BOUND, {"number": _ALWAYS, "bytes_max": bytes_max})
