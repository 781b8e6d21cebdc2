"""What an earlier process knew by heart and the ledger still tells: how long executions took."""

from typing import Final

import msgspec
from sqlalchemy import bindparam, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.lifecycle import Event
from orchestrator.ledger.reports import ENDING
from orchestrator.ledger.sqlite.statements import greatest
from orchestrator.ledger.tables import events, jobs, outcomes, submissions
from orchestrator.units import MILLISECOND_US

EXECUTIONS_MAX: Final = 500
"""So many executions say enough, and weigh little enough to be forgotten once newer ones tell something else."""

EVENTS_LOOKED_AT_MAX: Final = 20_000
"""A few minutes at the contract's rate; an endpoint that is not among them has to be learned anew."""

AGE_US_MAX: Final = 86_400_000_000
"""What was so a day ago says little about today."""


class Took(msgspec.Struct, frozen=True, kw_only=True):
    """What one execution took, in milliseconds, as far as the service said it."""

    delay_ms: int | None
    execution_ms: int | None
    whole_ms: int
    """From its submission to when its end was known here."""


_completed = events.c.event == literal_column(f"'{Event.COMPLETED}'")
_told = outcomes.c.delay_ms.is_not(None) | outcomes.c.execution_ms.is_not(None)
_TOOK: Final = (
    select(
        outcomes.c.delay_ms,
        outcomes.c.execution_ms,
        greatest(events.c.at - submissions.c.sent_at, 0) // MILLISECOND_US,
    )
    .select_from(
        events.join(outcomes, outcomes.c.job_id == events.c.job_id)
        .join(submissions, submissions.c.id == outcomes.c.submission_id)
        .join(jobs, jobs.c.id == events.c.job_id)
    )
    .where(
        events.c.id > select(func.max(events.c.id) - EVENTS_LOOKED_AT_MAX).scalar_subquery(),
        events.c.event.in_(ENDING),
        events.c.at >= bindparam("since"),
        jobs.c.endpoint_id == bindparam("endpoint_id"),
        outcomes.c.status != literal_column("'CANCELLED'"),
        _completed | _told,
    )
    .order_by(events.c.id.desc())
    .limit(EXECUTIONS_MAX)
)


async def took(connection: AsyncConnection, *, endpoint_id: int, now: int) -> list[Took]:
    """What the latest executions at an endpoint took, the oldest first; of those that were cancelled nothing."""
    rows = (await connection.execute(_TOOK, {"endpoint_id": endpoint_id, "since": now - AGE_US_MAX})).all()
    return [Took(delay_ms=row[0], execution_ms=row[1], whole_ms=row[2]) for row in reversed(rows)]
