"""Notices: what webhooks told, until it was dealt with."""

from sqlalchemy import func, select

from orchestrator.core.notice import Notice
from orchestrator.ledger.doors import Noun
from orchestrator.ledger.records import fitting, notice_of
from orchestrator.ledger.tables import notices


class Notices(Noun):
    """The notices of a ledger. They are kept and forgotten in the transactions of the writer."""

    async def after(self, after: int, *, most: int, bytes_max: int) -> list[tuple[int, Notice]]:
        """Up to `most` notices that were not dealt with, with their numbers, in the order in which they came.

        Fewer where their outputs come to more than `bytes_max`, stored or unpacked; but at least one.
        """
        sizes = select(notices.c.id, func.coalesce(func.length(notices.c.output), 0))
        page: list[tuple[int, Notice]] = []
        held = 0
        async with self._doors.reading() as connection:
            query = sizes.where(notices.c.id > after).order_by(notices.c.id).limit(most)
            found = (await connection.execute(query)).all()
            taken = fitting((size for _, size in found), bytes_max)
            query = select(notices).where(notices.c.id > after).order_by(notices.c.id).limit(taken)
            for row in await connection.execute(query):
                notice = notice_of(row)
                held += len((notice.record and notice.record.output) or b"")
                if page and held > bytes_max:
                    break
                page.append((row.id, notice))
        return page

    async def count(self) -> int:
        """How many notices were not dealt with."""
        return int(await self._doors.value(select(func.count()).select_from(notices)))
