"""Rows become jobs: their writes, which every intake and every hand-over makes."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.ledger.runs.input_rows import OpenIntake, PackedRow
from orchestrator.ledger.schema.job_tables import jobs, payloads, row_metadata
from orchestrator.ledger.sqlite.statements import BulkInsert


async def next_job(connection: AsyncConnection) -> int:
    """The number that the next job gets."""
    latest: int | None = (await connection.execute(select(func.max(jobs.c.id)))).scalar()
    return (latest or 0) + 1


_OF_JOB: Final = ("line", "priority")
_OF_PAYLOAD: Final = ("input", "packed", "digest", "policy", "s3_config")
"""What both tables take from a row as it is."""

_of_job: Final = attrgetter(*_OF_JOB)
_of_payload: Final = attrgetter(*_OF_PAYLOAD)
_JOB = BulkInsert(jobs, "id", "run_id", "endpoint_id", "custom_id", "intake_id", *_OF_JOB)
_PAYLOAD = BulkInsert(payloads, "job_id", *_OF_PAYLOAD)
_METADATA = BulkInsert(row_metadata, "run_id", "job_id", "metadata")


async def rows_insert(connection: AsyncConnection, intake: OpenIntake, fresh: Mapping[str, PackedRow]) -> int:
    """Makes jobs of rows, which have these ids, and counts nothing; returns the first one's number, which those of the
    others follow.
    """
    run, endpoint, number = intake.run, intake.endpoint, intake.id
    job_rows, payload_rows, metadata_rows = [], [], []
    first = max(intake.first_job, await next_job(connection))
    if not fresh:
        return first
    for job, (custom_id, row) in enumerate(fresh.items(), start=first):
        job_rows.append((job, run, endpoint, custom_id, number, *_of_job(row)))
        payload_rows.append((job, *_of_payload(row)))
        if row.metadata is not None:
            metadata_rows.append((run, job, row.metadata))
    await _JOB.execute(connection, job_rows)
    await _PAYLOAD.execute(connection, payload_rows)
    if metadata_rows:
        await _METADATA.execute(connection, metadata_rows)
    return first
