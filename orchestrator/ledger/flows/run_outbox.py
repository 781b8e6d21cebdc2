"""Notifications of single runs: owed by the transaction that causes them, and kept until somebody has taken them or
they are given up. Where one is sent is what its run says by then, so a wrong address can be mended while messages wait.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from sqlalchemy import bindparam, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.pipelines.run_news import RunNews, run_end, run_message
from orchestrator.ledger.flows.outbox import Message, Messages
from orchestrator.ledger.schema.flow_tables import RUN_NEWS_UNSETTLED, run_outbox
from orchestrator.ledger.schema.job_tables import runs
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.transactions.repository import Access, in_transaction
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.run_news import counts_of, news_owe, wanted_by


class RunMessage(Message, frozen=True, kw_only=True, array_like=True):
    """A message of a run."""

    run: int
    name: str
    settings: bytes
    """Of the run, as it stands now."""

    news: RunNews

    @property
    def notify(self) -> str | None:
        """Where it is sent; None: nobody wants to hear of the run any more."""
        return wanted_by(self.settings)


class _Said(msgspec.Struct, frozen=True):
    """What a message says, whenever that is."""

    data: msgspec.Raw


_said_in: Final = msgspec.json.Decoder(_Said)
_MESSAGES: Final = (
    select(*columns(RunMessage, run_outbox, name=runs.c.name, settings=runs.c.settings, taken_at=run_outbox.c.told_at))
    .select_from(run_outbox.join(runs, runs.c.id == run_outbox.c.run_id))
    .order_by(run_outbox.c.id)
)
_PROBLEM: Final = (
    select(run_outbox.c.problem)
    .where(RUN_NEWS_UNSETTLED, run_outbox.c.problem != literal_column("''"))
    .order_by(run_outbox.c.id.desc())
    .limit(1)
)
_LATEST: Final = (
    select(run_outbox.c.news, run_outbox.c.body)
    .where(run_outbox.c.run_id == bindparam("run"))
    .order_by(run_outbox.c.id.desc())
    .limit(1)
)


class RunOutbox(Messages):
    """The notifications of the runs of a ledger."""

    def __init__(self, access: Access) -> None:
        super().__init__(access, run_outbox, RUN_NEWS_UNSETTLED)

    async def due(self, now: int, most: int) -> list[RunMessage]:
        """What is to be sent now, the oldest first."""
        query = _MESSAGES.where(RUN_NEWS_UNSETTLED, run_outbox.c.due_at <= now).limit(most)
        return await self._access.structs(RunMessage, query)

    async def problem(self) -> str:
        """Why the latest that is still to be sent could not be; "" where nothing is in the way."""
        return str(await self._access.value(_PROBLEM) or "")

    async def of(self, run: int) -> list[RunMessage]:
        """Those of a run, oldest first."""
        return await self._access.structs(RunMessage, _MESSAGES.where(run_outbox.c.run_id == run))

    @in_transaction
    async def owe_stop(self, transaction: Transaction, run: int, news: RunNews, why: str) -> bool:
        """Owes the message that the run has come to a standstill, where it tells somebody; returns whether it does. The
        same standstill is told once, whoever finds it.
        """
        return await self._owe_once(transaction.connection, run, lambda _: news, why)

    @in_transaction
    async def owe_end(self, transaction: Transaction, run: int) -> None:
        """Owes the message that the run is over, where it is, and that was not the last to be owed: for who had it tell
        nobody until its input was read.
        """
        await self._owe_once(transaction.connection, run, run_end, "")

    async def _owe_once(
        self, connection: AsyncConnection, run: int, news_of: Callable[[Mapping[str, int]], RunNews | None], why: str
    ) -> bool:
        """Owes what there is to tell of the run, unless that is what was owed last."""
        now = self._access.now()
        row = (await connection.execute(select(runs.c.name, runs.c.settings).where(runs.c.id == run))).first()
        jobs = await counts_of(connection, run)
        news = news_of(jobs)
        if row is None or wanted_by(row.settings) is None or news is None:
            return False
        latest = (await connection.execute(_LATEST, {"run": run})).first()
        body = run_message(news, run=row.name, jobs=jobs, at=now, why=why)
        if latest is not None and latest.news == news.value and _said(latest.body) == _said(body):
            return False
        await news_owe(connection, run, news, body, now)
        return True


def _said(body: bytes) -> bytes:
    return bytes(_said_in.decode(body).data)
