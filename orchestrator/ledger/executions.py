"""The executions of each run at each endpoint, added up by days: what they took, by which costs are told.

Each transaction adds those that its steps have ended, so that what was spent needs no look at the jobs.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.costs import Took
from orchestrator.core.executions import Ended, ended_by
from orchestrator.core.job import Transition
from orchestrator.ledger.sqlite.statements import upsert
from orchestrator.ledger.tables import executions
from orchestrator.units import DAY_US

Place = tuple[int, int, int]
"""A run, an endpoint, and a day: the number of days since 1970, UTC."""

_ADDED: Final = ("told", "total_ms", "squares", "untold", "failed")
_ADD: Final = upsert(executions, lambda new: {name: executions.c[name] + new[name] for name in _ADDED})


def place_of(step: Transition) -> Place:
    """Where the execution counts that `step` ends."""
    return step.after.run, step.before.endpoint, step.at // DAY_US


async def executions_add(connection: AsyncConnection, done: Sequence[Transition]) -> None:
    """Adds the executions that these steps have ended."""
    found: dict[Place, list[Took]] = {}
    for step in done:
        ended: Ended | None = ended_by(step)
        if ended is not None:
            found.setdefault(place_of(step), []).append(ended.took)
    rows = [_row(place, Took.together(parts)) for place, parts in found.items()]
    if rows:
        await connection.execute(_ADD, rows)


def _row(place: Place, took: Took) -> dict[str, float]:
    run, endpoint, day = place
    return {
        "run_id": run,
        "endpoint_id": endpoint,
        "day": day,
        **{name: getattr(took, name) for name in _ADDED},
    }
