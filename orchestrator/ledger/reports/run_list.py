"""Which runs there are, by their state and name, newest first; which are parts of flows, and when each ended last."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

import msgspec
from sqlalchemy import ColumnElement, func, select

from orchestrator.core.jobs.lifecycle import UNFINISHED, State
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.ledger.schema.flow_tables import flows, pipelines, stages
from orchestrator.ledger.schema.job_tables import counts, jobs, runs
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.ledger.transactions.repository import Repository


class RunsWanted(StrEnum):
    """Which runs are looked for."""

    ALL = "all"
    OPEN = "open"
    """Those that have jobs without an outcome."""

    ENDED = "ended"
    """The others."""

    TROUBLED = "troubled"
    """Those that have failed or cancelled jobs."""


class FlowOfRun(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The flow of which a run carries out a stage."""

    run: int
    flow: int
    name: str
    pipeline: int
    pipeline_name: str
    stage: str
    state: FlowState
    why: str
    recorded_at: int
    ended_at: int | None


def _has(states: Collection[State]) -> ColumnElement[bool]:
    """Whether a run has jobs in any of these states."""
    named = counts.c.name.in_([state.value for state in sorted(states)])
    return runs.c.id.in_(select(counts.c.run_id).where(counts.c.n > 0, named))


_WANTED: Final[Mapping[RunsWanted, ColumnElement[bool]]] = {
    RunsWanted.OPEN: _has(UNFINISHED),
    RunsWanted.ENDED: ~_has(UNFINISHED),
    RunsWanted.TROUBLED: _has({State.FAILED, State.CANCELLED}),
}

_OF_FLOW: Final = (
    select(
        *columns(
            FlowOfRun,
            flows,
            run=stages.c.run_id,
            flow=flows.c.id,
            pipeline=pipelines.c.id,
            pipeline_name=pipelines.c.name,
            stage=stages.c.stage,
        )
    )
    .select_from(
        stages.join(flows, flows.c.id == stages.c.flow_id).join(pipelines, pipelines.c.id == flows.c.pipeline_id)
    )
    .where(stages.c.run_id.in_(IN_BATCH))
)

_LAST: Final = (
    select(func.max(jobs.c.ended_at)).where(jobs.c.run_id == runs.c.id, jobs.c.ended_at.is_not(None)).scalar_subquery()
)
_ENDED: Final = select(runs.c.id, _LAST).where(runs.c.id.in_(IN_BATCH))
"""One look into the index for each run: grouped, all ended jobs would be gone through."""


class RunList(Repository):
    """The runs of a ledger, to be chosen from."""

    async def page(
        self, *, wanted: RunsWanted = RunsWanted.ALL, name: str = "", before: int | None, most: int
    ) -> list[int]:
        """The numbers of up to `most` accepted runs, newest first, older than the one numbered `before`; `name`: of
        those alone whose names hold it, whatever its capital letters.
        """
        query = select(runs.c.id).where(runs.c.intake_accepted > 0)
        if wanted is not RunsWanted.ALL:
            query = query.where(_WANTED[wanted])
        if name:
            query = query.where(func.lower(runs.c.name).contains(name.lower(), autoescape=True))
        if before is not None:
            query = query.where(runs.c.id < before)
        return [row[0] for row in await self._access.rows(query.order_by(runs.c.id.desc()).limit(most))]

    async def flows_of(self, among: Collection[int]) -> dict[int, FlowOfRun]:
        """The flow of each of these runs that is part of one."""
        return {each.run: each for each in await self._access.structs(FlowOfRun, _OF_FLOW, batch_of(among))}

    async def ended_at(self, among: Collection[int]) -> dict[int, int]:
        """When a job of each of these runs ended last, where one has."""
        rows = await self._access.rows(_ENDED, batch_of(among))
        return {row[0]: row[1] for row in rows if row[1] is not None}
