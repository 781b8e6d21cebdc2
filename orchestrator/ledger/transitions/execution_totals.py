"""The executions of each run at each endpoint, added up by days: what they took, by which costs are told.

Each transaction adds those that its steps have ended, so that what was spent needs no look at the jobs.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.gates.executions import EndedExecution, ended_by
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.transition import Transition
from orchestrator.core.service.answers import Trouble
from orchestrator.ledger.schema.job_tables import executions
from orchestrator.ledger.sqlite.statements import upsert
from orchestrator.ledger.transitions.failed_execution_writes import Failed, failed_keep
from orchestrator.units import DAY_US

Place = tuple[int, int, int]
"""A run, an endpoint, and a day: the number of days since 1970, UTC."""

_REPEATING: Final = frozenset({Event.RETRIED, Event.CONTINUED})
"""The events after which another execution follows."""

_ADDED: Final = ("timed", "total_ms", "squares", "untimed", "failed")
_ADD: Final = upsert(executions, lambda new: {name: executions.c[name] + new[name] for name in _ADDED})


def place_of(step: Transition) -> Place:
    """Where the execution counts that `step` ends."""
    return step.after.run, step.before.endpoint, step.at // DAY_US


async def executions_add(connection: AsyncConnection, done: Sequence[Transition]) -> None:
    """Adds the executions that these steps have ended, and keeps what those said that another one is to follow."""
    found: dict[Place, list[DurationTotals]] = {}
    failed: list[Failed] = []
    for step in done:
        ended: EndedExecution | None = ended_by(step)
        if ended is not None:
            found.setdefault(place_of(step), []).append(ended.took)
            if ended.execution is not None and ended.execution.is_failed and step.event in _REPEATING:
                failed.append(_failed(step, ended.execution.kind or 0))
    if failed:
        await failed_keep(connection, failed)
    rows = [_row(place, DurationTotals.together(parts)) for place, parts in found.items()]
    if rows:
        await connection.execute(_ADD, rows)


def _failed(step: Transition, kind: int) -> Failed:
    said = step.previous_outcome
    execution_ms = step.execution_ms if said is None or said.execution_ms is None else said.execution_ms
    return Failed(
        run=step.after.run,
        job=step.after.id,
        attempt=step.before.attempt,
        at=step.at,
        trouble=step.trouble or Trouble.FAILED,
        error_key=kind,
        message="" if said is None else said.message or "",
        execution_ms=execution_ms,
    )


def _row(place: Place, took: DurationTotals) -> dict[str, float]:
    run, endpoint, day = place
    return {
        "run_id": run,
        "endpoint_id": endpoint,
        "day": day,
        **{name: getattr(took, name) for name in _ADDED},
    }
