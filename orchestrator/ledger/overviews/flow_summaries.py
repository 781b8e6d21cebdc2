"""All pipelines at once, for those who look: one question of each kind, however many pipelines, fires and flows there
are. Of each pipeline only its latest are read.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from sqlalchemy import Select, bindparam, func, literal_column, select

from orchestrator.core.pipelines.due_fires import GapKind
from orchestrator.core.pipelines.flow_lifecycle import FlowKind, FlowState
from orchestrator.ledger.flows.fires import GapRow
from orchestrator.ledger.flows.flow_rows import FLOWS, Flow
from orchestrator.ledger.schema.flow_tables import (
    LIVE_ONLY,
    UNSETTLED,
    definitions,
    fires,
    flows,
    gaps,
    outbox,
    pipelines,
    stages,
)
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.transactions.repository import Repository


class SkippedFire(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A fire of which there is no flow. Times are microseconds UTC."""

    pipeline: int
    fire_at: int
    why: str


class PipelineGap(GapRow, frozen=True, kw_only=True, array_like=True):
    """A gap, and the pipeline that has it."""

    pipeline: int


class DefinitionRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A version of a pipeline, and when it was applied (microseconds UTC)."""

    id: int
    version: int
    applied_at: int


class LiveFlows(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """How many flows of a pipeline, recorded at one time, are in a state."""

    pipeline: int
    kind: FlowKind
    recorded_at: int
    state: FlowState
    number: int


class BackfilledFlows(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """How many flows of one backfill are in a state."""

    state: FlowState
    number: int
    parallel: int
    """So many of the backfill run at once."""

    took_us: int
    """For how long those that have begun ran, until they ended or until now, added up."""


class Untold(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """How many messages of a pipeline could not be sent so far, or were given up of late."""

    pipeline: int
    number: int
    since: int
    """When the oldest was owed, microseconds UTC."""

    problem: str
    """Why the newest could not."""


class MissedFires(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """How many fires of a pipeline were found missed of late, and when the first were (microseconds UTC)."""

    pipeline: int
    number: int
    since: int


_TOLD: Final = (FlowState.SUCCEEDED, FlowState.PARTIAL, FlowState.FAILED)
"""How flows end that say something of the next ones."""

_inner: Final = flows.alias("inner_flows")
_NEWEST: Final = (_inner.c.fire_at.desc(), _inner.c.id.desc())


def _latest(*conditions: Any) -> Any:
    """The numbers of the latest flows of a pipeline, found by the index on their fires."""
    of = _inner.c.pipeline_id == pipelines.c.id
    return select(_inner.c.id).where(of, *conditions).order_by(*_NEWEST).limit(bindparam("most")).correlate(pipelines)


def _each(*conditions: Any) -> Select[Any]:
    """The same of each pipeline, newest first."""
    rows = select(*columns(Flow, flows, pipeline_name=pipelines.c.name)).select_from(
        pipelines.join(flows, flows.c.id.in_(_latest(*conditions)))
    )
    return rows.order_by(flows.c.fire_at.desc(), flows.c.id.desc())


_LATEST: Final = _each()
_LATEST_OF_ONE: Final = _LATEST.where(pipelines.c.id == bindparam("pipeline"))
_ENDED: Final = _each(_inner.c.state.in_([state.value for state in _TOLD]))

_fire: Final = fires.alias("inner_fires")
_SKIPPED: Final = (
    select(fires.c.pipeline_id, fires.c.fire_at, fires.c.skipped)
    .select_from(
        pipelines.join(
            fires,
            (fires.c.pipeline_id == pipelines.c.id)
            & fires.c.fire_at.in_(
                select(_fire.c.fire_at)
                .where(_fire.c.pipeline_id == pipelines.c.id)
                .order_by(_fire.c.fire_at.desc())
                .limit(bindparam("most"))
                .correlate(pipelines)
            ),
        )
    )
    .where(fires.c.skipped.is_not(None))
)
_SKIPPED_OF_ONE: Final = _SKIPPED.where(pipelines.c.id == bindparam("pipeline"))

_gap: Final = gaps.alias("inner_gaps")
_GAPS: Final = select(*columns(PipelineGap, gaps)).select_from(
    pipelines.join(
        gaps,
        gaps.c.id.in_(
            select(_gap.c.id)
            .where(_gap.c.pipeline_id == pipelines.c.id)
            .order_by(_gap.c.until_at.desc())
            .limit(bindparam("most"))
            .correlate(pipelines)
        ),
    )
)
_GAPS_OF_ONE: Final = _GAPS.where(pipelines.c.id == bindparam("pipeline"))

_COUNTED: Final = select(flows.c.pipeline_id, flows.c.kind, flows.c.recorded_at, flows.c.state, func.count()).group_by(
    flows.c.pipeline_id, flows.c.kind, flows.c.recorded_at, flows.c.state
)
_LIVE: Final = _COUNTED.where(literal_column(LIVE_ONLY))
_OF_BACKFILL: Final = (
    flows.c.pipeline_id == bindparam("pipeline"),
    flows.c.kind == FlowKind.BACKFILL.value,
    flows.c.recorded_at == bindparam("recorded_at"),
)
_took = func.coalesce(flows.c.ended_at, bindparam("now")) - flows.c.started_at
_BACKFILLED: Final = (
    select(flows.c.state, func.count(), func.max(flows.c.parallel), func.coalesce(func.sum(_took), 0))
    .where(*_OF_BACKFILL)
    .group_by(flows.c.state)
)
_RUNS_OF_BACKFILL: Final = (
    select(stages.c.run_id)
    .select_from(flows.join(stages, stages.c.flow_id == flows.c.id))
    .where(*_OF_BACKFILL, stages.c.run_id.is_not(None))
    .limit(bindparam("most"))
)

_NUMBERED: Final = FLOWS.where(flows.c.id == bindparam("flow"))

_BEGUN: Final = (
    FLOWS.where(literal_column(LIVE_ONLY), flows.c.state != FlowState.WAITING.value)
    .order_by(flows.c.started_at, flows.c.id)
    .limit(bindparam("most"))
)
_WAITING: Final = (
    FLOWS.where(literal_column(LIVE_ONLY), flows.c.state == FlowState.WAITING.value)
    .order_by(flows.c.fire_at, flows.c.id)
    .limit(bindparam("most"))
)

_VERSIONS: Final = (
    select(*columns(DefinitionRow, definitions))
    .where(definitions.c.pipeline_id == bindparam("pipeline"))
    .order_by(definitions.c.version.desc())
    .limit(bindparam("most"))
)

_MISSED: Final = (
    select(gaps.c.pipeline_id, func.sum(gaps.c.n), func.min(gaps.c.recorded_at))
    .where(gaps.c.kind == GapKind.MISSED.value, gaps.c.recorded_at > bindparam("since"))
    .group_by(gaps.c.pipeline_id)
)

_NOT_TAKEN: Final = (outbox.c.problem != literal_column("''"), UNSETTLED | (outbox.c.given_up_at >= bindparam("since")))
_newest: Final = (
    select(
        outbox.c.pipeline_id,
        func.count().label("number"),
        func.min(outbox.c.owed_at).label("since_at"),
        func.max(outbox.c.id).label("newest"),
    )
    .where(*_NOT_TAKEN)
    .group_by(outbox.c.pipeline_id)
    .subquery()
)
_UNTOLD: Final = select(_newest.c.pipeline_id, _newest.c.number, _newest.c.since_at, outbox.c.problem).select_from(
    _newest.join(outbox, outbox.c.id == _newest.c.newest)
)


class FlowSummaries(Repository):
    """What there is to see of all pipelines of a ledger at once, or of one."""

    async def latest(self, most: int, *, pipeline: int | None = None) -> list[Flow]:
        """The latest `most` flows of each pipeline, or of that one, newest fires first."""
        if pipeline is None:
            return await self._access.structs(Flow, _LATEST, {"most": most})
        return await self._access.structs(Flow, _LATEST_OF_ONE, {"most": most, "pipeline": pipeline})

    async def numbered(self, number: int) -> Flow | None:
        """The flow of that number, or None."""
        return await self._access.first(Flow, _NUMBERED, {"flow": number})

    async def ended(self) -> Mapping[int, Flow]:
        """By pipeline, the latest flow that ended in a way that says something of the next ones."""
        return {flow.pipeline: flow for flow in await self._access.structs(Flow, _ENDED, {"most": 1})}

    async def skipped(self, most: int, *, pipeline: int | None = None) -> list[SkippedFire]:
        """Those of the latest `most` fires of each pipeline, or of that one, that have no flow."""
        if pipeline is None:
            return await self._access.structs(SkippedFire, _SKIPPED, {"most": most})
        return await self._access.structs(SkippedFire, _SKIPPED_OF_ONE, {"most": most, "pipeline": pipeline})

    async def gaps(self, most: int, *, pipeline: int | None = None) -> list[PipelineGap]:
        """The latest `most` gaps of each pipeline, or of that one."""
        if pipeline is None:
            return await self._access.structs(PipelineGap, _GAPS, {"most": most})
        return await self._access.structs(PipelineGap, _GAPS_OF_ONE, {"most": most, "pipeline": pipeline})

    async def versions(self, pipeline: int, most: int) -> list[DefinitionRow]:
        """The latest `most` versions of a pipeline, newest first."""
        return await self._access.structs(DefinitionRow, _VERSIONS, {"pipeline": pipeline, "most": most})

    async def live(self) -> list[LiveFlows]:
        """How many flows have not ended, by pipeline, kind, time and state."""
        return await self._access.structs(LiveFlows, _LIVE)

    async def backfill(self, pipeline: int, recorded_at: int, *, now: int) -> list[BackfilledFlows]:
        """How the flows stand that one backfill of a pipeline has made, ended ones included."""
        given = {"pipeline": pipeline, "recorded_at": recorded_at, "now": now}
        return await self._access.structs(BackfilledFlows, _BACKFILLED, given)

    async def runs_of_backfill(self, pipeline: int, recorded_at: int, most: int) -> list[int]:
        """The numbers of the runs that carry out these flows, up to `most` of them."""
        given = {"pipeline": pipeline, "recorded_at": recorded_at, "most": most}
        return [run for (run,) in await self._access.rows(_RUNS_OF_BACKFILL, given)]

    async def begun(self, most: int) -> list[Flow]:
        """Up to `most` flows that run or are held, the oldest first."""
        return await self._access.structs(Flow, _BEGUN, {"most": most})

    async def waiting(self, most: int) -> list[Flow]:
        """Up to `most` flows whose turn has not come, the oldest fires first."""
        return await self._access.structs(Flow, _WAITING, {"most": most})

    async def missed(self, since: int) -> Mapping[int, MissedFires]:
        """By pipeline, the fires that were found missed since then."""
        found = await self._access.structs(MissedFires, _MISSED, {"since": since})
        return {each.pipeline: each for each in found}

    async def untold(self, since: int) -> Mapping[int, Untold]:
        """By pipeline, the messages that nobody has taken though it was tried; those given up before then left out."""
        found = await self._access.structs(Untold, _UNTOLD, {"since": since})
        return {each.pipeline: each for each in found}
