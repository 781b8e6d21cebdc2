"""What a process whose clock was ahead has left: nothing that is read from the ledger may lie in the future.

A time that does is of such a process. Whoever believed it would wait until then, for an hour perhaps, and take results
for safe that are gone. So it is brought back, before anything is read, to the latest that it can be: a wait to the
longest that there is, a submission to the present. That a job was last seen unfinished in the future says nothing at
all; the collector asks for it at once.
"""

from typing import Final

from sqlalchemy import ColumnElement, Select, Table, bindparam, func, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.clock import JUMP_US_MIN
from orchestrator.core.lifecycle import State
from orchestrator.core.retry import BACKOFF_S_MAX
from orchestrator.ledger.sqlite.statements import greatest
from orchestrator.ledger.tables import events, heartbeats, jobs, run_endpoints, runs, submissions
from orchestrator.units import SECOND_US

WAIT_US_MAX: Final = BACKOFF_S_MAX * SECOND_US
"""What is queued, or is owed a `/cancel`, is put off for no longer."""

_LATEST: Final = select(
    greatest(
        # Not its number, which is ahead of its claim where many were claimed at once.
        func.coalesce(select(submissions.c.sent_at).order_by(submissions.c.id.desc()).limit(1).scalar_subquery(), 0),
        select(func.coalesce(func.max(heartbeats.c.beaten_at), 0)).scalar_subquery(),
        func.coalesce(select(events.c.at).order_by(events.c.id.desc()).limit(1).scalar_subquery(), 0),
    )
)

_queued = jobs.alias("queued")


def _queued_at(served: Table, run: ColumnElement[int]) -> Select[tuple[int]]:
    """The queued jobs of runs at endpoints, as `served` has both, that are due after `latest`."""
    here = (_queued.c.run_id == run) & (_queued.c.endpoint_id == served.c.endpoint_id)
    return (
        select(_queued.c.id)
        .select_from(served.join(_queued, here))
        .where(
            _queued.c.state == literal_column(f"'{State.QUEUED}'"),
            _queued.c.due_at > bindparam("latest"),
        )
    )


_QUEUED: Final = (
    update(jobs)
    .values(due_at=bindparam("latest"))
    .where(jobs.c.id.in_(_queued_at(runs, runs.c.id).union_all(_queued_at(run_endpoints, run_endpoints.c.run_id))))
)
_UNCERTAIN: Final = (
    update(jobs)
    .values(due_at=greatest(jobs.c.due_at - bindparam("ahead"), bindparam("now")))
    .where(jobs.c.state == literal_column(f"'{State.UNCERTAIN}'"), jobs.c.due_at > bindparam("now"))
)
_SENT: Final = (
    update(submissions)
    .values(sent_at=bindparam("now"), ttl_at=submissions.c.ttl_at - (submissions.c.sent_at - bindparam("now")))
    # Those of a number in the future, the time of their claim: else it would look at all.
    .where(submissions.c.id > bindparam("now"), submissions.c.sent_at > bindparam("now"))
)
_CANCELS: Final = (
    update(submissions)
    .values(cancel_at=bindparam("latest"))
    .where(submissions.c.cancel_at.is_not(None), submissions.c.cancel_at > bindparam("latest"))
)


async def bring_back(connection: AsyncConnection, *, now: int) -> int:
    """Brings back what lies in the future; returns by how much the latest time was ahead, 0 where none was.

    A submission's number stays: it is only a name, and later ones get larger ones.
    """
    ahead: int = (await connection.execute(_LATEST)).scalar_one() - now
    if ahead <= JUMP_US_MIN:
        return 0
    latest = now + WAIT_US_MAX
    await connection.execute(_QUEUED, {"latest": latest})
    await connection.execute(_UNCERTAIN, {"ahead": ahead, "now": now})
    await connection.execute(_SENT, {"now": now})
    await connection.execute(_CANCELS, {"latest": latest})
    return ahead
