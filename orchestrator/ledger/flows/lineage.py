"""Which jobs were made of which, through all stages."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import bindparam, func, select

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.schema.handover_tables import handovers, lineage
from orchestrator.ledger.schema.job_tables import jobs, outcomes
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.ledger.transactions.repository import Repository


class Kin(msgspec.Struct, frozen=True, array_like=True):
    """A row that another was made of, or is made of it, directly or not; or that row itself."""

    job: int
    run: int
    custom_id: str
    line: int
    state: State
    trouble: str | None


KIN_MAX: Final = 1_000
"""So many relatives of a row are shown at most."""


_PARENTS: Final = select(lineage.c.child, lineage.c.parent).where(lineage.c.child.in_(IN_BATCH))


_CALLED: Final = select(jobs.c.id.label("job")).where(
    jobs.c.run_id.in_(IN_BATCH), jobs.c.custom_id == bindparam("custom_id")
)


_up = _CALLED.cte("up", recursive=True)


_UP: Final = _up.union(select(lineage.c.parent).select_from(lineage.join(_up, lineage.c.child == _up.c.job)))


_down = _CALLED.cte("down", recursive=True)


_DOWN: Final = _down.union(select(lineage.c.child).select_from(lineage.join(_down, lineage.c.parent == _down.c.job)))


_KIN: Final = (
    select(*columns(Kin, jobs, job=jobs.c.id, trouble=outcomes.c.trouble))
    .select_from(jobs.outerjoin(outcomes, outcomes.c.job_id == jobs.c.id))
    .where(jobs.c.id.in_(select(_UP.c.job)) | jobs.c.id.in_(select(_DOWN.c.job)))
    .order_by(jobs.c.id)
    .limit(KIN_MAX)
)


_BECAME: Final = (
    select(handovers.c.job_id, func.sum(handovers.c.children))
    .where(handovers.c.job_id.in_(IN_BATCH))
    .group_by(handovers.c.job_id)
)


class JobLineage(Repository):
    """Which rows of a ledger have become which."""

    async def parents(self, jobs_: Collection[int]) -> Mapping[int, Sequence[int]]:
        """Of which rows these were made."""
        found: dict[int, list[int]] = {}
        for child, parent in await self._access.rows(_PARENTS, batch_of(jobs_)):
            found.setdefault(child, []).append(parent)
        return found

    async def kin(self, among: Collection[int], custom_id: str) -> list[Kin]:
        """The rows of that name in these runs, all that they were made of, and all that was made of them."""
        return await self._access.structs(Kin, _KIN, {"custom_id": custom_id, **batch_of(among)})

    async def became(self, jobs_: Collection[int]) -> Mapping[int, int]:
        """How many rows each of these has become in all stages behind it, of those that were handed over."""
        return {row[0]: row[1] for row in await self._access.rows(_BECAME, batch_of(jobs_))}

    async def children(self, jobs_: Collection[int], to_run: int) -> Mapping[int, int]:
        """How many rows each of these has become there, of those that were handed over."""
        query = select(handovers.c.job_id, handovers.c.children).where(
            handovers.c.to_run == to_run, handovers.c.job_id.in_(IN_BATCH)
        )
        return {row[0]: row[1] for row in await self._access.rows(query, batch_of(jobs_))}
