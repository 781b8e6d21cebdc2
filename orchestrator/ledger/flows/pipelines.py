"""Pipelines as they were applied, and how their schedules stand."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, delete, func, insert, select, update

from orchestrator.core.pipelines.due_fires import Gap, Watermark
from orchestrator.core.pipelines.pipeline import Pipeline
from orchestrator.core.text.local_time import local
from orchestrator.ledger.actions.action_rows import Act, Ended, SubjectKind, Verb, action_add
from orchestrator.ledger.actions.asker import Asker
from orchestrator.ledger.expressions import greatest
from orchestrator.ledger.flows.fires import gap_add
from orchestrator.ledger.schema.flow_tables import definitions, fires, gaps, pipelines, schedules
from orchestrator.ledger.statements import upsert
from orchestrator.ledger.transactions.repository import Access, Repository, alone
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.flow_messages_owed import pause_owe

_decoder: Final = msgspec.json.Decoder(Pipeline)


class Defined(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline, and how its schedule stands. Times are microseconds UTC."""

    id: int
    definition: int
    """The number of what was applied last."""

    version: int
    pipeline: Pipeline
    applied_at: int
    watermark: Watermark | None
    """None: it does not fire by itself."""

    note: str = ""
    """Why it is paused."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.pipeline.name


_DEFINED: Final = select(
    pipelines.c.id,
    pipelines.c.definition_id,
    definitions.c.version,
    definitions.c.applied_at,
    schedules.c.watermark,
    schedules.c.paused_at,
    schedules.c.paused_until,
    schedules.c.note,
).select_from(
    pipelines.join(definitions, definitions.c.id == pipelines.c.definition_id).outerjoin(
        schedules, schedules.c.pipeline_id == pipelines.c.id
    )
)
_AS_BEFORE: Final = (
    (schedules.c.pipeline_id == bindparam("of"))
    & (schedules.c.watermark == bindparam("was_at"))
    & (schedules.c.paused_at.is_not_distinct_from(bindparam("was_paused_at")))
)
_SCHEDULE: Final = upsert(schedules, lambda new: {"watermark": greatest(schedules.c.watermark, new["watermark"])})
"""A watermark never goes back, whatever the clock does: what is recorded must not be looked at again."""

_RECORDED: Final = select(
    greatest(
        *(
            func.coalesce(select(func.max(at)).where(of == bindparam("of")).scalar_subquery(), 0)
            for at, of in ((fires.c.fire_at, fires.c.pipeline_id), (gaps.c.until_at, gaps.c.pipeline_id))
        )
    )
)
"""Up to when something stands there of a pipeline: its schedule may have been removed since, with the watermark."""


class Pipelines(Repository):
    """The pipelines of a ledger."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._bodies: dict[int, Pipeline] = {}
        """Definitions never change, and there are as many looks at them as seconds."""

    async def all(self) -> list[Defined]:
        """Every pipeline, in the order of their names."""
        return await self._defined(await self._access.rows(_DEFINED.order_by(pipelines.c.name)))

    async def named(self, name: str) -> Defined | None:
        """The one of that name, or None."""
        return next(iter(await self._defined(await self._access.rows(_DEFINED.where(pipelines.c.name == name)))), None)

    async def numbered(self, number: int) -> Defined | None:
        """The one of that number, or None."""
        return next(iter(await self._defined(await self._access.rows(_DEFINED.where(pipelines.c.id == number)))), None)

    async def definitions(self, numbers: Iterable[int]) -> Mapping[int, Pipeline]:
        """What was applied, by these numbers."""
        wanted = set(numbers)
        if missing := wanted - self._bodies.keys():
            query = select(definitions.c.id, definitions.c.body)
            if len(missing) == 1:
                query = query.where(definitions.c.id == next(iter(missing)))
            for row in await self._access.rows(query):
                if row[0] in missing:
                    self._bodies[row[0]] = _decoder.decode(row[1])
        return {number: self._bodies[number] for number in wanted}

    async def secret_variables(self) -> frozenset[str]:
        """The variables that hold what messages of pipelines are signed with."""
        return frozenset().union(*(each.pipeline.secret_variables for each in await self.all()))

    async def version(self, definition: int) -> int:
        """Which version of its pipeline that is."""
        return int(await self._access.value(select(definitions.c.version).where(definitions.c.id == definition)))

    async def _defined(self, rows: Sequence[Any]) -> list[Defined]:
        bodies = await self.definitions(row[1] for row in rows)
        return [
            Defined(
                id=row[0],
                definition=row[1],
                version=row[2],
                pipeline=bodies[row[1]],
                applied_at=row[3],
                watermark=None if row[4] is None else Watermark(row[4], row[5], row[6]),
                note=row[7] or "",
            )
            for row in rows
        ]

    @alone
    async def define(
        self,
        transaction: Transaction,
        pipeline: Pipeline,
        *,
        now: int,
        before: Defined | None = None,
        gap: Gap | None = None,
        asked: Asker | None = None,
    ) -> bool:
        """Records a new version of `pipeline`, which counts from `now` on: `before` is what it was, looked at up to
        then, and `gap` what its pause has left out. False where somebody has changed it meanwhile. Who `asked` for it
        leaves an action.
        """
        connection = transaction.connection
        latest = select(pipelines.c.id, pipelines.c.definition_id).where(pipelines.c.name == pipeline.name)
        known = (await connection.execute(latest)).first()
        if (known and known[1]) != (before and before.definition):
            return False
        if before is not None and before.watermark is not None:
            same = await connection.execute(select(schedules.c.pipeline_id).where(_AS_BEFORE), _as_of(before))
            if same.first() is None:
                return False
        if known is None:
            row = {"name": pipeline.name, "definition_id": 0, "created_at": now}
            made = await connection.execute(insert(pipelines).returning(pipelines.c.id), row)
            of = int(made.scalar_one())
        else:
            of = known[0]
        version = select(func.coalesce(func.max(definitions.c.version), 0) + 1).where(definitions.c.pipeline_id == of)
        body = {
            "pipeline_id": of,
            "version": (await connection.execute(version)).scalar_one(),
            "body": msgspec.json.encode(pipeline),
            "applied_at": now,
        }
        number = (await connection.execute(insert(definitions).returning(definitions.c.id), body)).scalar_one()
        await connection.execute(update(pipelines).where(pipelines.c.id == of).values(definition_id=number))
        if gap is not None:
            await gap_add(connection, of, gap, now)
        if pipeline.schedule is None:
            await connection.execute(delete(schedules).where(schedules.c.pipeline_id == of))
        else:
            recorded = (await connection.execute(_RECORDED, {"of": of})).scalar_one()
            await connection.execute(_SCHEDULE, {"pipeline_id": of, "watermark": max(now, recorded)})
        act = Act(verb=Verb.APPLY, subject=SubjectKind.PIPELINE, number=of, name=pipeline.name)
        await action_add(connection, asked, act, now=now, ended=Ended(f"it is version {body['version']}"))
        return True

    @alone
    async def pause(
        self,
        transaction: Transaction,
        before: Defined,
        *,
        now: int,
        until: int | None,
        note: str,
        asked: Asker | None = None,
    ) -> bool:
        """Nothing fires from `now` on, until then or until somebody continues it. Looked at up to `now`; False where
        somebody has changed it meanwhile. Who `asked` for it leaves an action. Raises `AskedBefore`.
        """
        watermark = greatest(schedules.c.watermark, now)
        values: dict[str, Any] = {"watermark": watermark, "paused_at": now, "paused_until": until, "note": note}
        change = update(schedules).where(_AS_BEFORE).values(**values)
        connection = transaction.connection
        is_paused = (await connection.execute(change, _as_of(before))).rowcount > 0
        if is_paused:
            await pause_owe(connection, before.id, note, until, now)
            zone = "UTC" if before.pipeline.schedule is None else before.pipeline.schedule.zone
            ends = {} if until is None else {"until": local(until, zone)}
            act = _act(before, Verb.SCHEDULE_PAUSE, {"note": note} | ends)
            await action_add(connection, asked, act, now=now, ended=Ended("it does not fire"))
        return is_paused

    @alone
    async def proceed(
        self,
        transaction: Transaction,
        before: Defined,
        *,
        now: int,
        gap: Gap | None,
        catch_up: bool,
        asked: Asker | None = None,
    ) -> bool:
        """It fires again: for what comes after `now`, or, to catch up, as if it had not been paused. `gap` is what the
        pause has left out. False where somebody has changed it meanwhile. Who `asked` for it leaves an action. Raises
        `AskedBefore`.
        """
        connection = transaction.connection
        values: dict[str, Any] = {"paused_at": None, "paused_until": None, "note": "", "continued_at": now}
        if not catch_up:
            values["watermark"] = greatest(schedules.c.watermark, now)
        done = await connection.execute(update(schedules).where(_AS_BEFORE).values(**values), _as_of(before))
        if done.rowcount and gap is not None:
            await gap_add(connection, before.id, gap, now)
        if done.rowcount:
            act = _act(
                before, Verb.SCHEDULE_CONTINUE, {"what was due meanwhile": "made up for" if catch_up else "left out"}
            )
            await action_add(connection, asked, act, now=now, ended=Ended("it fires again"))
        return bool(done.rowcount)

    @alone
    async def unschedule(self, transaction: Transaction, before: Defined, *, asked: Asker | None = None) -> bool:
        """It fires no more; what has fired stays. False where it did not fire anyway. Who `asked` for it leaves an
        action. Raises `AskedBefore`.
        """
        connection = transaction.connection
        done = await connection.execute(delete(schedules).where(schedules.c.pipeline_id == before.id))
        if done.rowcount:
            act = _act(before, Verb.SCHEDULE_REMOVE)
            await action_add(connection, asked, act, now=self._access.now(), ended=Ended("it fires no more"))
        return bool(done.rowcount)


def _act(of: Defined, verb: Verb, options: Mapping[str, str] | None = None) -> Act:
    """What was asked of a pipeline, as an action."""
    return Act(verb=verb, subject=SubjectKind.PIPELINE, number=of.id, name=of.name, options=options or {})


def _as_of(before: Defined) -> dict[str, Any]:
    assert before.watermark is not None
    return {"of": before.id, "was_at": before.watermark.at_us, "was_paused_at": before.watermark.paused_at}
