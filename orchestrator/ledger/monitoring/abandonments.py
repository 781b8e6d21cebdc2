"""What is left at the service while nobody works, and the messages of it: owed once, whoever looks, and to whom they go
already in the hands of who owes them. Nobody else finds one due before that one may have died.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, func, insert, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.abandonment import RunLeft, StageOf, Telling, abandoned_message, is_new_episode
from orchestrator.core.pipelines.pipeline import Notify
from orchestrator.core.pipelines.run_messages import FailureSample, MessageFigures, RunNews
from orchestrator.ledger.schema.flow_tables import (
    RUN_NEWS_UNSETTLED,
    UNSETTLED,
    definitions,
    episodes,
    flows,
    outbox,
    run_outbox,
    stages,
)
from orchestrator.ledger.schema.job_tables import counts, heartbeats, runs
from orchestrator.ledger.statements import upsert
from orchestrator.ledger.transactions.repository import Repository, alone
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.count_writes import counts_of
from orchestrator.ledger.transitions.run_messages_owed import message_figures, notify_in


class OwedNumbers(msgspec.Struct, frozen=True):
    """Messages by their numbers: those of runs, and those of pipelines."""

    of_runs: tuple[int, ...] = ()
    of_pipelines: tuple[int, ...] = ()


class _Telling(msgspec.Struct, frozen=True):
    """What of a pipeline says who is told."""

    notify: Notify | None = None


_pipeline: Final = msgspec.json.Decoder(_Telling)
_NEWS: Final = RunNews.ABANDONED.value
_LEFT: Final = (
    select(
        runs.c.id,
        runs.c.name,
        runs.c.settings,
        counts.c.n,
        flows.c.id.label("flow"),
        flows.c.name.label("flow_name"),
        flows.c.pipeline_id,
        definitions.c.body,
    )
    .select_from(
        counts.join(runs, runs.c.id == counts.c.run_id)
        .outerjoin(stages, stages.c.run_id == runs.c.id)
        .outerjoin(flows, flows.c.id == stages.c.flow_id)
        .outerjoin(definitions, definitions.c.id == flows.c.definition_id)
    )
    .where(counts.c.name == literal_column(f"'{State.OUTSTANDING}'"), counts.c.n > 0)
    .order_by(runs.c.id)
)
_HEARD: Final = select(func.max(heartbeats.c.beaten_at))
_TOLD: Final = select(episodes.c.run_id, episodes.c.began_at).where(episodes.c.news == _NEWS)
_BEGIN: Final = upsert(episodes, lambda new: {"began_at": new.began_at, "over_at": None})
_SETTINGS: Final = select(runs.c.settings).where(runs.c.id == bindparam("run"))
_RUNS_DUE: Final = select(run_outbox.c.id).where(
    RUN_NEWS_UNSETTLED, run_outbox.c.due_at <= bindparam("now"), run_outbox.c.news == _NEWS
)
_PIPELINES_DUE: Final = select(outbox.c.id).where(
    UNSETTLED, outbox.c.due_at <= bindparam("now"), outbox.c.news == _NEWS
)


class Abandonments(Repository):
    """Those of a ledger."""

    async def left(self) -> list[RunLeft]:
        """The runs of which jobs are at the service."""
        return [_left(row) for row in await self._access.rows(_LEFT)]

    async def due(self) -> OwedNumbers:
        """The messages that are to be sent now, again or since whoever was to send them has not."""
        now = {"now": self._access.now()}
        of_runs = await self._access.rows(_RUNS_DUE, now)
        of_pipelines = await self._access.rows(_PIPELINES_DUE, now)
        return OwedNumbers(tuple(row[0] for row in of_runs), tuple(row[0] for row in of_pipelines))

    @alone
    async def owe(
        self,
        transaction: Transaction,
        tellings: Sequence[Telling],
        *,
        heard_at: int,
        expires_at: Mapping[int, int],
        why: str,
        until: int,
    ) -> OwedNumbers:
        """Owes one message to each of these that was not told of it yet; returns which. They are the caller's to send
        until `until`. Nothing is owed where somebody was heard of after `heard_at`: he works. `expires_at` is by run.
        """
        connection, now = transaction.connection, self._access.now()
        if ((await connection.execute(_HEARD)).scalar() or 0) > heard_at:
            return OwedNumbers()
        told = {row.run_id: row.began_at for row in await connection.execute(_TOLD)}
        anew = [
            telling
            for telling in tellings
            if any(is_new_episode(told_at=told.get(left.run), heard_at=heard_at) for left in telling.runs)
        ]
        of_runs, of_pipelines = list[int](), list[int]()
        for telling in anew:
            first_at = min(expires_at[left.run] for left in telling.runs)
            body = await _body(connection, telling, why=why, expires_at=first_at, now=now)
            row = {"target": telling.target, "news": _NEWS, "body": body, "owed_at": now, "due_at": until}
            if (stage := telling.runs[0].stage) is None:
                of_run = insert(run_outbox).values(run_id=telling.runs[0].run, **row).returning(run_outbox.c.id)
                of_runs.append((await connection.execute(of_run)).scalar_one())
            else:
                of_flow = insert(outbox).values(pipeline_id=stage.pipeline, flow_id=stage.flow, **row)
                of_pipelines.append((await connection.execute(of_flow.returning(outbox.c.id))).scalar_one())
        if anew:
            begun = sorted({left.run for telling in anew for left in telling.runs})
            rows = [{"run_id": run, "news": _NEWS, "began_at": now, "over_at": None} for run in begun]
            await connection.execute(_BEGIN, rows)
        return OwedNumbers(tuple(of_runs), tuple(of_pipelines))


async def _body(connection: AsyncConnection, telling: Telling, *, why: str, expires_at: int, now: int) -> bytes:
    jobs, spent, kinds = Counter[str](), list[float](), tuple[FailureSample, ...]()
    for left in telling.runs:
        jobs.update(await counts_of(connection, left.run))
        settings = (await connection.execute(_SETTINGS, {"run": left.run})).scalar_one()
        figures = await message_figures(connection, left.run, settings, now)
        kinds = figures.kinds
        if figures.spent is not None:
            spent.append(figures.spent)
    return abandoned_message(
        telling.runs,
        {state: jobs[state] for state in State},
        why=why,
        expires_at=expires_at,
        at=now,
        figures=MessageFigures(spent=sum(spent) if spent else None, kinds=kinds if len(telling.runs) == 1 else ()),
    )


def _left(row: Any) -> RunLeft:
    stage = None
    if row.flow is not None:
        notify = _pipeline.decode(row.body).notify
        stage = StageOf(flow=row.flow, flow_name=row.flow_name, pipeline=row.pipeline_id, notify=notify)
    return RunLeft(run=row.id, name=row.name, notify=notify_in(row.settings), waiting=row.n, stage=stage)
