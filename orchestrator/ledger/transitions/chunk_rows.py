"""Which jobs travel in a chunk."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.job import Job
from orchestrator.ledger.schema.job_columns import job_of, select_jobs_by_submission
from orchestrator.ledger.schema.job_tables import submissions
from orchestrator.ledger.statements import IN_BATCH, batch_of

_RIDERS: Final = (
    select_jobs_by_submission()
    .where(submissions.c.chunk_id.in_(IN_BATCH), submissions.c.id != submissions.c.chunk_id)
    .order_by(submissions.c.id)
)


async def riders_of(connection: AsyncConnection, leads: Iterable[int | None]) -> dict[int, list[Job]]:
    """By the submissions that lead chunks: the jobs whose latest submissions ride with them, in their order."""
    found: dict[int, list[Job]] = {}
    for row in await connection.execute(_RIDERS, batch_of(leads)):
        job = job_of(row)
        if job.chunk is not None:
            found.setdefault(job.chunk, []).append(job)
    return found
