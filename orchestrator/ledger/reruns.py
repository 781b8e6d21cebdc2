"""Stages that are carried out anew: what the runs before leave, and what is taken over of them."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.flows import FlowEvent, FlowState, after
from orchestrator.core.job import Outcome, Transition, completed
from orchestrator.core.lifecycle import State
from orchestrator.ledger.flow_tables import flows, stages
from orchestrator.ledger.handover_tables import gathers, groups, owed, relays
from orchestrator.ledger.records import job_of, select_jobs, unpack
from orchestrator.ledger.sqlite.statements import IN_BATCH, batch_of
from orchestrator.ledger.tables import jobs, outcomes, payloads, runs

_old_jobs: Final = jobs.alias("old_jobs")
_old_payloads: Final = payloads.alias("old_payloads")
_TAKEN_OVER: Final = (
    select(
        jobs.c.id,
        outcomes.c.remote_id,
        outcomes.c.status,
        outcomes.c.output,
        outcomes.c.packed,
        outcomes.c.delay_ms,
        outcomes.c.execution_ms,
        outcomes.c.worker,
        runs.c.name,
    )
    .select_from(
        jobs.join(payloads, payloads.c.job_id == jobs.c.id)
        .join(
            _old_jobs,
            (_old_jobs.c.run_id == bindparam("previous"))
            & (_old_jobs.c.custom_id == jobs.c.custom_id)
            & (_old_jobs.c.state == State.SUCCEEDED.value),
        )
        .join(
            _old_payloads,
            (_old_payloads.c.job_id == _old_jobs.c.id) & (_old_payloads.c.digest == payloads.c.digest),
        )
        .join(outcomes, outcomes.c.job_id == _old_jobs.c.id)
        .join(runs, runs.c.id == _old_jobs.c.run_id)
    )
    .where(jobs.c.id.in_(IN_BATCH), jobs.c.state == State.QUEUED.value, outcomes.c.output.is_not(None))
)
_QUEUED: Final = (
    select(jobs.c.id)
    .where(jobs.c.run_id == bindparam("run"), jobs.c.id > bindparam("after"))
    .order_by(jobs.c.id)
    .limit(bindparam("most"))
)
_AGAIN_BY_JOBS: Final = (
    update(flows)
    .where(
        flows.c.id.in_(select(stages.c.flow_id).where(stages.c.run_id.in_(IN_BATCH))),
        flows.c.state.in_([FlowState.SUCCEEDED.value, FlowState.PARTIAL.value, FlowState.FAILED.value]),
    )
    .values(state=after(FlowEvent.REOPENED).value, started_at=bindparam("now"), ended_at=None, why="", is_cancelled=0)
)


async def followers_leave(connection: AsyncConnection, flow: int, among: Sequence[str]) -> None:
    """The runs of these stages are handed nothing more: others take their places."""
    query = select(stages.c.run_id).where(
        stages.c.flow_id == flow, stages.c.stage.in_(among), stages.c.run_id.is_not(None)
    )
    old = batch_of((await connection.execute(query)).scalars())
    for table in (relays, owed, gathers):
        await connection.execute(delete(table).where(table.c.to_run.in_(IN_BATCH)), old)
    await connection.execute(update(groups).where(groups.c.to_run.in_(IN_BATCH)).values(is_due=0), old)


async def taken_over(
    connection: AsyncConnection, previous: int, among: Collection[int], *, now: int
) -> list[Transition]:
    """The steps of these jobs, which have just come, that have succeeded in the run `previous` with the same input."""
    batch = batch_of(among)
    found: dict[int, Any] = {
        row.id: row for row in await connection.execute(_TAKEN_OVER, {"previous": previous, **batch})
    }
    if not found:
        return []
    rows = (await connection.execute(select_jobs().where(jobs.c.id.in_(IN_BATCH)), batch_of(found))).all()
    steps = []
    for job in map(job_of, rows):
        row = found[job.id]
        outcome = Outcome(
            submission=None,
            remote_id=row.remote_id,
            status=row.status,
            output=unpack(row.output, row.packed),
            delay_ms=row.delay_ms,
            execution_ms=row.execution_ms,
            worker=row.worker,
        )
        steps.append(completed(job, outcome, reason=f"taken over from {row.name}", at=now))
    return steps


async def next_page(connection: AsyncConnection, run: int, *, after_job: int, most: int) -> list[int]:
    """The next jobs of a run."""
    found = await connection.execute(_QUEUED, {"run": run, "after": after_job, "most": most})
    return list(found.scalars())


async def flows_go_on(connection: AsyncConnection, of_runs: Collection[int], *, now: int) -> None:
    """Flows that have ended go on, since jobs of these runs were queued again, or have succeeded after all."""
    await connection.execute(_AGAIN_BY_JOBS, {"now": now, **batch_of(of_runs)})
