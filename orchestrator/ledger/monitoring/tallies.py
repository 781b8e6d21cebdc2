"""Sums over all of a ledger, for monitoring: a few small questions, whose cost does not grow with the jobs."""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlalchemy import Executable, bindparam, case, func, literal_column, select, union_all

from orchestrator.core.jobs.lifecycle import UNFINISHED, State
from orchestrator.core.pipelines.due_fires import GapKind
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.ledger.schema.flow_tables import (
    RUN_NEWS_UNSETTLED,
    UNSETTLED,
    flow_ends,
    flows,
    gaps,
    message_ends,
    outbox,
    pipelines,
    run_outbox,
    stages,
)
from orchestrator.ledger.schema.job_tables import counts, endpoints, runs
from orchestrator.ledger.transactions.repository import Repository


class KnownEndpoint(NamedTuple):
    """An endpoint of which the ledger knows."""

    id: int
    name: str
    service_url: str


class LastFlow(NamedTuple):
    """The flow of a pipeline that ended last. Times are microseconds UTC."""

    state: FlowState
    started_at: int | None
    ended_at: int
    succeeded_at: int | None
    """When one last succeeded."""


class FlowCounts(NamedTuple):
    """Of flows, by pipeline."""

    there: Mapping[int, Mapping[str, int]]
    """How many there are in each state."""

    ended: Mapping[int, Mapping[str, int]]
    """How often some have ended in each state, those included that have gone on since."""

    missed: Mapping[int, int]
    """How many fires were missed so far."""


_ENDPOINTS: Final = select(endpoints.c.id, endpoints.c.endpoint, endpoints.c.service_url).order_by(endpoints.c.id)
_JOBS: Final = (
    select(runs.c.endpoint_id, counts.c.name, func.sum(counts.c.n))
    .select_from(counts.join(runs, runs.c.id == counts.c.run_id))
    .where(runs.c.intake_accepted > 0)
    .group_by(runs.c.endpoint_id, counts.c.name)
)
_HAS_UNFINISHED: Final = runs.c.id.in_(select(counts.c.run_id).where(counts.c.n > 0, counts.c.name.in_(UNFINISHED)))
_RUNS: Final = select(runs.c.endpoint_id, func.count()).where(runs.c.intake_accepted > 0).group_by(runs.c.endpoint_id)
_LEFT: Final = select(runs.c.id, runs.c.endpoint_id).where(runs.c.intake_accepted > 0, _HAS_UNFINISHED)
_ALONE: Final = (
    select(runs.c.id)
    .where(runs.c.intake_accepted > 0, runs.c.id.not_in(select(stages.c.run_id).where(stages.c.run_id.is_not(None))))
    .order_by(_HAS_UNFINISHED.desc(), runs.c.id.desc())
)
_BEYOND: Final = (
    select(counts.c.name, func.sum(counts.c.n))
    .where(
        counts.c.run_id.in_(_ALONE.where(_HAS_UNFINISHED).offset(bindparam("most"))),
        counts.c.name.in_([state.value for state in State]),
    )
    .group_by(counts.c.name)
)
_latest = (
    select(
        *(flows.c.pipeline_id, flows.c.state, flows.c.started_at, flows.c.ended_at),
        func.row_number().over(partition_by=flows.c.pipeline_id, order_by=flows.c.ended_at.desc()).label("n"),
        func.max(case((flows.c.state == FlowState.SUCCEEDED.value, flows.c.ended_at)))
        .over(partition_by=flows.c.pipeline_id)
        .label("succeeded_at"),
    )
    .where(flows.c.ended_at.is_not(None))
    .subquery()
)
_LAST: Final = select(
    *(_latest.c.pipeline_id, _latest.c.state, _latest.c.started_at, _latest.c.ended_at, _latest.c.succeeded_at)
).where(_latest.c.n == 1)
_THERE, _ENDED, _MISSED = "there", "ended", "missed"
_FLOWS: Final = union_all(
    select(literal_column(f"'{_THERE}'").label("of"), flows.c.pipeline_id, flows.c.state, func.count()).group_by(
        flows.c.pipeline_id, flows.c.state
    ),
    select(literal_column(f"'{_ENDED}'"), flow_ends.c.pipeline_id, flow_ends.c.state, flow_ends.c.n),
    select(literal_column(f"'{_MISSED}'"), gaps.c.pipeline_id, gaps.c.kind, func.sum(gaps.c.n))
    .where(gaps.c.kind == GapKind.MISSED.value)
    .group_by(gaps.c.pipeline_id, gaps.c.kind),
)
_WAITING: Final = union_all(
    select(outbox.c.target, func.count()).where(UNSETTLED).group_by(outbox.c.target),
    select(run_outbox.c.target, func.count()).where(RUN_NEWS_UNSETTLED).group_by(run_outbox.c.target),
)
_MESSAGE_ENDS: Final = select(message_ends.c.target, message_ends.c.result, message_ends.c.n).order_by(
    message_ends.c.target
)
_NAMES: Final = select(pipelines.c.id, pipelines.c.name).order_by(pipelines.c.id)


class Tallies(Repository):
    """Sums over all of a ledger."""

    async def endpoints(self) -> list[KnownEndpoint]:
        """Every endpoint, oldest first."""
        return [KnownEndpoint(*row) for row in await self._access.rows(_ENDPOINTS)]

    async def jobs(self) -> Mapping[int, Mapping[str, int]]:
        """By endpoint, how many jobs its runs have in each state, and their counters."""
        return await self._table(_JOBS)

    async def runs(self) -> Mapping[int, int]:
        """By endpoint, how many runs there are."""
        return {row[0]: row[1] for row in await self._access.rows(_RUNS)}

    async def open_runs(self) -> Mapping[int, int]:
        """The endpoints of all runs that are not finished, by run."""
        return {row[0]: row[1] for row in await self._access.rows(_LEFT)}

    async def single_runs(self, most: int) -> list[int]:
        """Up to `most` runs that carry out no stage of a flow: those that are not finished, then the newest."""
        return [row[0] for row in await self._access.rows(_ALONE.limit(most))]

    async def jobs_beyond(self, most: int) -> Mapping[str, int]:
        """How many jobs those unfinished ones have in each state that `single_runs` has no place for."""
        return {row[0]: int(row[1]) for row in await self._access.rows(_BEYOND, {"most": most})}

    async def flows(self) -> FlowCounts:
        """How many flows there are and were, and how many fires were missed."""
        found: dict[str, dict[int, dict[str, int]]] = {_THERE: {}, _ENDED: {}, _MISSED: {}}
        for of, pipeline, name, n in await self._access.rows(_FLOWS):
            found[of].setdefault(pipeline, {})[name] = int(n)
        missed = {pipeline: sum(by_kind.values()) for pipeline, by_kind in found[_MISSED].items()}
        return FlowCounts(there=found[_THERE], ended=found[_ENDED], missed=missed)

    async def last_flows(self) -> Mapping[int, LastFlow]:
        """By pipeline, the flow that ended last."""
        return {row[0]: LastFlow(FlowState(row[1]), *row[2:]) for row in await self._access.rows(_LAST)}

    async def messages_waiting(self) -> Mapping[str, int]:
        """By target, how many messages are still to be sent; "" is for addresses that are written out."""
        found: Counter[str] = Counter()
        for target, n in await self._access.rows(_WAITING):
            found[target] += n
        return found

    async def message_ends(self) -> Mapping[str, Mapping[str, int]]:
        """By target, how often somebody was `told`, and how often a message was `given_up`."""
        found: dict[str, dict[str, int]] = {}
        for target, result, n in await self._access.rows(_MESSAGE_ENDS):
            found.setdefault(target, {})[result] = n
        return found

    async def pipelines(self) -> Mapping[int, str]:
        """The names of all pipelines, oldest first."""
        return {row[0]: row[1] for row in await self._access.rows(_NAMES)}

    async def _table(self, query: Executable) -> Mapping[int, Mapping[str, int]]:
        found: dict[int, dict[str, int]] = {}
        for of, name, n in await self._access.rows(query):
            found.setdefault(of, {})[name] = int(n)
        return found
