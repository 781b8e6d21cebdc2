"""What is open of each group: counted in the transactions of steps and of hand-overs, so that it is never looked for.

Open are the rows on the way to a group that have no outcome yet, those that are owed to another stage on that way, and
groups on that way that are not handed over yet. A group whose rows come of one row of a stage is there once that row
has its output.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, case, func, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.schema.handover_tables import By, gathers, groups, lineage, owed
from orchestrator.ledger.schema.job_tables import jobs
from orchestrator.ledger.statements import IN_BATCH, NUMBERS, Many, batch_of, insert_new


class Way(msgspec.Struct, frozen=True):
    """The runs through which rows come to one that is handed groups of them."""

    to_run: int
    by: By
    runs: frozenset[int]
    begins: frozenset[int]
    sources: frozenset[int]
    """Those whose rows it is given."""

    def is_begun_by(self, run: int) -> bool:
        """Whether each row of `run` that has its output begins a group."""
        return self.by is By.STAGE and run in self.begins

    def counts(self, run: int) -> bool:
        """Whether rows of `run` are open in a group until they have ended."""
        return run in self.runs and not self.is_begun_by(run)


_GATHERS: Final = select(gathers.c.to_run, gathers.c.by, gathers.c.run, gathers.c.begins, gathers.c.hands_over)
_THROUGH: Final = _GATHERS.where(gathers.c.to_run.in_(select(gathers.c.to_run).where(gathers.c.run.in_(IN_BATCH))))
_TO: Final = gathers.c.to_run == bindparam("to")
_ON_THE_WAY: Final = (gathers.c.run == jobs.c.run_id) & _TO

_start: Final = select(NUMBERS.c.value.label("start"), NUMBERS.c.value.label("job")).cte("up", recursive=True)
_UP: Final = _start.union(
    select(_start.c.start, lineage.c.parent).select_from(
        _start.join(lineage, lineage.c.child == _start.c.job)
        .join(jobs, jobs.c.id == lineage.c.parent)
        .join(gathers, _ON_THE_WAY)
    )
)
_GROUPS_OF: Final = select(_UP.c.start, groups.c.id).select_from(
    _UP.join(jobs, jobs.c.id == _UP.c.job)
    .join(gathers, _ON_THE_WAY & (gathers.c.begins == 1))
    .join(groups, (groups.c.to_run == bindparam("to")) & (groups.c.key == jobs.c.custom_id))
)
_OPEN: Final = Many(
    update(groups).where(groups.c.id == bindparam("b_id")).values(open=groups.c.open + bindparam("b_n"))
)
_OPEN_ALL: Final = update(groups).where(groups.c.to_run == bindparam("to")).values(open=groups.c.open + bindparam("n"))
_NAMED: Final = select(jobs.c.id, jobs.c.custom_id, jobs.c.line).where(jobs.c.id.in_(IN_BATCH))


async def ways_through(connection: AsyncConnection, runs: Collection[int]) -> list[Way]:
    """The ways that lead through any of these runs."""
    found: dict[tuple[int, str], list[Any]] = {}
    for row in await connection.execute(_THROUGH, batch_of(runs)):
        found.setdefault((row.to_run, row.by), []).append(row)
    return [
        Way(
            to_run,
            By(by),
            frozenset(row.run for row in rows),
            frozenset(row.run for row in rows if row.begins),
            frozenset(row.run for row in rows if row.hands_over),
        )
        for (to_run, by), rows in found.items()
    ]


async def open_add(connection: AsyncConnection, way: Way, changes: Mapping[int, int]) -> None:
    """So many more are open in the groups of these jobs, which are on the way."""
    if not any(changes.values()):
        return
    if way.by is By.ALL:
        await connection.execute(_OPEN_ALL, {"to": way.to_run, "n": sum(changes.values())})
        return
    sums: Counter[int] = Counter()
    for job, group in await connection.execute(_GROUPS_OF, {"to": way.to_run, **batch_of(changes)}):
        sums[group] += changes[job]
    await _OPEN.execute(connection, [{"b_id": group, "b_n": n} for group, n in sorted(sums.items()) if n])


async def groups_begin(connection: AsyncConnection, way: Way, opens: Mapping[int, int]) -> None:
    """There is a group of each of these jobs, which have their outputs; so much of each is open."""
    if not opens:
        return
    named = (await connection.execute(_NAMED, batch_of(opens))).all()
    rows = [
        {"to_run": way.to_run, "key": custom_id, "line": line, "open": opens[job]} for job, custom_id, line in named
    ]
    await connection.execute(insert_new(groups), rows)
    await due_add(connection, way.to_run, dict.fromkeys(opens, 1))


async def due_add(connection: AsyncConnection, to_run: int, changes: Mapping[int, int]) -> None:
    """So many more groups of `to_run`, which these jobs are of, are to be handed over before other groups can be."""
    for way in await ways_through(connection, [to_run]):
        if way.counts(to_run):
            await open_add(connection, way, changes)


# --- from the beginning

_is_begun: Final = (bindparam("by") != By.STAGE.value) | (jobs.c.state == literal_column(f"'{State.SUCCEEDED}'"))
_base: Final = (
    select(jobs.c.custom_id.label("key"), jobs.c.id.label("job"))
    .select_from(jobs.join(gathers, _ON_THE_WAY & (gathers.c.begins == 1)))
    .where(_is_begun)
    .cte("down", recursive=True)
)
_DOWN: Final = _base.union(
    select(_base.c.key, lineage.c.child).select_from(
        _base.join(lineage, lineage.c.parent == _base.c.job)
        .join(jobs, jobs.c.id == lineage.c.child)
        .join(gathers, _ON_THE_WAY)
    )
)
_way: Final = gathers.alias("way")
_inner: Final = groups.alias("inner_groups")
_begun_by: Final = gathers.alias("begun_by")
_gatherers: Final = select(gathers.c.to_run)
_N_OWED: Final = (
    select(func.count())
    .select_from(owed.join(_way, (_way.c.run == owed.c.to_run) & (_way.c.to_run == bindparam("to"))))
    .where(owed.c.job_id == jobs.c.id, owed.c.to_run.not_in(_gatherers))
    .scalar_subquery()
)
_FIRST: Final = (
    select(func.min(_begun_by.c.run))
    .where(_begun_by.c.to_run == _inner.c.to_run, _begun_by.c.begins == 1)
    .scalar_subquery()
)
_N_DUE: Final = (
    select(func.count())
    .select_from(_inner.join(_way, (_way.c.run == _inner.c.to_run) & (_way.c.to_run == bindparam("to"))))
    .where(_inner.c.is_due == 1, _inner.c.key == jobs.c.custom_id, jobs.c.run_id == _FIRST)
    .scalar_subquery()
)
_has_no_end: Final = case(
    ((bindparam("by") == By.STAGE.value) & (gathers.c.begins == 1), 0), (jobs.c.ended_at.is_(None), 1), else_=0
)
_OPENS: Final = (
    select(_DOWN.c.key, func.min(jobs.c.line), func.sum(_has_no_end + _N_OWED + _N_DUE))
    .select_from(_DOWN.join(jobs, jobs.c.id == _DOWN.c.job).join(gathers, _ON_THE_WAY))
    .group_by(_DOWN.c.key)
    .order_by(func.min(jobs.c.line))
)
_ALL_OPEN: Final = (
    select(func.count()).select_from(jobs.join(gathers, _ON_THE_WAY)).where(jobs.c.ended_at.is_(None)),
    select(func.count())
    .select_from(owed.join(gathers, (gathers.c.run == owed.c.to_run) & _TO))
    .where(owed.c.to_run.not_in(select(_way.c.to_run))),
    select(func.count())
    .select_from(groups.join(gathers, (gathers.c.run == groups.c.to_run) & _TO))
    .where(groups.c.is_due == 1),
)
ALL_KEY: Final = "all"
"""What the group of everything is called."""


async def opens(connection: AsyncConnection, to_run: int, by: By) -> Sequence[tuple[str, int, int]]:
    """Each group that there has to be, by its key, with its line and how much of it is open: counted anew."""
    if by is By.ALL:
        n = [(await connection.execute(query, {"to": to_run})).scalar_one() for query in _ALL_OPEN]
        return [(ALL_KEY, 1, sum(n))]
    found = await connection.execute(_OPENS, {"to": to_run, "by": by.value})
    return [(key, line, n) for key, line, n in found]
