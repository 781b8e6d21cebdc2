"""Jobs that a filter means: read from their rows, with what their filter looks at."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Select, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.filters.filter import (
    FilterFacts,
)
from orchestrator.core.jobs.lifecycle import State
from orchestrator.errors import DamagedError
from orchestrator.ledger.schema.job_tables import (
    GIVEN_UP,
    jobs,
    outcomes,
    payloads,
    row_metadata,
)
from orchestrator.ledger.schema.row_codec import STATE_OF, unpack
from orchestrator.ledger.sqlite.statements import IN_BATCH, batch_of
from orchestrator.units import MIB

INPUT_BYTES_MAX: Final = 16 * MIB
"""So many jobs, and so many bytes of inputs as they are stored, one read takes in where inputs are compared."""


class SelectedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a filter means."""

    job: int
    custom_id: str
    line: int
    state: State
    attempts: int
    """Executions that came to an end, since the job was last opened."""

    paid_at_most: int
    trouble: str | None
    """The class of its trouble, where it has failed or was cancelled."""

    message: str | None
    error_key: int | None
    ended_at: int | None
    execution_ms: int | None
    """What its last execution took, where it failed or was cancelled and the service said it."""


_SAID: Final = select(outcomes.c.job_id, outcomes.c.message, outcomes.c.error_key, outcomes.c.execution_ms).where(
    outcomes.c.job_id.in_(IN_BATCH)
)


INPUTS: Final = select(payloads.c.job_id, payloads.c.input, payloads.c.packed).where(payloads.c.job_id.in_(IN_BATCH))


CARRIED: Final = (
    select(row_metadata.c.job_id, row_metadata.c.metadata, literal_column("0"))
    .select_from(
        jobs.join(row_metadata, (row_metadata.c.run_id == jobs.c.run_id) & (row_metadata.c.job_id == jobs.c.id))
    )
    .where(jobs.c.id.in_(IN_BATCH))
)


async def selected(connection: AsyncConnection, rows: Sequence[Any]) -> list[SelectedJob]:
    given_up = [row[0] for row in rows if STATE_OF[row[3]] in GIVEN_UP]
    said = {}
    if given_up:
        said = {row[0]: row for row in await connection.execute(_SAID, batch_of(given_up))}
    return [
        SelectedJob(
            job=row[0],
            custom_id=row[1],
            line=row[2],
            state=STATE_OF[row[3]],
            attempts=row[4],
            paid_at_most=row[5],
            trouble=row[6] if STATE_OF[row[3]] in GIVEN_UP else None,
            message=said[row[0]][1] if row[0] in said else None,
            error_key=said[row[0]][2] if row[0] in said else None,
            ended_at=row[7],
            execution_ms=said[row[0]][3] if row[0] in said else None,
        )
        for row in rows
    ]


async def inputs_of(connection: AsyncConnection, query: Select[Any], ids: Sequence[int]) -> dict[int, object]:
    """What `query` finds of these jobs, decoded."""
    found: dict[int, object] = {}
    for row in await connection.execute(query, batch_of(ids)):
        try:
            found[row[0]] = msgspec.json.decode(unpack(row[1], row[2]))
        except (DamagedError, msgspec.DecodeError, RecursionError):
            continue  # what cannot be read has no members; `verify` tells of it
    return found


def facts(job: SelectedJob, given: object, carried: object) -> FilterFacts:
    return FilterFacts(
        state=job.state,
        trouble=job.trouble,
        error_key=job.error_key,
        message=job.message,
        custom_id=job.custom_id,
        attempts=job.attempts,
        line=job.line,
        ended_at=job.ended_at,
        input=given,
        metadata=carried,
    )
