"""Notices: what webhooks told, each once, until it was dealt with."""

from typing import Final

from sqlalchemy import bindparam, func, select

from orchestrator.core.service.webhook_token import Notice
from orchestrator.ledger.schema.job_tables import notices
from orchestrator.ledger.schema.row_codec import fitting, notice_of
from orchestrator.ledger.transactions.repository import Repository, asked_again

_AFTER: Final = select(notices).where(notices.c.id > bindparam("after")).order_by(notices.c.id).limit(bindparam("most"))
_SIZES_AFTER: Final = _AFTER.with_only_columns(notices.c.id, func.coalesce(func.length(notices.c.output), 0))
_COUNT: Final = select(func.count()).select_from(notices)


class Notices(Repository):
    """The notices of a ledger. They are kept and forgotten in the transactions of the writer."""

    @asked_again
    async def after(self, after: int, *, most: int, bytes_max: int) -> list[tuple[int, Notice]]:
        """Up to `most` notices that were not dealt with, with their numbers, in the order in which they came.

        Fewer where their outputs come to more than `bytes_max`, stored or unpacked; but at least one.
        """
        page: list[tuple[int, Notice]] = []
        held = 0
        async with self._access.reading() as connection:
            found = (await connection.execute(_SIZES_AFTER, {"after": after, "most": most})).all()
            taken = fitting((size for _, size in found), bytes_max)
            for row in await connection.execute(_AFTER, {"after": after, "most": taken}):
                notice = notice_of(row)
                held += len((notice.record and notice.record.output) or b"")
                if page and held > bytes_max:
                    break
                page.append((row.id, notice))
        return page

    async def count(self) -> int:
        """How many notices were not dealt with."""
        return int(await self._access.value(_COUNT))
