"""What is owed of flows and schedules: each message in the transaction that causes it, to each who wants to hear of it.

What is told, and to whom, goes by the version of the pipeline that the flow keeps.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.pipelines import notifications
from orchestrator.core.pipelines.due_fires import Gap
from orchestrator.core.pipelines.notifications import StageCounts
from orchestrator.core.pipelines.pipeline import News, Notify, Schedule
from orchestrator.core.pipelines.receivers import receivers_for, receivers_of_pipeline
from orchestrator.ledger.schema.flow_tables import definitions, flows, outbox, pipelines, stages
from orchestrator.ledger.schema.job_tables import counts, runs


class _Telling(msgspec.Struct, frozen=True):
    """What of a pipeline says who is told."""

    name: str
    notify: Notify | None = None
    schedule: Schedule | None = None


_OWE: Final = insert(outbox).inline()
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
_decoder: Final = msgspec.json.Decoder(_Telling)


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
