"""What traces are made of: the events of jobs that have ended, how long their executions took, and flows that ended."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import bindparam, func, select

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.ledger.schema.flow_tables import flows, pipelines, stages
from orchestrator.ledger.schema.job_tables import endpoints, events, failed_executions, jobs, outcomes, runs
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.transactions.repository import Repository, asked_again

FLOWS_AT_ONCE: Final = 100


class TracedEvent(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An event of a job, with its place in the feed. `at` is microseconds UTC."""

    place: int
    at: int
    event: Event
    attempt: int
    trouble: str | None


class TracedRun(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The run of a job, and of which flow it is a stage, if it is one."""

    id: int
    name: str
    created_at: int
    flow: str | None
    flow_made_at: int | None
    pipeline: str | None
    stage: str | None
    again: int | None


class TracedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that has ended."""

    id: int
    line: int
    endpoint: str
    run: TracedRun
    events: Sequence[TracedEvent]
    """All that are left, oldest first."""

    failed_ms: Mapping[int, int | None]
    """How long executions took that another one has followed, by attempt."""

    delay_ms: int | None
    """Of the last execution, as far as that was told."""

    execution_ms: int | None


class TracedStage(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A stage of a flow, as often as it was carried out."""

    stage: str
    again: int
    began_at: int
    run: int | None
    last_ended_at: int | None
    """When the last of its jobs ended; None where none did, or its run is gone."""


class TracedFlow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A flow that has ended."""

    id: int
    name: str
    pipeline: str
    made_at: int
    started_at: int | None
    ended_at: int
    state: FlowState


_EVENTS: Final = (
    select(*columns(TracedEvent, events, place=events.c.id))
    .where(events.c.job_id == bindparam("job"))
    .order_by(events.c.id)
)
_JOB: Final = (
    select(
        *(jobs.c.line, jobs.c.run_id, endpoints.c.endpoint, outcomes.c.delay_ms, outcomes.c.execution_ms),
    )
    .select_from(
        jobs.join(endpoints, endpoints.c.id == jobs.c.endpoint_id).outerjoin(outcomes, outcomes.c.job_id == jobs.c.id)
    )
    .where(jobs.c.id == bindparam("job"))
)
_RUN: Final = (
    select(
        *columns(
            TracedRun,
            runs,
            flow=flows.c.name,
            flow_made_at=flows.c.recorded_at,
            pipeline=pipelines.c.name,
            stage=stages.c.stage,
            again=stages.c.again,
        )
    )
    .select_from(
        runs.outerjoin(stages, stages.c.run_id == runs.c.id)
        .outerjoin(flows, flows.c.id == stages.c.flow_id)
        .outerjoin(pipelines, pipelines.c.id == flows.c.pipeline_id)
    )
    .where(runs.c.id == bindparam("run"))
)
_FAILED: Final = select(failed_executions.c.attempt, failed_executions.c.execution_ms).where(
    failed_executions.c.job_id == bindparam("job")
)
_FLOWS: Final = (
    select(*columns(TracedFlow, flows, made_at=flows.c.recorded_at, pipeline=pipelines.c.name))
    .select_from(flows.join(pipelines, pipelines.c.id == flows.c.pipeline_id))
    .where(
        flows.c.started_at.is_not(None),
        (flows.c.ended_at > bindparam("after"))
        | ((flows.c.ended_at == bindparam("after")) & (flows.c.id > bindparam("last"))),
    )
    .order_by(flows.c.ended_at, flows.c.id)
    .limit(FLOWS_AT_ONCE)
)
_ENDED: Final = select(func.max(jobs.c.ended_at)).where(jobs.c.run_id == stages.c.run_id).scalar_subquery()
_STAGES: Final = (
    select(*columns(TracedStage, stages, run=stages.c.run_id, last_ended_at=_ENDED))
    .where(stages.c.flow_id == bindparam("flow"))
    .order_by(stages.c.began_at, stages.c.stage, stages.c.again)
)
_LAST_FLOW: Final = (
    select(flows.c.ended_at, flows.c.id)
    .where(flows.c.ended_at.is_not(None))
    .order_by(flows.c.ended_at.desc(), flows.c.id.desc())
    .limit(1)
)


class TracedJobs(Repository):
    """Of a ledger, what traces are made of."""

    @asked_again
    async def job(self, job: int) -> TracedJob | None:
        """One job; None where it is gone."""
        async with self._access.reading() as connection:
            view = self._access.within(connection)
            found = next(iter(await view.rows(_JOB, {"job": job})), None)
            if found is None:
                return None
            run = await view.first(TracedRun, _RUN, {"run": found.run_id})
            if run is None:
                return None
            return TracedJob(
                id=job,
                line=found.line,
                endpoint=found.endpoint,
                run=run,
                events=await view.structs(TracedEvent, _EVENTS, {"job": job}),
                failed_ms={row[0]: row[1] for row in await view.rows(_FAILED, {"job": job})},
                delay_ms=found.delay_ms,
                execution_ms=found.execution_ms,
            )

    async def flows_ended(self, after: int, last: int) -> list[TracedFlow]:
        """Flows that had begun, and ended after then, or at that moment with a higher number than `last`, oldest first;
        there may be more than are told at once.
        """
        return await self._access.structs(TracedFlow, _FLOWS, {"after": after, "last": last})

    async def stages(self, flow: int) -> list[TracedStage]:
        """The stages of a flow, in the order in which they began."""
        return await self._access.structs(TracedStage, _STAGES, {"flow": flow})

    async def last_flow_end(self) -> tuple[int, int]:
        """When the last flow ended, and its number; 0 where none has."""
        return next(((row[0], row[1]) for row in await self._access.rows(_LAST_FLOW)), (0, 0))
