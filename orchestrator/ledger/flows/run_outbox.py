"""Notifications of single runs: owed by the transaction that causes them, and kept until somebody has taken them or
they are given up. Where one is sent is what its run says by then, so a wrong address can be mended while messages wait.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, func, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.pipelines.run_news import RunNews, run_end, run_message
from orchestrator.ledger.schema.flow_tables import RUN_NEWS_UNSETTLED, run_outbox
from orchestrator.ledger.schema.job_tables import runs
from orchestrator.ledger.schema.row_codec import values
from orchestrator.ledger.transactions.repository import Repository
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.run_news import counts_of, news_owe, wanted_by


class RunMessage(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A message of a run that is owed, or was. Times are microseconds UTC."""

    id: int
    run: int
    name: str
    settings: bytes
    """Of the run, as it stands now."""

    news: RunNews
    body: bytes
    owed_at: int
    due_at: int
    tries: int
    taken_at: int | None
    given_up_at: int | None
    problem: str
    """Why it was not taken the last time."""

    @property
    def notify(self) -> str | None:
        """Where it is sent; None: nobody wants to hear of the run any more."""
        return wanted_by(self.settings)


class _Said(msgspec.Struct, frozen=True):
    """What a message says, whenever that is."""

    data: msgspec.Raw


_said_in: Final = msgspec.json.Decoder(_Said)
_MESSAGES: Final = (
    select(
        run_outbox.c.id,
        run_outbox.c.run_id,
        runs.c.name,
        runs.c.settings,
        run_outbox.c.news,
        run_outbox.c.body,
        run_outbox.c.owed_at,
        run_outbox.c.due_at,
        run_outbox.c.tries,
        run_outbox.c.told_at,
        run_outbox.c.given_up_at,
        run_outbox.c.problem,
    )
    .select_from(run_outbox.join(runs, runs.c.id == run_outbox.c.run_id))
    .order_by(run_outbox.c.id)
)
_NEXT_DUE: Final = select(func.min(run_outbox.c.due_at)).where(RUN_NEWS_UNSETTLED)
_OWED: Final = select(func.count()).select_from(run_outbox).where(RUN_NEWS_UNSETTLED)
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


class RunOutbox(Repository):
    """The notifications of the runs of a ledger."""

    async def due(self, now: int, most: int) -> list[RunMessage]:
        """What is to be sent now, the oldest first."""
        query = _MESSAGES.where(RUN_NEWS_UNSETTLED, run_outbox.c.due_at <= now).limit(most)
        return values(RunMessage, await self._access.rows(query))

    async def next_due(self) -> int | None:
        """When something is to be sent next."""
        found = await self._access.value(_NEXT_DUE)
        return None if found is None else int(found)

    async def count_owed(self) -> int:
        """How many are still to be sent."""
        return int(await self._access.value(_OWED))

    async def problem(self) -> str:
        """Why the latest that is still to be sent could not be; "" where nothing is in the way."""
        return str(await self._access.value(_PROBLEM) or "")

    async def of(self, run: int) -> list[RunMessage]:
        """Those of a run, oldest first."""
        return values(RunMessage, await self._access.rows(_MESSAGES.where(run_outbox.c.run_id == run)))

    async def delivered(self, number: int) -> None:
        """Somebody has taken it."""
        await self._settle(number, told_at=self._access.now(), problem="")

    async def undelivered(self, number: int, problem: str, *, due_at: int | None) -> None:
        """Nobody has, so that it is sent again then; without a time it is given up."""
        then = {"given_up_at": self._access.now()} if due_at is None else {"due_at": due_at}
        await self._settle(number, problem=problem, **then)

    async def _settle(self, number: int, **changes: Any) -> None:
        meant = (run_outbox.c.id == bindparam("of")) & RUN_NEWS_UNSETTLED
        change = update(run_outbox).where(meant).values(tries=run_outbox.c.tries + 1, **changes)
        await self._access.execute(change, {"of": number})

    async def owe_stop(self, run: int, news: RunNews, why: str) -> bool:
        """Owes the message that the run has come to a standstill, where it tells somebody; returns whether it does. The
        same standstill is told once, whoever finds it.
        """

        async def block(transaction: Transaction) -> bool:
            return await self._owe_once(transaction.connection, run, lambda _: news, why)

        return await self._access.write(block)

    async def owe_end(self, run: int) -> None:
        """Owes the message that the run is over, where it is, and that was not the last to be owed: for who had it tell
        nobody until its input was read.
        """

        async def block(transaction: Transaction) -> None:
            await self._owe_once(transaction.connection, run, run_end, "")

        await self._access.write(block)

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
