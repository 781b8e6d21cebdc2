"""Forgets old events, a little at a time.

The history of a job that ended long ago shrinks to its last event, which says how it ended; so that the events still
replay to the state. A run's `pruned_before` is raised first: of jobs that ended before it, earlier events may be gone.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.ledger.tables import events, jobs, runs

_batch = func.json_each(bindparam("batch")).table_valued("value")


def _field(position: int) -> Any:
    return func.json_extract(_batch.c.value, f"$[{position}]")


class Doomed(msgspec.Struct, frozen=True):
    """Events that may go, of those after one and up to `upto`; None where there are no more that are old enough."""

    ids: tuple[int, ...]
    upto: int | None


_later = events.alias("later")
_DOOMED: Final = (
    select(events.c.id)
    .select_from(events.join(jobs, jobs.c.id == events.c.job_id).join(_batch, jobs.c.run_id == _field(0)))
    .where(
        events.c.id > bindparam("after"),
        events.c.id <= bindparam("upto"),
        jobs.c.ended_at < _field(1),
        select(_later.c.id).where(_later.c.job_id == events.c.job_id, _later.c.id > events.c.id).exists(),
    )
)


async def events_doomed(connection: AsyncConnection, before: Mapping[int, int], *, after: int, most: int) -> Doomed:
    """Which of the `most` events after `after` may go: those of jobs that ended before their run's time in `before`."""
    page = select(events.c.id, events.c.at).where(events.c.id > after).order_by(events.c.id).limit(most)
    rows = [row for row in await connection.execute(page) if row.at < max(before.values())]
    if not rows:
        return Doomed((), None)
    parameters = {"after": after, "upto": rows[-1].id, "batch": json.dumps(list(before.items()))}
    ids = (await connection.execute(_DOOMED, parameters)).scalars()
    return Doomed(tuple(ids), rows[-1].id)


_PRUNED: Final = (
    update(runs).values(pruned_before=_field(1)).where(runs.c.id == _field(0), runs.c.pruned_before < _field(1))
)
_DELETE: Final = delete(events).where(events.c.id.in_(select(_batch.c.value)))


async def events_prune(connection: AsyncConnection, before: Mapping[int, int], ids: Sequence[int]) -> None:
    """Deletes these events, and records how far back the histories of the runs are whole."""
    await connection.execute(_PRUNED, {"batch": json.dumps(list(before.items()))})
    await connection.execute(_DELETE, {"batch": json.dumps(list(ids))})
