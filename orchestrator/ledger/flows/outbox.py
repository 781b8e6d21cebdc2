"""The outbox of notifications: owed by the transaction that causes them, and kept until somebody has taken them or they
are given up.

What is owed goes by the version of the pipeline that the flow keeps; where it is sent, by the one that was applied
last: so a wrong address can be mended while messages wait.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Select, Table, bindparam, case, delete, func, literal_column, select, update

from orchestrator.core.pipelines.pipeline import News
from orchestrator.ledger.actions.action_rows import Act, Ended, SubjectKind, Verb, action_add
from orchestrator.ledger.actions.asker import Asker
from orchestrator.ledger.schema.flow_tables import (
    UNSETTLED,
    flows,
    message_ends,
    outbox,
    pipelines,
)
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.statements import upsert
from orchestrator.ledger.transactions.repository import Access, Repository, shared, signalling
from orchestrator.ledger.transactions.transaction import Transaction


class Message(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A message that is owed, or was. Times are microseconds UTC."""

    id: int
    body: bytes
    owed_at: int
    due_at: int
    tries: int
    """How often it was sent, or could not be."""

    taken_at: int | None
    given_up_at: int | None
    problem: str
    """Why it was not taken the last time."""

    target: str
    """The name of who is told; empty: the address or the command that stands with its run or pipeline."""


class OwedToTarget(msgspec.Struct, frozen=True):
    """What is owed to one who is told."""

    target: str
    number: int
    since: int
    problem: str
    """Why the latest of it could not be sent; empty where nothing is in the way."""


class Notification(Message, frozen=True, kw_only=True, array_like=True):
    """A message of a pipeline."""

    pipeline: int
    pipeline_name: str
    definition: int
    """What was applied last of its pipeline: where it is sent to."""

    flow: str | None
    fire_at: int | None
    again: int | None
    news: News


_lane: Final = case((outbox.c.target == "", outbox.c.pipeline_id), else_=0)
_RECEIVERS_DUE: Final = (
    select(_lane.label("lane"), outbox.c.target).where(UNSETTLED, outbox.c.due_at <= bindparam("now")).distinct()
)
_COUNT_END: Final = upsert(message_ends, lambda new: {"n": message_ends.c.n + new.n})
_NOTIFICATIONS: Final = (
    select(
        *columns(
            Notification,
            outbox,
            pipeline_name=pipelines.c.name,
            definition=pipelines.c.definition_id,
            flow=flows.c.name,
            fire_at=flows.c.fire_at,
            again=flows.c.again,
            taken_at=outbox.c.told_at,
        )
    )
    .select_from(
        outbox.join(pipelines, pipelines.c.id == outbox.c.pipeline_id).outerjoin(flows, flows.c.id == outbox.c.flow_id)
    )
    .order_by(outbox.c.id)
)


class Messages(Repository):
    """The messages of one table of a ledger; `unsettled` says of which one is still to be sent."""

    def __init__(self, access: Access, table: Table, unsettled: ColumnElement[bool], prefix: str) -> None:
        super().__init__(access)
        self._table = table
        self.prefix = prefix
        """What the ids begin with by which people name them."""

        self._unsettled = unsettled

    async def next_due(self, after: int = 0) -> int | None:
        """When something is to be sent after that time."""
        due_at = self._table.c.due_at
        found = await self._access.value(select(func.min(due_at)).where(self._unsettled, due_at > after))
        return None if found is None else int(found)

    async def count_owed(self) -> int:
        """How many are still to be sent."""
        return int(await self._access.value(select(func.count()).select_from(self._table).where(self._unsettled)))

    async def delivered(self, number: int) -> None:
        """Somebody has taken it."""
        await self._settle(number, "told", {"told_at": self._access.now(), "problem": ""})

    async def undelivered(self, number: int, problem: str, *, due_at: int | None) -> None:
        """Nobody has, so that it is sent again then; without a time it is given up."""
        if due_at is None:
            await self._settle(number, "given_up", {"problem": problem, "given_up_at": self._access.now()})
        else:
            await self._settle(number, "", {"problem": problem, "due_at": due_at})

    async def count_unreached(self) -> int:
        """How many were tried, and not taken the last time."""
        return int(await self._access.value(select(func.count()).where(self._table.c.problem != literal_column("''"))))

    async def owed_by_target(self) -> list[OwedToTarget]:
        """What is owed to each who is told, as far as anything is."""
        table, later = self._table, self._table.alias("later")
        is_stuck = later.c.told_at.is_(None) & later.c.given_up_at.is_(None) & (later.c.problem != literal_column("''"))
        problem = (
            select(later.c.problem)
            .where(later.c.target == table.c.target, is_stuck)
            .order_by(later.c.id.desc())
            .limit(1)
            .scalar_subquery()
        )
        owed = select(table.c.target, func.count(), func.min(table.c.owed_at), func.coalesce(problem, ""))
        rows = await self._access.rows(owed.where(self._unsettled).group_by(table.c.target).order_by(table.c.target))
        return [OwedToTarget(*row) for row in rows]

    def _page(self, query: Select[Any], before: int | None, *, waiting: bool) -> Select[Any]:
        """Of these the latest, from behind that number on, and only those that are still to be sent."""
        query = query.order_by(None).order_by(self._table.c.id.desc())
        if before is not None:
            query = query.where(self._table.c.id < before)
        return query.where(self._unsettled) if waiting else query

    async def unwanted(self, number: int) -> None:
        """Who was to be told does not want to hear of it: it is forgotten."""
        await self._access.shared.execute(delete(self._table).where(self._table.c.id == number, self._unsettled))

    async def there_is(self, number: int) -> bool:
        """Whether there is one of that number."""
        return bool(await self._access.value(select(func.count()).where(self._table.c.id == number)))

    async def claim(self, number: int, due_at: int, until: int) -> bool:
        """Whoever does not have the ledger to itself sends one only after this: nobody else does before `until`. False
        where somebody was faster; `due_at` is when it was due.
        """
        meant = update(self._table).where(self._table.c.id == number, self._unsettled, self._table.c.due_at == due_at)
        return await self._access.shared.execute(meant.values(due_at=until)) > 0

    async def give_back(self, number: int, until: int, due_at: int) -> None:
        """Lets go of one that was claimed until then, and not sent: it is due as it was."""
        meant = update(self._table).where(self._table.c.id == number, self._unsettled, self._table.c.due_at == until)
        await self._access.signalling.execute(meant.values(due_at=due_at))

    @signalling
    async def send_again(self, transaction: Transaction, number: int | None, *, asked: Asker | None = None) -> int:
        """Has one sent again now, or all of which somebody could not be told; returns how many. Who `asked` for it
        leaves an action. Raises `AskedBefore`.
        """
        table, now = self._table, self._access.now()
        one = table.c.id == number if number is not None else table.c.problem != literal_column("''")
        meant = update(table).where(one).values(due_at=now, told_at=None, given_up_at=None)
        done = (await transaction.connection.execute(meant)).rowcount
        if asked is not None:
            name = "those that did not reach anybody" if number is None else f"{self.prefix}{number}"
            act = Act(verb=Verb.SEND_AGAIN, subject=SubjectKind.MESSAGE, number=number, name=name)
            await action_add(transaction.connection, asked, act, now=now, ended=Ended("sent again", done=done))
        return done

    @shared
    async def _settle(self, transaction: Transaction, number: int, result: str, changes: Mapping[str, Any]) -> None:
        """Changes a message that is still to be sent; where that ends it with a `result`, it is counted."""
        meant = update(self._table).where(self._table.c.id == number, self._unsettled)
        changed = meant.values(tries=self._table.c.tries + 1, **changes).returning(self._table.c.target)
        target = (await transaction.connection.execute(changed)).scalar()
        if result and target is not None:
            await transaction.connection.execute(_COUNT_END, {"target": target, "result": result, "n": 1})


class Outbox(Messages):
    """The notifications of a ledger. They are owed by the transactions of flows, fires and schedules."""

    def __init__(self, access: Access) -> None:
        super().__init__(access, outbox, UNSETTLED, "p")

    async def receivers_due(self, now: int) -> list[tuple[int, str]]:
        """Who is to be told now: the address of a pipeline, or a target of whichever pipeline (0)."""
        return [(row[0], row[1]) for row in await self._access.rows(_RECEIVERS_DUE, {"now": now})]

    async def first_due(self, pipeline: int, target: str, now: int) -> Notification | None:
        """The oldest one of these that is to be sent now."""
        query = _NOTIFICATIONS.where(UNSETTLED, outbox.c.target == target, outbox.c.due_at <= now)
        if not target:
            query = query.where(outbox.c.pipeline_id == pipeline)
        return await self._access.first(Notification, query.limit(1))

    async def numbered(self, number: int) -> Notification | None:
        """The one of that number, or None."""
        return await self._access.first(Notification, _NOTIFICATIONS.where(outbox.c.id == number))

    async def page(self, before: int | None, most: int, *, waiting: bool = False) -> list[Notification]:
        """The latest ones before that number, newest first; of these only who is `waiting` to be sent."""
        query = self._page(_NOTIFICATIONS, before, waiting=waiting)
        return await self._access.structs(Notification, query.limit(most))

    async def of_flow(self, flow: int) -> list[Notification]:
        """Those of a flow, oldest first."""
        return await self._access.structs(Notification, _NOTIFICATIONS.where(outbox.c.flow_id == flow))

    async def untold(self, pipeline: int, most: int, *, since: int = 0) -> list[Notification]:
        """Those of a pipeline that were tried in vain, and not given up before `since`; newest first."""
        query = _NOTIFICATIONS.where(outbox.c.pipeline_id == pipeline, *_untold(since))
        newest = query.order_by(None).order_by(outbox.c.id.desc()).limit(most)
        return await self._access.structs(Notification, newest)

    async def count_untold(self, since: int) -> int:
        """How many there are of these, of all pipelines."""
        return int(await self._access.value(select(func.count()).select_from(outbox).where(*_untold(since))))

    async def forget(self, pipeline: int, before: int, *, most: int) -> int:
        """Removes up to `most` of a pipeline that were taken, or given up, and owed before then; returns how many."""
        old = select(outbox.c.id).where(outbox.c.pipeline_id == pipeline, ~UNSETTLED, outbox.c.owed_at < before)
        return await self._access.shared.execute(delete(outbox).where(outbox.c.id.in_(old.limit(most))))


def _untold(since: int) -> tuple[ColumnElement[bool], ...]:
    return outbox.c.problem != "", UNSETTLED | (outbox.c.given_up_at >= since)
