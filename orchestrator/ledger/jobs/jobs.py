"""Jobs: which there are in a state, of a submission, or by their number."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import Select, bindparam, func, literal_column, select, update

from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.reasons import RETRIES_IN_DOUBT
from orchestrator.core.service.job_record import Failure
from orchestrator.ledger.expressions import unindexed
from orchestrator.ledger.jobs.claim_queue import NOT_FAILED_AT
from orchestrator.ledger.jobs.payloads import custom_ids_of
from orchestrator.ledger.schema.job_columns import job_of, select_jobs
from orchestrator.ledger.schema.job_tables import FATE_UNKNOWN, events, jobs, submissions
from orchestrator.ledger.schema.row_codec import is_taken_in
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.ledger.transactions.repository import Repository, asked_again


class Submitted(msgspec.Struct, frozen=True):
    """The jobs that some submissions are of."""

    job_of: Mapping[int, int]
    """The number of the job, by submission; a submission that nobody knows is missing."""

    jobs: Mapping[int, Job]
    given_up: frozenset[int]
    """Those that ended without anybody knowing whether they ran."""

    cancel_why: Mapping[int, CancelWhy]
    """Of those that we wanted cancelled, why."""

    remote_ids: Mapping[int, str]
    """What the service calls them, where that is known."""

    endpoint_of: Mapping[int, int]
    """Where they were sent."""

    chunks: frozenset[int] = frozenset()
    """Those that carry chunks."""


class JobPlace(msgspec.Struct, frozen=True):
    """Where a job stands in its input, and what has become of it."""

    line: int
    job: int
    state: State
    ended_at: int | None


_NEXT_QUEUED = select(func.min(jobs.c.due_at)).where(
    jobs.c.run_id == bindparam("run"),
    jobs.c.endpoint_id == bindparam("endpoint"),
    jobs.c.state == literal_column(f"'{State.QUEUED}'"),
    is_taken_in(bindparam("run")),
    jobs.c.due_at > bindparam("after"),
)
_GO_HOME = (
    update(jobs)
    .values(endpoint_id=bindparam("b_home"), retry_until=None)
    .where(
        jobs.c.run_id == bindparam("b_run"),
        jobs.c.endpoint_id == bindparam("b_endpoint"),
        jobs.c.state == literal_column(f"'{State.QUEUED}'"),
        (jobs.c.endpoint_id != bindparam("b_home")) | jobs.c.retry_until.is_not(None),
    )
)
_NEXT_BY_RETRY = _NEXT_QUEUED.where(jobs.c.due_at > 0, jobs.c.retry_until > bindparam("now"))
_NEXT_BY_RUN = _NEXT_QUEUED.where(jobs.c.retry_until.is_(None) | (jobs.c.retry_until <= bindparam("now")))
_NEXT_NOT_FAILED_AT = _NEXT_BY_RUN.where(NOT_FAILED_AT)

_SUBMISSIONS = select(
    submissions.c.id,
    submissions.c.job_id,
    submissions.c.ended,
    submissions.c.cancel_why,
    submissions.c.remote_id,
    submissions.c.endpoint_id,
    submissions.c.chunk_id,
).where(submissions.c.id.in_(IN_BATCH))
_JOBS = select_jobs().where(jobs.c.id.in_(IN_BATCH))
_UNAPPLIED = (
    select(submissions.c.failure)
    .select_from(
        jobs.join(submissions, submissions.c.id == jobs.c.submission_id).join(events, events.c.job_id == jobs.c.id)
    )
    .where(
        jobs.c.id == bindparam("job"),
        events.c.id == select(func.max(events.c.id)).where(events.c.job_id == bindparam("job")).scalar_subquery(),
        events.c.reason_code.in_(literal_column(f"'{code}'") for code in sorted(RETRIES_IN_DOUBT)),
        jobs.c.unfinished_at <= events.c.at,
        submissions.c.failure.is_not(None),
    )
)


@cache
def _in_state(state: State) -> tuple[Select[Any], Select[Any]]:
    """Jobs in `state` that are due at the same time as one and come after it, and those that are due later."""
    query = select_jobs().where(jobs.c.state == literal_column(f"'{state.value}'")).limit(bindparam("most"))
    due_at: Any = bindparam("due_at")
    same = query.where(jobs.c.due_at == due_at, jobs.c.id > bindparam("job")).order_by(jobs.c.id)
    return same, query.where(jobs.c.due_at > due_at).order_by(jobs.c.due_at, jobs.c.id)


_failure = msgspec.json.Decoder(Failure)


class Jobs(Repository):
    """The jobs of a ledger."""

    @asked_again
    async def in_state(self, state: State, *, after: tuple[int, int], most: int) -> list[Job]:
        """Up to `most` jobs in `state` (submitting, uncertain or outstanding) after the one at `(due_at, id)`.

        In the order of their index, of which SQLite finds a place by equal columns only; so in two questions. Each page
        of 300,000 outstanding jobs would else sort or step over all of them.
        """
        due_at, job = after
        same, later = _in_state(state)
        place = {"due_at": due_at, "job": job}
        async with self._access.reading() as connection:
            found = [job_of(row) for row in await connection.execute(same, {**place, "most": most})]
            if len(found) < most:
                rows = await connection.execute(later, {**place, "most": most - len(found)})
                found += [job_of(row) for row in rows]
        return found

    async def outstanding_since(self) -> dict[int, int]:
        """By run, when the submission was claimed that has been outstanding for the longest time (microseconds UTC)."""
        query = (
            select(jobs.c.run_id, func.min(jobs.c.submission_id))
            .where(jobs.c.state == literal_column(f"'{State.OUTSTANDING}'"))
            .group_by(unindexed(jobs.c.run_id))
        )
        return {row[0]: row[1] for row in await self._access.rows(query)}

    async def next_queued_at(
        self,
        run: int,
        *,
        endpoint: int,
        by_retry: bool,
        now: int,
        after: int = -1,
        not_failed_at: int | None = None,
    ) -> int | None:
        """When the next queued job of `run` for `endpoint` is due by `/retry`, or by `/run`, of those that are due
        after `after`; 0 for at once, None where there is none. `not_failed_at` is as in a line of claims by `/run`.
        """
        place = {"run": run, "endpoint": endpoint, "now": now, "after": after}
        query = _NEXT_BY_RETRY if by_retry else _NEXT_BY_RUN
        if not_failed_at is not None:
            query, place["not_failed_at"] = _NEXT_NOT_FAILED_AT, not_failed_at
        found: int | None = await self._access.value(query, place)
        return found

    async def go_home(self, run: int, *, endpoint: int, home: int) -> int:
        """The queued jobs of `run` that wait for `endpoint` alone, by `/retry` or since another execution of them was
        to be there, wait in the line of `home` from now on; returns how many.
        """
        return await self._access.shared.execute(_GO_HOME, {"b_run": run, "b_endpoint": endpoint, "b_home": home})

    async def of(self, ids: Sequence[int]) -> dict[int, Job]:
        """The jobs of these numbers."""
        return {row[0]: job_of(row) for row in await self._access.rows(_JOBS, batch_of(ids))}

    @asked_again
    async def of_submissions(self, ids: Sequence[int]) -> Submitted:
        """The jobs of these submissions, and what became of those."""
        async with self._access.reading() as connection:
            found = (await connection.execute(_SUBMISSIONS, batch_of(ids))).all()
            rows = (await connection.execute(_JOBS, batch_of({row[1] for row in found}))).all()
        return Submitted(
            job_of={row[0]: row[1] for row in found},
            jobs={row[0]: job_of(row) for row in rows},
            given_up=frozenset(row[0] for row in found if row[2] in FATE_UNKNOWN),
            cancel_why={row[0]: CancelWhy(row[3]) for row in found if row[3] is not None},
            remote_ids={row[0]: row[4] for row in found if row[4] is not None},
            endpoint_of={row[0]: row[5] for row in found},
            chunks=frozenset(row[0] for row in found if row[6] is not None),
        )

    @asked_again
    async def custom_ids(self, ids: Sequence[int]) -> list[str]:
        """What the input calls these jobs, in the same order."""
        async with self._access.reading() as connection:
            names = await custom_ids_of(connection, ids)
        return [names[job] for job in ids]

    async def place(self, run: int, custom_id: str) -> JobPlace | None:
        """The place of the job of `run` with this custom_id; None where there is none."""
        query = select(jobs.c.line, jobs.c.id, jobs.c.state, jobs.c.ended_at)
        rows = await self._access.rows(query.where(jobs.c.run_id == run, jobs.c.custom_id == custom_id))
        return next((JobPlace(row[0], row[1], State(row[2]), row[3]) for row in rows), None)

    async def failure_before_retry(self, job: int) -> Failure | None:
        """The execution that the `/retry` of `job` was to follow, as long as nobody knows whether that was applied."""
        found = await self._access.value(_UNAPPLIED, {"job": job})
        return None if found is None else _failure.decode(found)
