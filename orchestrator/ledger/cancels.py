"""Submissions that are owed a `/cancel`, and those that turned out to be one too many.

A debt is a row, made by the transaction that finds it. A crash leaves it standing; it is settled by any answer of the
service, or by the submission's TTL, since what is past that no longer runs.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, case, func, literal, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.job import PAID_TWICE, RAN, CancelWhy
from orchestrator.core.lifecycle import State
from orchestrator.core.notice import Notice
from orchestrator.ledger.sqlite.statements import IN_BATCH, batch_of, field
from orchestrator.ledger.store import counts_add
from orchestrator.ledger.tables import FATE_UNKNOWN, HAS_RUN, events, jobs, one_of, submissions


class Owed(msgspec.Struct, frozen=True, kw_only=True):
    """A submission that is owed a `/cancel`."""

    submission: int
    job: int
    endpoint: int
    remote_id: str
    why: CancelWhy
    cancel_at: int


_DUE: Final = (
    select(
        submissions.c.id,
        submissions.c.job_id,
        jobs.c.endpoint_id,
        submissions.c.remote_id,
        submissions.c.cancel_why,
        submissions.c.cancel_at,
    )
    .select_from(submissions.join(jobs, jobs.c.id == submissions.c.job_id))
    .where(
        submissions.c.cancel_at.is_not(None),
        submissions.c.remote_id.is_not(None),
        submissions.c.cancel_at <= bindparam("now"),
        (submissions.c.cancel_at > bindparam("at"))
        | ((submissions.c.cancel_at == bindparam("at")) & (submissions.c.id > bindparam("after"))),
    )
    .order_by(submissions.c.cancel_at, submissions.c.id)
    .limit(bindparam("most"))
)


async def cancels_due(connection: AsyncConnection, *, now: int, after: tuple[int, int], most: int) -> list[Owed]:
    """Up to `most` submissions whose `/cancel` is due and can be sent, after the one at `(cancel_at, submission)`."""
    parameters = {"now": now, "at": after[0], "after": after[1], "most": most}
    return [
        Owed(submission=row[0], job=row[1], endpoint=row[2], remote_id=row[3], why=CancelWhy(row[4]), cancel_at=row[5])
        for row in await connection.execute(_DUE, parameters)
    ]


_IS_OWED: Final = select(submissions.c.id).where(
    submissions.c.id == bindparam("submission"), submissions.c.cancel_at.is_not(None)
)


async def is_owed(connection: AsyncConnection, submission: int) -> bool:
    """Whether a `/cancel` of this submission is owed still."""
    return (await connection.execute(_IS_OWED, {"submission": submission})).first() is not None


_SETTLE: Final = (
    update(submissions)
    .values(cancel_at=field(1))
    .where(submissions.c.id == field(0), submissions.c.cancel_at.is_not(None))
)
_WRITE_OFF: Final = (
    update(submissions)
    .values(cancel_at=None)
    .where(submissions.c.cancel_at.is_not(None), submissions.c.ttl_at < bindparam("now"))
)


async def cancels_settle(connection: AsyncConnection, until: Mapping[int, int | None]) -> None:
    """Puts each submission's debt off until that time, or with None writes it off."""
    await connection.execute(_SETTLE, batch_of(until.items()))


async def cancels_write_off(connection: AsyncConnection, *, now: int) -> None:
    """Forgets the debts of submissions that the service has deleted by now."""
    await connection.execute(_WRITE_OFF, {"now": now})


_OWE: Final = (
    update(submissions)
    .values(cancel_at=bindparam("now"), cancel_why=bindparam("why"))
    .where(
        submissions.c.id.in_(
            select(jobs.c.submission_id).where(
                jobs.c.id.in_(IN_BATCH), jobs.c.state == literal_column(f"'{State.OUTSTANDING}'")
            )
        ),
        submissions.c.cancel_why.is_(None),
    )
    .returning(submissions.c.job_id)
)


async def cancels_owe(connection: AsyncConnection, ids: Collection[int], why: CancelWhy, *, now: int) -> list[int]:
    """The latest submissions of these jobs are to be cancelled; returns the jobs of which that is news.

    Only of outstanding jobs, and once for each submission.
    """
    found = await connection.execute(_OWE, {**batch_of(ids), "why": why.value, "now": now})
    return list(found.scalars())


_STUCK: Final = select(submissions.c.id).where(
    submissions.c.id == bindparam("submission"), submissions.c.cancel_why == literal(CancelWhy.STUCK.value)
)


async def is_cancelled_as_stuck(connection: AsyncConnection, submission: int) -> bool:
    """Whether we cancelled this submission in order to send its job anew."""
    return (await connection.execute(_STUCK, {"submission": submission})).first() is not None


_other = submissions.alias("other")
_BESIDE: Final = (
    select(_other.c.id)
    .select_from(events.join(_other, _other.c.id == events.c.submission_id))  # they have an index by job
    .where(
        events.c.job_id == submissions.c.job_id,
        _other.c.id != submissions.c.id,
        _other.c.ended.is_(None) | literal_column(one_of("other.ended", HAS_RUN)),
    )
    .exists()
)
_RAN: Final = (
    update(submissions)
    .values(
        ended=case((_BESIDE, literal(PAID_TWICE)), else_=literal(RAN)),
        remote_id=func.coalesce(submissions.c.remote_id, field(1)),
        cancel_at=None,
    )
    .where(submissions.c.id == field(0), literal_column(one_of("submissions.ended", FATE_UNKNOWN)))
    .returning(submissions.c.job_id, submissions.c.ended)
)


async def submissions_ran(connection: AsyncConnection, told: Sequence[Notice]) -> Mapping[int, int]:
    """Submissions that were given up, of as many jobs, have run after all, as these notices tell.

    Those beside which another one of their job has run, or is at the service, are paid twice. Each is counted once,
    however often it is told; returns how many more there are by run.
    """
    found = await connection.execute(_RAN, _told(told))
    twice = [row[0] for row in found if row[1] == PAID_TWICE]
    if not twice:
        return {}
    runs = select(jobs.c.id, jobs.c.run_id).where(jobs.c.id.in_(IN_BATCH))
    more = Counter(row[1] for row in await connection.execute(runs, batch_of(twice)))
    await counts_add(connection, Counter({(run, PAID_TWICE): n for run, n in more.items()}))
    return more


_NAME: Final = (
    update(submissions)
    .values(remote_id=field(1))
    .where(
        submissions.c.id == field(0),
        submissions.c.remote_id.is_(None),
        submissions.c.cancel_at.is_not(None),
        field(1).is_not(None),
    )
)


async def cancels_name(connection: AsyncConnection, told: Sequence[Notice]) -> int:
    """What the service calls submissions that are owed a `/cancel`, as these notices tell; returns of how many."""
    return (await connection.execute(_NAME, _told(told))).rowcount


def _told(notices: Sequence[Notice]) -> dict[str, Any]:
    return batch_of([(notice.submission, notice.record.remote_id if notice.record else None) for notice in notices])
