"""How much time the results of a run had left when they were collected, and how much those have that still wait."""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Select, case, func, literal_column, select

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.expressions import unindexed
from orchestrator.ledger.schema.job_tables import jobs, margins, submissions
from orchestrator.ledger.statements import Among
from orchestrator.ledger.transactions.repository import Repository
from orchestrator.ledger.transitions.count_writes import TENTH_US
from orchestrator.units import SECOND_US


class Margins(msgspec.Struct, frozen=True):
    """The least margin of a run's results and the one that 1 % fell short of, in seconds; None before the first."""

    min: float | None = None
    p1: float | None = None


class Waiting(msgspec.Struct, frozen=True):
    """Of the outstanding jobs of a run: the earliest "not finished", and the earliest end of a TTL."""

    unfinished_at: int
    ttl_at: int | None
    own_until: int | None = None
    """The earliest end of a retention that a submission has of its own."""

    def safe_until(self, retention_us: int) -> int:
        """Until when no result of theirs can expire, if nobody asks for any."""
        bounds = (self.unfinished_at + retention_us, self.ttl_at, self.own_until)
        return min(bound for bound in bounds if bound is not None)


def _least(so_far: Select[Any]) -> Select[Any]:
    """The least margin and the step that 1 % fell short of, of rows that say how many there are up to their step."""
    rows = so_far.subquery()
    step = func.min(case((rows.c.seen * 100 >= rows.c.total, rows.c.step)))
    return select(rows.c.run_id, func.min(rows.c.least_us), step).group_by(rows.c.run_id)


_LEAST: Final = Among(
    select(
        margins.c.run_id,
        margins.c.step,
        margins.c.least_us,
        func.sum(margins.c.n).over(partition_by=margins.c.run_id, order_by=margins.c.step).label("seen"),
        func.sum(margins.c.n).over(partition_by=margins.c.run_id).label("total"),
    ),
    margins.c.run_id,
    of=_least,
)


class MarginsOfRuns(Repository):
    """The margins of a ledger's runs."""

    async def of(self, run: int) -> Margins:
        """The margins of `run`; `p1` is rounded down to a tenth of a second."""
        return (await self.by_run([run])).get(run, Margins())

    async def by_run(self, among: Collection[int] | None = None) -> dict[int, Margins]:
        """The margins of every run that has any, or of those of these numbers."""
        return {
            run: Margins(round(least_us / SECOND_US, 3), round(max(least_us, step * TENTH_US) / SECOND_US, 3))
            for run, least_us, step in await self._access.rows(*_LEAST.of(among))
        }

    async def histogram(self, run: int, bounds_s: Sequence[float]) -> list[int]:
        """How many results of `run` were collected with so much time left: up to each of the bounds, and more than the
        last one. A margin counts as the tenth of a second that it is rounded down to.
        """
        found = [0] * (len(bounds_s) + 1)
        query = select(margins.c.step, margins.c.n).where(margins.c.run_id == run)
        for step, n in await self._access.rows(query):
            found[bisect_left(bounds_s, step * TENTH_US / SECOND_US)] += n
        return found

    async def waiting(self, *, now: int, run: int | None = None) -> dict[int, Waiting]:
        """Of every run that has outstanding jobs, or of `run` alone.

        A "not finished" that is later than `now` is of a clock that was ahead, and says nothing: 0.
        It looks at all outstanding jobs (0.1 s at 300,000): of a run at work better ask its heartbeat.
        """
        query = (
            select(
                jobs.c.run_id,
                func.min(
                    case(
                        (jobs.c.unfinished_at > now, 0),
                        (submissions.c.batch_id.is_not(None), now),  # nobody has asked whether any of it has ended
                        (submissions.c.chunk_id != submissions.c.id, now),  # its lead is asked for
                        else_=jobs.c.unfinished_at,
                    )
                ),
                func.min(submissions.c.ttl_at),
                func.min(jobs.c.unfinished_at + submissions.c.retention_us),
            )
            .select_from(jobs.outerjoin(submissions, submissions.c.id == jobs.c.submission_id))
            .where(jobs.c.state == literal_column(f"'{State.OUTSTANDING}'"))
            # Else SQLite prefers the index of all jobs of a run, most of which have ended.
            .group_by(unindexed(jobs.c.run_id))
        )
        found = await self._access.rows(query if run is None else query.where(unindexed(jobs.c.run_id) == run))
        return {row[0]: Waiting(*row[1:]) for row in found}

    async def safe_until(self, run: int, *, retention_us: int, now: int) -> int | None:
        """Until when no result of an outstanding job of `run` can expire, if nobody asks; None without such jobs."""
        found = (await self.waiting(now=now, run=run)).get(run)
        return None if found is None else min(found.safe_until(retention_us), now + retention_us)
