"""History: what happened to a job, and how long executions took."""

from typing import Final

import msgspec
from sqlalchemy import bindparam, func, literal_column, select

from orchestrator.core.jobs.lifecycle import TERMINAL, TRANSITIONS, Event
from orchestrator.core.jobs.reasons import Detail, ReasonCode, reason_text
from orchestrator.core.planning.observed_times import ObservedExecution
from orchestrator.ledger.expressions import greatest
from orchestrator.ledger.schema.job_tables import endpoints, events, jobs, outcomes, submissions
from orchestrator.ledger.schema.row_codec import columns, detail_of, values
from orchestrator.ledger.transactions.repository import Repository
from orchestrator.units import MILLISECOND_US

ENDING: Final = tuple(event.value for event in Event if {row.get(event) for row in TRANSITIONS.values()} & TERMINAL)
"""The events that end a job, computed from the table."""

EXECUTIONS_MAX: Final = 500
"""So many executions say enough, and weigh little enough to be forgotten once newer ones tell something else."""

EVENTS_LEARNED_FROM_MAX: Final = 20_000
"""A few minutes at the contract's rate; an endpoint that is not among them has to be learned anew."""

AGE_US_MAX: Final = 86_400_000_000
"""What was so a day ago says little about today."""


PLANNED_FROM_MAX: Final = 2_000
PLANNED_FROM_EVENTS_MAX: Final = 200_000
PLANNED_FROM_AGE_US_MAX: Final = 14 * AGE_US_MAX
"""A plan is made from more, and from older ones: it is made once, of an endpoint that nobody may have used since."""


class EventRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One event of a job. `at` is microseconds UTC."""

    at: int
    event: Event
    submission: int | None
    attempt: int
    trouble: str | None
    text: str
    code: ReasonCode | None
    stored_detail: str | None

    @property
    def detail(self) -> Detail:
        """What belongs to its reason."""
        return detail_of(self.stored_detail)

    @property
    def reason(self) -> str:
        """The reason in words."""
        return reason_text(self.code or self.text, self.detail)


class ExecutionTimes(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What one execution took, in milliseconds, as far as the service said it."""

    delay_ms: int | None
    execution_ms: int | None
    whole_ms: int
    """From its submission to when its end was known here."""


_completed = events.c.event == literal_column(f"'{Event.COMPLETED}'")
_told = outcomes.c.delay_ms.is_not(None) | outcomes.c.execution_ms.is_not(None)
_TOOK: Final = (
    select(
        outcomes.c.delay_ms, outcomes.c.execution_ms, greatest(events.c.at - submissions.c.sent_at, 0) // MILLISECOND_US
    )
    .select_from(
        events.join(outcomes, outcomes.c.job_id == events.c.job_id).join(
            submissions, submissions.c.id == outcomes.c.submission_id
        )
    )
    .where(
        events.c.id > select(func.max(events.c.id) - EVENTS_LEARNED_FROM_MAX).scalar_subquery(),
        events.c.event.in_(ENDING),
        events.c.at >= bindparam("since"),
        submissions.c.endpoint_id == bindparam("endpoint_id"),
        outcomes.c.status != literal_column("'CANCELLED'"),
        _completed | _told,
    )
    .order_by(events.c.id.desc())
    .limit(EXECUTIONS_MAX)
)


_EXECUTIONS: Final = (
    select(
        submissions.c.sent_at,
        func.coalesce(outcomes.c.delay_ms, 0),
        outcomes.c.execution_ms,
        greatest(jobs.c.attempt, 1),
        outcomes.c.trouble.is_not(None),
        outcomes.c.worker,
    )
    .select_from(
        events.join(outcomes, outcomes.c.job_id == events.c.job_id)
        .join(submissions, submissions.c.id == outcomes.c.submission_id)
        .join(jobs, jobs.c.id == events.c.job_id)
        .join(endpoints, endpoints.c.id == submissions.c.endpoint_id)
    )
    .where(
        events.c.id > select(func.max(events.c.id) - PLANNED_FROM_EVENTS_MAX).scalar_subquery(),
        events.c.event.in_(ENDING),
        events.c.at >= bindparam("since"),
        endpoints.c.service_url == bindparam("service_url"),
        endpoints.c.endpoint == bindparam("endpoint"),
        outcomes.c.status != literal_column("'CANCELLED'"),
        outcomes.c.execution_ms.is_not(None),
    )
    .order_by(events.c.id.desc())
    .limit(PLANNED_FROM_MAX)
)


OF_EVENT: Final = {"text": events.c.reason, "code": events.c.reason_code, "stored_detail": events.c.detail}
"""The columns of events that are called otherwise than the fields of `EventRow`."""


class History(Repository):
    """The events of a ledger, and what they tell."""

    async def of(self, job: int) -> list[EventRow]:
        """The history of `job`, oldest first."""
        query = select(*columns(EventRow, events, **OF_EVENT)).where(events.c.job_id == job).order_by(events.c.id)
        return await self._access.structs(EventRow, query)

    async def took(self, *, endpoint_id: int, now: int) -> list[ExecutionTimes]:
        """What the latest executions at an endpoint took, the oldest first; of those that were cancelled nothing."""
        rows = await self._access.rows(_TOOK, {"endpoint_id": endpoint_id, "since": now - AGE_US_MAX})
        return values(ExecutionTimes, reversed(rows))

    async def executions(self, *, service_url: str, endpoint: str, now: int) -> list[ObservedExecution]:
        """The latest executions at an endpoint of which the service told how long they took, the newest first; each is
        the last one of its job.
        """
        since = now - PLANNED_FROM_AGE_US_MAX
        parameters = {"service_url": service_url, "endpoint": endpoint, "since": since}
        return await self._access.structs(ObservedExecution, _EXECUTIONS, parameters)
