"""Jobs that a filter means: read from their rows, with what their filter looks at."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Select, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.filters.filter import Filter, FilterFacts, asks_input, asks_metadata, asks_retried
from orchestrator.core.filters.filter_parser import cluster_name
from orchestrator.core.text.error_text import summary_of
from orchestrator.errors import DamagedError
from orchestrator.ledger.schema.job_tables import GIVEN_UP, failed_executions, jobs, outcomes, payloads, row_metadata
from orchestrator.ledger.schema.row_codec import STATE_OF, unpack
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.units import MIB
from orchestrator.views.jobs import JobRow

INPUT_BYTES_MAX: Final = 16 * MIB
"""So many jobs, and so many bytes of inputs as they are stored, one read takes in where inputs are compared."""


class SelectedJob(FilterFacts, frozen=True, kw_only=True):
    """A job that a filter means, with what its filter has looked at."""

    job: int
    paid_at_most: int
    execution_ms: int | None
    """What its last execution took, where it failed or was cancelled and the service said it."""

    @property
    def row(self) -> JobRow:
        """As it is shown in a list."""
        return JobRow(
            job=self.job,
            custom_id=self.custom_id,
            line=self.line,
            state=self.state.value,
            attempts=self.attempts,
            class_=self.trouble,
            error=None if self.message is None else summary_of(self.message),
            cluster=None if self.error_key is None else cluster_name(self.error_key),
            ended_at=self.ended_at,
        )


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


RETRIED: Final = select(failed_executions.c.job_id, failed_executions.c.error_key).where(
    failed_executions.c.job_id.in_(IN_BATCH)
)


async def with_facts(connection: AsyncConnection, chosen: Filter, found: Sequence[SelectedJob]) -> list[SelectedJob]:
    """Each of these jobs with all that `chosen` asks of it."""
    ids = [job.job for job in found]
    inputs = await _inputs_of(connection, INPUTS, ids) if asks_input(chosen) else {}
    carried = await _inputs_of(connection, CARRIED, ids) if asks_metadata(chosen) else {}
    retried: dict[int, set[int]] = {}
    if asks_retried(chosen):
        for job, kind in await connection.execute(RETRIED, batch_of(ids)):
            retried.setdefault(job, set()).add(kind)
    return [
        msgspec.structs.replace(
            job, input=inputs.get(job.job), metadata=carried.get(job.job), retried=retried.get(job.job, ())
        )
        for job in found
    ]


async def _inputs_of(connection: AsyncConnection, query: Select[Any], ids: Sequence[int]) -> dict[int, object]:
    """What `query` finds of these jobs, decoded."""
    found: dict[int, object] = {}
    for row in await connection.execute(query, batch_of(ids)):
        try:
            found[row[0]] = msgspec.json.decode(unpack(row[1], row[2]))
        except (DamagedError, msgspec.DecodeError, RecursionError):
            continue  # what cannot be read has no members; `verify` tells of it
    return found
