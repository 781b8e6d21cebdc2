"""What the ledger itself says for a sample, in the transaction that writes it; and what nobody has sampled yet."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, func, literal_column, select

from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.gates.gates import Gate
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.samples.step_counts import LEADS_TO, CountedStep
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.expressions import of_greatest
from orchestrator.ledger.runs.endpoints import ChosenLimits
from orchestrator.ledger.runs.runs import Runs
from orchestrator.ledger.schema.job_tables import (
    commands,
    endpoints,
    events,
    executions,
    failed_executions,
    jobs,
    outcomes,
    runs,
    submissions,
)
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.ledger.transactions.repository import Access, Repository

_POSITION: Final = select(func.coalesce(func.max(events.c.id), 0))
_ACCEPTED: Final = select(runs.c.id, runs.c.pause_requested, runs.c.cancel_requested).where(
    runs.c.id.in_(IN_BATCH), runs.c.intake_accepted > 0
)
_TOOK: Final = (
    select(executions.c.run_id, endpoints.c.endpoint, func.sum(executions.c.timed), func.sum(executions.c.total_ms))
    .add_columns(func.sum(executions.c.untimed), func.sum(executions.c.batch_ms))
    .join(endpoints, endpoints.c.id == executions.c.endpoint_id)
    .where(executions.c.run_id.in_(IN_BATCH))
    .group_by(executions.c.run_id, endpoints.c.endpoint)
)
_ASKED_BY: Final = (
    select(commands.c.run_id, of_greatest(commands.c.asked_by, commands.c.id), func.max(commands.c.id))
    .where(
        commands.c.run_id.in_(IN_BATCH),
        commands.c.action.in_([Action.PAUSE.value, Action.CANCEL.value]),
        commands.c.is_refused == 0,
    )
    .group_by(commands.c.run_id)
)

_before = events.alias("before")
_MISSED: Final = (
    select(
        events.c.id,
        events.c.event,
        events.c.trouble,
        events.c.submission_id,
        jobs.c.run_id,
        func.coalesce(submissions.c.endpoint_id, jobs.c.endpoint_id).label("endpoint_id"),
        select(_before.c.event)
        .where(_before.c.job_id == events.c.job_id, _before.c.id < events.c.id)
        .order_by(_before.c.id.desc())
        .limit(1)
        .scalar_subquery()
        .label("event_before"),
        outcomes.c.submission_id.label("executed"),
        outcomes.c.delay_ms,
        func.coalesce(outcomes.c.execution_ms, failed_executions.c.execution_ms).label("execution_ms"),
        outcomes.c.margin_us,
        submissions.c.batch_id,
        submissions.c.chunk_id,
    )
    .select_from(
        events.join(jobs, jobs.c.id == events.c.job_id)
        .outerjoin(submissions, submissions.c.id == events.c.submission_id)
        .outerjoin(
            outcomes,
            (outcomes.c.job_id == events.c.job_id)
            & events.c.event.in_([literal_column(f"'{event}'") for event in (Event.COMPLETED, Event.ABANDONED)]),
        )
        .outerjoin(
            failed_executions,
            (failed_executions.c.job_id == events.c.job_id) & (failed_executions.c.attempt == events.c.attempt),
        )
    )
    .where(events.c.id > bindparam("after"))
    .order_by(events.c.id)
    .limit(bindparam("most"))
)


class SampleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Of one view of the ledger, by run: those that were asked for and are runs still."""

    at: int
    position: int
    """The number of its last event."""

    counts: Mapping[int, Mapping[str, int]]
    took: Mapping[int, Mapping[str, DurationTotals]]
    """At each endpoint."""

    requested: Mapping[int, str]
    """The gate that people have shut, of those of which they asked for that."""

    asked_by: Mapping[int, str]
    """Who did, as far as a command tells."""

    chosen: Mapping[int, Collection[str]]
    """The operations of each endpoint whose limits a person has set."""


class MissedStep(msgspec.Struct, frozen=True):
    """A step that is in no sample."""

    position: int
    """The number of its event."""

    run: int
    endpoint: int
    step: CountedStep


class UnsampledSteps(Repository):
    """The steps of a ledger that are in no sample, since whoever made them was killed."""

    async def after(self, position: int, *, most: int) -> tuple[list[MissedStep], int | None]:
        """Those of the `most` events after that one, and the last one's number; None where there are no more."""
        rows = await self._access.rows(_MISSED, {"after": position, "most": most})
        return [step for row in rows if (step := _missed(row)) is not None], rows[-1].id if rows else None


def _missed(row: Any) -> MissedStep | None:
    event = Event(row.event)
    if event is Event.CLAIMED:
        return None
    step = CountedStep(
        event,
        State.QUEUED if row.event_before is None else LEADS_TO[Event(row.event_before)],
        None if row.trouble is None else FailureClass(row.trouble),
        row.delay_ms,
        row.execution_ms,
        row.margin_us if event is Event.COMPLETED else None,
        is_paid_twice=_is_extra(row),
        is_executed=event is not Event.COMPLETED or row.executed is not None,
        is_in_batch=row.batch_id is not None and row.executed in (None, row.submission_id),
        is_rider=row.chunk_id not in (None, row.submission_id),
    )
    return MissedStep(row.id, row.run_id, row.endpoint_id, step)


def _is_extra(row: Any) -> bool:
    """Whether a result is that of an earlier submission, while the latest one was at the service, and paid as well."""
    was_there = row.event_before is not None and LEADS_TO[Event(row.event_before)] in (
        State.OUTSTANDING,
        State.SUBMITTING,
    )
    is_earlier = row.executed is not None and row.executed != row.submission_id
    return bool(row.event == Event.COMPLETED and was_there and is_earlier)


async def sample_facts(view: Access, among: Iterable[int]) -> SampleFacts:
    """What `view` says of these runs, as far as they are runs still."""
    accepted: Sequence[Any] = await view.rows(_ACCEPTED, batch_of(among))
    given = [row.id for row in accepted]
    requested = {
        row.id: Gate.CANCELLED.value if row.cancel_requested else Gate.PAUSED.value
        for row in accepted
        if row.cancel_requested or row.pause_requested
    }
    counts = await Runs(view).counts_by_run(given)
    took: dict[int, dict[str, DurationTotals]] = {}
    for run, endpoint, timed, total_ms, untimed, batch_ms in await view.rows(_TOOK, batch_of(given)):
        totals = DurationTotals(timed=timed, total_ms=total_ms, untimed=untimed, batch_ms=batch_ms)
        took.setdefault(run, {})[endpoint] = totals
    return SampleFacts(
        at=view.now(),
        position=int(await view.value(_POSITION)),
        counts={run: {name: n for name, n in counts.get(run, {}).items() if n} for run in given},
        took=took,
        requested=requested,
        asked_by={row[0]: row[1] for row in await view.rows(_ASKED_BY, batch_of(requested))} if requested else {},
        chosen={
            endpoint: [operation.value for operation in of_endpoint]
            for endpoint, of_endpoint in (await ChosenLimits(view).all()).items()
        },
    )
