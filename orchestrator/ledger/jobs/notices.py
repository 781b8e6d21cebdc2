"""Notices: what webhooks told, each once, until it was dealt with."""

from collections.abc import Container, Iterable
from typing import Final, NamedTuple

from sqlalchemy import bindparam, func, select

from orchestrator.core.service.webhook_token import Notice, NoticeKey
from orchestrator.ledger.schema.job_tables import notices
from orchestrator.ledger.schema.row_codec import fitting, notice_of
from orchestrator.ledger.statements import IN_BATCH, Among, batch_of
from orchestrator.ledger.transactions.repository import Repository, asked_again

NO_ENDPOINT: Final = 0
"""The endpoint of notices whose submission nobody knows."""

_SIZES_AFTER: Final = Among(
    select(notices.c.id, notices.c.submission_id, notices.c.status, func.coalesce(func.length(notices.c.output), 0)),
    notices.c.endpoint_id,
    lambda rows: rows.where(notices.c.id > bindparam("after")).order_by(notices.c.id).limit(bindparam("most")),
)
_THESE: Final = select(notices).where(notices.c.id.in_(IN_BATCH)).order_by(notices.c.id)
_COUNT: Final = select(func.count()).select_from(notices)


class NoticePage(NamedTuple):
    """Some of the notices that were not dealt with, in the order in which they came."""

    notices: list[Notice]
    place: int | None
    """Where the next page begins; None where this was the end."""


class Notices(Repository):
    """The notices of a ledger. They are kept and forgotten in the transactions of the writer."""

    @asked_again
    async def after(
        self,
        place: int,
        *,
        most: int,
        bytes_max: int,
        endpoints: Iterable[int] | None = None,
        held: Container[NoticeKey] = (),
    ) -> NoticePage:
        """The notices of `endpoints`, of all for None, that were not dealt with, from `place` on (0 for the first).

        Those that are `held` are left out, of up to `most` that are looked at; and so are later ones where the outputs
        come to more than `bytes_max`, stored or unpacked; but one is there if any is.
        """
        sizes, among = _SIZES_AFTER.of(endpoints)
        async with self._access.reading() as connection:
            found = (await connection.execute(sizes, {"after": place, "most": most, **(among or {})})).all()
            wanted = [(row[0], row[3]) for row in found if (row[1], row[2]) not in held]
            fit = [number for number, _ in wanted[: fitting((size for _, size in wanted), bytes_max)]]
            page: list[Notice] = []
            held_bytes = 0
            for row in await connection.execute(_THESE, batch_of(fit)) if fit else ():
                notice = notice_of(row)
                held_bytes += notice.bytes
                if page and held_bytes > bytes_max:
                    break
                page.append(notice)
        if len(page) < len(wanted):
            return NoticePage(page, fit[len(page) - 1])
        return NoticePage(page, found[-1][0] if len(found) == most else None)

    async def count(self) -> int:
        """How many notices were not dealt with."""
        return int(await self._access.value(_COUNT))
