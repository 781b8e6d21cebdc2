"""Which jobs were made of which, through all stages."""

from typing import Final

from sqlalchemy import bindparam, func, select

from orchestrator.ledger.schema.handover_tables import handovers, lineage
from orchestrator.ledger.schema.job_tables import jobs, outcomes
from orchestrator.ledger.sqlite.statements import IN_BATCH

KIN_MAX: Final = 1_000
"""So many relatives of a row are shown at most."""


OF_PARENTS: Final = select(lineage.c.child, lineage.c.parent).where(lineage.c.child.in_(IN_BATCH))


_CALLED: Final = select(jobs.c.id.label("job")).where(
    jobs.c.run_id.in_(IN_BATCH), jobs.c.custom_id == bindparam("custom_id")
)


_up = _CALLED.cte("up", recursive=True)


_UP: Final = _up.union(select(lineage.c.parent).select_from(lineage.join(_up, lineage.c.child == _up.c.job)))


_down = _CALLED.cte("down", recursive=True)


_DOWN: Final = _down.union(select(lineage.c.child).select_from(lineage.join(_down, lineage.c.parent == _down.c.job)))


KIN: Final = (
    select(jobs.c.id, jobs.c.run_id, jobs.c.custom_id, jobs.c.line, jobs.c.state, outcomes.c.trouble)
    .select_from(jobs.outerjoin(outcomes, outcomes.c.job_id == jobs.c.id))
    .where(jobs.c.id.in_(select(_UP.c.job)) | jobs.c.id.in_(select(_DOWN.c.job)))
    .order_by(jobs.c.id)
    .limit(KIN_MAX)
)


BECAME: Final = (
    select(handovers.c.job_id, func.sum(handovers.c.children))
    .where(handovers.c.job_id.in_(IN_BATCH))
    .group_by(handovers.c.job_id)
)
