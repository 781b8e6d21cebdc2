"""How many jobs of a run are in which state, and how often what has happened to them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sqlalchemy import bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.run_counters import counters
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.ledger.expressions import least
from orchestrator.ledger.schema.job_tables import counts, margins
from orchestrator.ledger.statements import upsert

TENTH_US: Final = 100_000
"""Margins are counted in tenths of a second."""


async def counts_write(connection: AsyncConnection, done: Sequence[Transition]) -> None:
    changes: Counter[tuple[int, str]] = Counter()
    for step in done:
        changes[step.after.run, step.before.state] -= 1
        changes[step.after.run, step.after.state] += 1
        for name in counters(step):
            changes[step.after.run, name] += 1
    await counts_add(connection, changes)
    await _margins_add(connection, done)


_COUNTS: Final = select(counts.c.name, counts.c.n).where(counts.c.run_id == bindparam("run"))


async def counts_of(connection: AsyncConnection, run: int) -> Mapping[str, int]:
    """How many jobs of a run are in each state, and its counters."""
    return {row.name: row.n for row in await connection.execute(_COUNTS, {"run": run})}


_COUNT = upsert(counts, lambda new: {"n": counts.c.n + new.n})


async def counts_add(connection: AsyncConnection, changes: Counter[tuple[int, str]]) -> None:
    """Adds `changes[run, name]` to the run's counts."""
    rows = [{"run_id": run, "name": name, "n": n} for (run, name), n in sorted(changes.items()) if n]
    if rows:
        await connection.execute(_COUNT, rows)


_MARGIN = upsert(margins, lambda new: {"n": margins.c.n + new.n, "least_us": least(margins.c.least_us, new.least_us)})


async def _margins_add(connection: AsyncConnection, done: Iterable[Transition]) -> None:
    found: dict[tuple[int, int], list[int]] = {}
    for step in done:
        if step.event is Event.COMPLETED and step.outcome is not None and step.outcome.margin_us is not None:
            found.setdefault((step.after.run, step.outcome.margin_us // TENTH_US), []).append(step.outcome.margin_us)
    rows = [
        {"run_id": run, "step": step, "n": len(found_us), "least_us": min(found_us)}
        for (run, step), found_us in found.items()
    ]
    if rows:
        await connection.execute(_MARGIN, rows)
