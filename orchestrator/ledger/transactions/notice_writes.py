"""What webhooks told, and jobs that were found unfinished: no transition, since nothing happened to the job."""

from collections.abc import Sequence

from sqlalchemy import INTEGER, TEXT, bindparam, delete, func, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.webhook_token import Notice
from orchestrator.ledger.expressions import unindexed
from orchestrator.ledger.schema.job_tables import jobs, notices, submissions
from orchestrator.ledger.schema.row_codec import notice_row
from orchestrator.ledger.statements import ROWS, Many, batch_of, field, insert_new

_ENDPOINT = select(submissions.c.endpoint_id).where(submissions.c.id == bindparam("of", type_=INTEGER))
_NOTE = Many(
    insert_new(notices).values(endpoint_id=func.coalesce(_ENDPOINT.scalar_subquery(), literal_column("0"))).inline(),
    *(column.name for column in notices.c if column.name not in ("id", "endpoint_id")),
)


async def notices_add(connection: AsyncConnection, added: Sequence[Notice]) -> None:
    """Keeps what webhooks told. One that is known already (submission and status) is not kept twice."""
    await _NOTE.execute(connection, [notice_row(notice) for notice in added])


async def notices_delete(connection: AsyncConnection, dealt_with: Sequence[Notice]) -> None:
    """Forgets these notices, and no other of the same submission that came in between."""
    await connection.execute(_NOTICES_DELETE, batch_of(notice.key for notice in dealt_with))


_NOTICES_DELETE = delete(notices).where(
    notices.c.id.in_(
        select(notices.c.id).select_from(
            ROWS.join(notices, (notices.c.submission_id == field(0)) & (notices.c.status == field(1, TEXT)))
        )
    )
)

_UNFINISHED = (
    update(jobs)
    .values(unfinished_at=field(3))
    .where(
        jobs.c.id == field(0),
        jobs.c.submission_id == field(1),
        jobs.c.attempt == field(2),
        # Else SQLite goes through all outstanding jobs for each row of the batch: minutes at 300,000.
        unindexed(jobs.c.state) == literal_column(f"'{State.OUTSTANDING}'"),
    )
)


async def unfinished_write(connection: AsyncConnection, unfinished: Sequence[Job]) -> None:
    """Writes `unfinished_at` of outstanding jobs that were found not finished. No step: nothing happened to them."""
    rows = [(job.id, job.submission, job.attempt, job.unfinished_at) for job in unfinished]
    await connection.execute(_UNFINISHED, batch_of(rows))
