"""Notifications: owed by the transaction that causes them, and kept until somebody has taken them or they are given up.

What is owed goes by the version of the pipeline that the flow keeps; where it is sent, by the one that was applied
last: so a wrong address can be mended while messages wait.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Table, bindparam, case, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.pipelines import notifications
from orchestrator.core.pipelines.due_fires import Gap
from orchestrator.core.pipelines.notifications import StageCounts
from orchestrator.core.pipelines.pipeline import News, Notify, Schedule
from orchestrator.core.pipelines.receivers import receivers_for, receivers_of_pipeline
from orchestrator.ledger.schema.flow_tables import (
    UNSETTLED,
    definitions,
    flows,
    message_ends,
    outbox,
    pipelines,
    stages,
)
from orchestrator.ledger.schema.job_tables import counts, runs
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.sqlite.statements import upsert
from orchestrator.ledger.transactions.repository import Access, Repository, in_transaction
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


class _Telling(msgspec.Struct, frozen=True):
    """What of a pipeline says who is told."""

    name: str
    notify: Notify | None = None
    schedule: Schedule | None = None


_decoder: Final = msgspec.json.Decoder(_Telling)
_COUNT_END: Final = upsert(message_ends, lambda new: {"n": message_ends.c.n + new.n})
_OWE: Final = insert(outbox).inline()
_lane: Final = case((outbox.c.target == "", outbox.c.pipeline_id), else_=0)
_RECEIVERS_DUE: Final = (
    select(_lane.label("lane"), outbox.c.target).where(UNSETTLED, outbox.c.due_at <= bindparam("now")).distinct()
)
_OF_FLOW: Final = (
    select(flows.c.name, flows.c.fire_at, flows.c.pipeline_id, definitions.c.body)
    .select_from(flows.join(definitions, definitions.c.id == flows.c.definition_id))
    .where(flows.c.id == bindparam("flow"))
)
_OF_PIPELINE: Final = (
    select(definitions.c.body)
    .select_from(pipelines.join(definitions, definitions.c.id == pipelines.c.definition_id))
    .where(pipelines.c.id == bindparam("pipeline"))
)
_JOBS: Final = (
    select(stages.c.stage, runs.c.name, counts.c.name, counts.c.n)
    .select_from(stages.join(runs, runs.c.id == stages.c.run_id).outerjoin(counts, counts.c.run_id == stages.c.run_id))
    .where(stages.c.flow_id == bindparam("flow"))
    .order_by(stages.c.began_at, stages.c.stage, stages.c.again)
)
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

    def __init__(self, access: Access, table: Table, unsettled: ColumnElement[bool]) -> None:
        super().__init__(access)
        self._table = table
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

    async def unwanted(self, number: int) -> None:
        """Who was to be told does not want to hear of it: it is forgotten."""
        await self._access.execute(delete(self._table).where(self._table.c.id == number, self._unsettled))

    async def claim(self, number: int, due_at: int, until: int) -> bool:
        """Whoever does not have the ledger to itself sends one only after this: nobody else does before `until`. False
        where somebody was faster; `due_at` is when it was due.
        """
        meant = update(self._table).where(self._table.c.id == number, self._unsettled, self._table.c.due_at == due_at)
        return await self._access.execute(meant.values(due_at=until)) > 0

    async def send_again(self, number: int | None) -> int:
        """Has one sent again now, be it taken or given up, or all of which somebody could not be told; returns how
        many.
        """
        table, now = self._table, self._access.now()
        one = table.c.id == number if number is not None else table.c.problem != ""
        meant = update(table).where(one).values(due_at=now, told_at=None, given_up_at=None)
        return await self._access.execute(meant)

    @in_transaction
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
        super().__init__(access, outbox, UNSETTLED)

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

    async def of_flow(self, flow: int) -> list[Notification]:
        """Those of a flow, oldest first."""
        return await self._access.structs(Notification, _NOTIFICATIONS.where(outbox.c.flow_id == flow))

    async def untold(self, pipeline: int, most: int, *, since: int = 0) -> list[Notification]:
        """Those of a pipeline that nobody has taken though it was tried, and that were not given up before `since`;
        newest first.
        """
        query = _NOTIFICATIONS.where(outbox.c.pipeline_id == pipeline, *_untold(since))
        newest = query.order_by(None).order_by(outbox.c.id.desc()).limit(most)
        return await self._access.structs(Notification, newest)

    async def count_untold(self, since: int) -> int:
        """How many there are of these, of all pipelines."""
        return int(await self._access.value(select(func.count()).select_from(outbox).where(*_untold(since))))

    async def forget(self, pipeline: int, before: int, *, most: int) -> int:
        """Removes up to `most` of a pipeline that were taken, or given up, and owed before then; returns how many."""
        old = select(outbox.c.id).where(outbox.c.pipeline_id == pipeline, ~UNSETTLED, outbox.c.owed_at < before)
        return await self._access.execute(delete(outbox).where(outbox.c.id.in_(old.limit(most))))


def _untold(since: int) -> tuple[ColumnElement[bool], ...]:
    return outbox.c.problem != "", UNSETTLED | (outbox.c.given_up_at >= since)


# --- owed


async def flow_owe(connection: AsyncConnection, flow: int, news: News, why: str, now: int) -> None:
    """Owes the message that `news` is of a flow, where its pipeline tells of that."""
    [(name, fire_at, pipeline, body)] = (await connection.execute(_OF_FLOW, {"flow": flow})).all()
    told = _decoder.decode(body)
    if not (targets := _told(told, news)):
        return
    message = notifications.flow_message(
        news,
        pipeline=told.name,
        flow=name,
        fire_us=fire_at,
        why=why,
        stages=_stage_counts((await connection.execute(_JOBS, {"flow": flow})).all()),
        at=now,
    )
    await _owe(connection, pipeline, news, message, now, targets, flow=flow)


async def missed_owe(connection: AsyncConnection, pipeline: int, gap: Gap, now: int) -> None:
    """Owes the message that fires were missed, where the pipeline tells of that."""
    told = await _telling(connection, pipeline)
    if targets := _told(told, News.MISSED):
        zone = "UTC" if told.schedule is None else told.schedule.zone
        message = notifications.missed_message(pipeline=told.name, zone=zone, gap=gap, at=now)
        await _owe(connection, pipeline, News.MISSED, message, now, targets)


async def pause_owe(connection: AsyncConnection, pipeline: int, why: str, until: int | None, now: int) -> None:
    """Owes the message that a schedule is paused, where the pipeline tells of that."""
    told = await _telling(connection, pipeline)
    if targets := _told(told, News.PAUSED):
        message = notifications.pause_message(pipeline=told.name, why=why, until_us=until, at=now)
        await _owe(connection, pipeline, News.PAUSED, message, now, targets)


async def _telling(connection: AsyncConnection, pipeline: int) -> _Telling:
    [(body,)] = (await connection.execute(_OF_PIPELINE, {"pipeline": pipeline})).all()
    return _decoder.decode(body)


def _told(told: _Telling, news: News) -> Sequence[str]:
    return receivers_for(receivers_of_pipeline(told.notify), news)


def _stage_counts(rows: Sequence[Any]) -> Sequence[StageCounts]:
    """Each stage that has begun, in the order in which they did."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for stage, run, name, n in rows:
        jobs = found.setdefault((stage, run), {})
        if name is not None:
            jobs[name] = n
    return [StageCounts(stage=stage, run=run, jobs=jobs) for (stage, run), jobs in found.items()]


async def _owe(
    connection: AsyncConnection,
    pipeline: int,
    news: News,
    message: bytes,
    now: int,
    targets: Sequence[str],
    *,
    flow: int | None = None,
) -> None:
    common: Mapping[str, Any] = {
        "pipeline_id": pipeline,
        "flow_id": flow,
        "news": news.value,
        "body": message,
        "owed_at": now,
        "due_at": now,
    }
    await connection.execute(_OWE, [{**common, "target": target} for target in targets])
