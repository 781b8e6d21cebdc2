"""Rows become jobs: their writes, which every intake and every hand-over makes."""

from collections.abc import Mapping

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.ledger.runs.input_rows import Intake, PackedRow
from orchestrator.ledger.schema.job_tables import jobs, payloads, row_metadata
from orchestrator.ledger.sqlite.statements import BulkInsert


async def next_job(connection: AsyncConnection) -> int:
    """The number that the next job gets."""
    latest: int | None = (await connection.execute(select(func.max(jobs.c.id)))).scalar()
    return (latest or 0) + 1


_JOB = BulkInsert(jobs, "id", "run_id", "endpoint_id", "custom_id", "intake_id", "line", "priority")
_PAYLOAD = BulkInsert(payloads, "job_id", "input", "packed", "digest", "policy", "s3_config")
_METADATA = BulkInsert(row_metadata, "run_id", "job_id", "metadata")


async def rows_insert(connection: AsyncConnection, intake: Intake, fresh: Mapping[str, PackedRow]) -> int:
    """Makes jobs of rows, which have these ids, and counts nothing; returns the first one's number, which those of the
    others follow.
    """
    run, endpoint, number = intake.run, intake.endpoint, intake.id
    job_rows, payload_rows, metadata_rows = [], [], []
    first = max(intake.first_job, await next_job(connection))
    if not fresh:
        return first
    for job, (custom_id, row) in enumerate(fresh.items(), start=first):
        job_rows.append((job, run, endpoint, custom_id, number, row.line, row.priority))
        payload_rows.append((job, row.input, row.packed, row.digest, row.policy, row.s3_config))
        if row.metadata is not None:
            metadata_rows.append((run, job, row.metadata))
    await _JOB.execute(connection, job_rows)
    await _PAYLOAD.execute(connection, payload_rows)
    if metadata_rows:
        await _METADATA.execute(connection, metadata_rows)
    return first
