"""The jobs of a run in the order in which they ended, the latest first: what people look at while it goes on.

An index has the jobs of each run that have ended by that time, so that this takes as long for an old run among many
others as for the last one. As in `JobQueries` no read lasts long: each looks at a window, and says how far it has come.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Select, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.filters.filter import (
    Filter,
    asks_input,
    asks_message,
    asks_metadata,
    asks_retried,
    matches,
    pushed,
)
from orchestrator.ledger.database import NUMBER_MAX
from orchestrator.ledger.reports.job_conditions import condition
from orchestrator.ledger.reports.job_queries import INPUTS_MAX, JOB_COLUMNS, WINDOW, WINDOW_MESSAGES
from orchestrator.ledger.reports.selected_jobs import INPUT_BYTES_MAX, SelectedJob, selected, with_facts
from orchestrator.ledger.schema.job_tables import jobs, payloads, runs
from orchestrator.ledger.schema.row_codec import fitting
from orchestrator.ledger.transactions.repository import Repository, asked_again


class EndedPlace(msgspec.Struct, frozen=True):
    """Where a list of jobs that have ended goes on: behind this one."""

    ended_at: int
    job: int


FROM_LATEST: Final = EndedPlace(NUMBER_MAX, NUMBER_MAX)


class EndedPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the jobs that a filter means, the one that ended last first."""

    jobs: Sequence[SelectedJob]
    after: EndedPlace
    """The last job that was looked at."""

    is_last: bool
    looked_at: int
    """How many jobs it went through, at most."""


_PLACE: Final = tuple_(jobs.c.ended_at, jobs.c.id)


def _behind(query: Select[Any], run: int, after: EndedPlace) -> Select[Any]:
    accepted = select(runs.c.intake_accepted).where(runs.c.id == run).scalar_subquery()
    return query.where(
        jobs.c.run_id == run,
        jobs.c.ended_at.is_not(None),
        tuple_(after.ended_at, after.job) > _PLACE,
        jobs.c.intake_id <= accepted,
    ).order_by(jobs.c.ended_at.desc(), jobs.c.id.desc())


class JobsByEnd(Repository):
    """The jobs of runs that have ended."""

    @asked_again
    async def page(self, run: int, chosen: Filter, *, after: EndedPlace = FROM_LATEST, most: int) -> EndedPage:
        """Up to `most` jobs of `run` that have ended and that `chosen` means, behind the place `after`.

        It looks at a bounded number of jobs, and so may bring fewer, or none, and not be the last one all the same.
        """
        chosen = pushed(chosen)
        if asks_input(chosen) or asks_metadata(chosen):
            return await self._page_by_input(run, chosen, after, most)
        window = WINDOW_MESSAGES if asks_message(chosen) or asks_retried(chosen) else WINDOW
        async with self._access.reading() as connection:
            end = await _end_of(connection, run, after, window)
            query = _behind(select(*JOB_COLUMNS), run, after).where(condition(chosen)).limit(most)
            if end is not None:
                query = query.where(tuple_(end.ended_at, end.job) <= _PLACE)
            rows = (await connection.execute(query, execution_options={"compiled_cache": None})).all()
            found = await selected(connection, rows)
        if len(found) == most:
            return EndedPage(jobs=found, after=_place_of(found[-1]), is_last=False, looked_at=window)
        return EndedPage(jobs=found, after=end or EndedPlace(0, 0), is_last=end is None, looked_at=window)

    @asked_again
    async def _page_by_input(self, run: int, chosen: Filter, after: EndedPlace, most: int) -> EndedPage:
        size = select(func.length(payloads.c.input)).where(payloads.c.job_id == jobs.c.id).scalar_subquery()
        query = _behind(select(*JOB_COLUMNS, size), run, after).where(condition(chosen)).limit(INPUTS_MAX)
        async with self._access.reading() as connection:
            rows = (await connection.execute(query, execution_options={"compiled_cache": None})).all()
            fits = rows[: fitting((row[-1] for row in rows), INPUT_BYTES_MAX)]
            looked_at = await selected(connection, fits)
            known = await with_facts(connection, chosen, looked_at)
        found: list[SelectedJob] = []
        for job, facts in zip(looked_at, known, strict=True):
            if matches(chosen, facts):
                found.append(job)
            if len(found) == most:
                return EndedPage(jobs=found, after=_place_of(job), is_last=False, looked_at=len(fits))
        is_last = len(fits) == len(rows) < INPUTS_MAX
        end = EndedPlace(0, 0) if is_last else _place_of(looked_at[-1])
        return EndedPage(jobs=found, after=end, is_last=is_last, looked_at=len(fits))


async def _end_of(connection: AsyncConnection, run: int, after: EndedPlace, window: int) -> EndedPlace | None:
    """The last place of a window that begins behind `after`; None where it holds all that there are."""
    # The window is one of the index alone: whether a job's intake counts stands in its row.
    query = select(jobs.c.ended_at, jobs.c.id).where(
        jobs.c.run_id == run, jobs.c.ended_at.is_not(None), tuple_(after.ended_at, after.job) > _PLACE
    )
    query = query.order_by(jobs.c.ended_at.desc(), jobs.c.id.desc()).limit(1).offset(window - 1)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else EndedPlace(row[0], row[1])


def _place_of(job: SelectedJob) -> EndedPlace:
    assert job.ended_at is not None
    return EndedPlace(job.ended_at, job.job)
