"""Notifications of single runs: owed by the transaction that causes them, and kept until somebody has taken them or
they are given up. Where one is sent is what its run says by then, so a wrong address can be mended while messages wait.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, case, delete, literal_column, select

from orchestrator.core.pipelines.receivers import Receiver, written_out
from orchestrator.core.pipelines.run_messages import RunNews, run_end
from orchestrator.ledger.flows.outbox import Message, Messages
from orchestrator.ledger.schema.flow_tables import RUN_NEWS_UNSETTLED, episodes, run_outbox
from orchestrator.ledger.schema.job_tables import runs
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.transactions.repository import Access, signalling
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.count_writes import counts_of
from orchestrator.ledger.transitions.run_messages_owed import (
    EPISODE_STANDS,
    episode_begin,
    news_owe,
    notify_in,
    notifying_run,
    receivers_in,
    start_owe,
)


class RunMessage(Message, frozen=True, kw_only=True, array_like=True):
    """A message of a run."""

    run: int
    name: str
    settings: bytes
    """Of the run, as it stands now."""

    news: RunNews

    @property
    def receivers(self) -> Sequence[Receiver]:
        """Whom the run tells, and of what, as it says it now."""
        return receivers_in(self.settings)

    @property
    def notify(self) -> str | None:
        """The address or the command that the run says itself; None: none any more."""
        return written_out(notify_in(self.settings))


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
    select(run_outbox.c.news).where(run_outbox.c.run_id == bindparam("run")).order_by(run_outbox.c.id.desc()).limit(1)
)
_QUIET: Final = (
    select(episodes.c.news)
    .where(episodes.c.run_id == bindparam("run"), episodes.c.over_at <= bindparam("until"))
    .order_by(episodes.c.began_at)
)


class RunOutbox(Messages):
    """The notifications of the runs of a ledger."""

    def __init__(self, access: Access) -> None:
        super().__init__(access, run_outbox, RUN_NEWS_UNSETTLED, "r")

    async def receivers_due(self, now: int) -> list[tuple[int, str]]:
        """Who is to be told now: the address of a run, or a target of whichever run (0)."""
        lane = case((run_outbox.c.target == "", run_outbox.c.run_id), else_=0).label("lane")
        query = select(lane, run_outbox.c.target).where(RUN_NEWS_UNSETTLED, run_outbox.c.due_at <= now).distinct()
        return [(row[0], row[1]) for row in await self._access.rows(query)]

    async def first_due(self, run: int, target: str, now: int) -> RunMessage | None:
        """The oldest one of these that is to be sent now."""
        query = _MESSAGES.where(RUN_NEWS_UNSETTLED, run_outbox.c.target == target, run_outbox.c.due_at <= now)
        if not target:
            query = query.where(run_outbox.c.run_id == run)
        return await self._access.first(RunMessage, query.limit(1))

    async def problem(self) -> str:
        """Why the latest that is still to be sent could not be; "" where nothing is in the way."""
        return str(await self._access.value(_PROBLEM) or "")

    async def of(self, run: int) -> list[RunMessage]:
        """Those of a run, oldest first."""
        return await self._access.structs(RunMessage, _MESSAGES.where(run_outbox.c.run_id == run))

    async def page(self, before: int | None, most: int, *, waiting: bool = False) -> list[RunMessage]:
        """The latest ones before that number, newest first; of these only who is `waiting` to be sent."""
        return await self._access.structs(RunMessage, self._page(_MESSAGES, before, waiting=waiting).limit(most))

    async def numbered(self, number: int) -> RunMessage | None:
        """The one of that number, or None."""
        return await self._access.first(RunMessage, _MESSAGES.where(run_outbox.c.id == number))

    # --- owed

    @signalling
    async def owe_start(self, transaction: Transaction, run: int) -> None:
        """Owes the message that a run has started, once, where it tells somebody."""
        await start_owe(transaction.connection, run, now=self._access.now())

    @signalling
    async def owe_end(self, transaction: Transaction, run: int) -> None:
        """Owes the message that the run is over, where it is, and that was not the last to be owed: for who had it tell
        nobody until its input was read.
        """
        connection = transaction.connection
        told, news = await notifying_run(connection, run), run_end(await counts_of(connection, run))
        if told is None or news is None:
            return
        latest = (await connection.execute(_LATEST, {"run": run})).scalar()
        if latest != news.value:
            await connection.execute(delete(episodes).where(episodes.c.run_id == run))
            await news_owe(connection, told, news, now=self._access.now())

    @signalling
    async def begin_episode(self, transaction: Transaction, run: int, news: RunNews, why: str) -> bool:
        """Something holds of a run. That is owed once, until it has been over for a while; returns whether it was."""
        told = await notifying_run(transaction.connection, run)
        if told is None:
            return False
        return await episode_begin(transaction.connection, told, news, now=self._access.now(), why=why)

    async def leave_episodes(self, run: int, news: Sequence[RunNews]) -> None:
        """These do not hold any more, as far as anybody sees: they are over once that stays so."""
        rows = [{"of": run, "it": each.value, "at": self._access.now()} for each in news]
        if rows:
            await self._access.shared.execute(EPISODE_STANDS, rows)

    async def episodes_of(self, run: int) -> dict[RunNews, int | None]:
        """What somebody was told of that holds of a run, each with since when it does not hold any more."""
        query = select(episodes.c.news, episodes.c.over_at).where(episodes.c.run_id == run)
        return {RunNews(row[0]): row[1] for row in await self._access.rows(query)}

    @signalling
    async def end_episodes(self, transaction: Transaction, run: int, until: int) -> list[RunNews]:
        """Ends those that have not held since then, which is owed in one message; returns them."""
        connection = transaction.connection
        over = [RunNews(row[0]) for row in await connection.execute(_QUIET, {"run": run, "until": until})]
        over = [each for each in over if each is not RunNews.STARTED]
        if not over:
            return []
        await connection.execute(delete(episodes).where(episodes.c.run_id == run, episodes.c.news.in_(over)))
        if (told := await notifying_run(connection, run)) is not None:
            why = f"it is not {' nor '.join(over)} any more"
            await news_owe(connection, told, RunNews.RECOVERED, now=self._access.now(), why=why)
        return over
