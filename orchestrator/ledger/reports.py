"""The reads: verbs that answer one question each, inside a reading transaction."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import bindparam, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.job import RETRY_UNANSWERED, CancelWhy, Job
from orchestrator.core.lifecycle import ENDS, TRANSITIONS, Event, State
from orchestrator.core.notice import Notice
from orchestrator.core.outcome import Failure
from orchestrator.ledger.records import job_of as job_of_row
from orchestrator.ledger.records import notice_of, select_jobs, unpack
from orchestrator.ledger.store import TENTH_US
from orchestrator.ledger.tables import (
    FATE_UNKNOWN,
    counts,
    endpoints,
    events,
    intakes,
    jobs,
    margins,
    notices,
    outcomes,
    runs,
    submissions,
)
from orchestrator.ledger.tables import secret_names as names_of_secrets
from orchestrator.settings import RunSettings

SECOND_US: Final = 1_000_000

EVENTS_LOOKED_AT_MAX: Final = 60_000
"""A minute's events at ten times the contract's rate would be more; then the rate shown is too small."""

ENDING: Final = tuple(event.value for event in Event if {row.get(event) for row in TRANSITIONS.values()} & ENDS)
"""The events that end a job, computed from the table."""

_ids = func.json_each(bindparam("ids")).table_valued("value")


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run as the ledger knows it."""

    id: int
    name: str
    endpoint_id: int
    service_url: str
    endpoint: str
    source: str
    settings: RunSettings
    created_at: int
    accepted: bool
    """Whether any intake of it was ever accepted."""

    rows: int
    """Rows of the latest accepted input."""


_RUNS = select(
    runs.c.id,
    runs.c.name,
    runs.c.endpoint_id,
    endpoints.c.service_url,
    endpoints.c.endpoint,
    runs.c.source,
    runs.c.settings,
    runs.c.created_at,
    runs.c.intake_accepted > 0,
    runs.c.rows_accepted,
).select_from(runs.join(endpoints, endpoints.c.id == runs.c.endpoint_id))

_settings = msgspec.json.Decoder(RunSettings)


async def runs_all(connection: AsyncConnection) -> list[Run]:
    """Every run, oldest first."""
    return [
        Run(
            id=row[0],
            name=row[1],
            endpoint_id=row[2],
            service_url=row[3],
            endpoint=row[4],
            source=row[5],
            settings=_settings.decode(row[6]),
            created_at=row[7],
            accepted=bool(row[8]),
            rows=row[9],
        )
        for row in await connection.execute(_RUNS.order_by(runs.c.id))
    ]


async def counts_of(connection: AsyncConnection, run: int) -> dict[str, int]:
    """Jobs of `run` in each state, and its cumulative counters; names that never counted are missing."""
    found = await connection.execute(select(counts.c.name, counts.c.n).where(counts.c.run_id == run))
    return {row[0]: row[1] for row in found}


class Margins(msgspec.Struct, frozen=True):
    """The least margin of a run's results and the one that 1 % fell short of, in seconds; None before the first."""

    min: float | None = None
    p1: float | None = None


async def margins_of(connection: AsyncConnection, run: int) -> Margins:
    """The margins of `run`; `p1` is rounded down to a tenth of a second."""
    query = select(margins.c.step, margins.c.n, margins.c.least_us).where(margins.c.run_id == run)
    rows = (await connection.execute(query.order_by(margins.c.step))).all()
    if not rows:
        return Margins()
    wanted, seen, p1 = sum(row.n for row in rows) / 100, 0, rows[0].step
    for row in rows:
        seen += row.n
        p1 = row.step
        if seen >= wanted:
            break
    least = min(row.least_us for row in rows) / SECOND_US
    return Margins(round(least, 3), round(max(least, p1 * TENTH_US / SECOND_US), 3))


async def safe_until(connection: AsyncConnection, *, run: int, retention_us: int) -> int | None:
    """Until when no result of an outstanding job of `run` can expire, if nobody asks for any; None without such jobs.

    It looks at all outstanding jobs (0.1 s at 300,000): of a run at work better ask `vitals_of`.
    """
    retained_until = jobs.c.unfinished_at + retention_us
    query = (
        select(func.min(func.min(retained_until, func.coalesce(submissions.c.ttl_at, retained_until))))
        .select_from(jobs.outerjoin(submissions, submissions.c.id == jobs.c.submission_id))
        # With a plus, or SQLite prefers the index of all jobs of the run, most of which have ended.
        .where(jobs.c.state == literal_column(f"'{State.OUTSTANDING}'"), literal_column("+jobs.run_id") == run)
    )
    found: int | None = (await connection.execute(query)).scalar()
    return found


async def jobs_in(connection: AsyncConnection, *, state: State, after: tuple[int, int], most: int) -> list[Job]:
    """Up to `most` jobs in `state` (submitting, uncertain or outstanding) after the one at `(due_at, id)`.

    In the order of their index, of which SQLite finds a place by equal columns only; so in two questions. Each page of
    300,000 outstanding jobs would else sort or step over all of them.
    """
    due_at, job = after
    query = select_jobs().where(jobs.c.state == literal_column(f"'{state.value}'"))
    same = query.where(jobs.c.due_at == due_at, jobs.c.id > job).order_by(jobs.c.id).limit(most)
    found = [job_of_row(row) for row in await connection.execute(same)]
    if len(found) < most:
        later = query.where(jobs.c.due_at > due_at).order_by(jobs.c.due_at, jobs.c.id).limit(most - len(found))
        found += [job_of_row(row) for row in await connection.execute(later)]
    return found


async def jobs_failed(connection: AsyncConnection, *, run: int, after: int, most: int) -> list[Job]:
    """Up to `most` failed jobs of `run` with an id above `after`, by id."""
    query = (
        select_jobs()
        .where(jobs.c.run_id == run, jobs.c.state == State.FAILED.value, jobs.c.id > after)
        .order_by(jobs.c.id)
        .limit(most)
    )
    return [job_of_row(row) for row in await connection.execute(query)]


_NEXT_QUEUED = select(func.min(jobs.c.due_at)).where(
    jobs.c.run_id == bindparam("run"),
    jobs.c.state == literal_column(f"'{State.QUEUED}'"),
    jobs.c.intake_id <= select(runs.c.intake_accepted).where(runs.c.id == bindparam("run")).scalar_subquery(),
)
_NEXT_BY_RETRY = _NEXT_QUEUED.where(jobs.c.due_at > 0, jobs.c.retry_until > bindparam("now"))
_NEXT_BY_RUN = _NEXT_QUEUED.where(jobs.c.retry_until.is_(None) | (jobs.c.retry_until <= bindparam("now")))


async def next_queued_at(connection: AsyncConnection, run: int, *, by_retry: bool, now: int) -> int | None:
    """When the next queued job of `run` is due by `/retry`, or by `/run`; 0 for at once, None where there is none."""
    query = _NEXT_BY_RETRY if by_retry else _NEXT_BY_RUN
    found: int | None = (await connection.execute(query, {"run": run, "now": now})).scalar()
    return found


_SUBMISSIONS = select(submissions.c.id, submissions.c.job_id, submissions.c.ended, submissions.c.cancel_why).where(
    submissions.c.id.in_(select(_ids.c.value))
)
_JOBS = select_jobs().where(jobs.c.id.in_(select(_ids.c.value)))


class Submitted(msgspec.Struct, frozen=True):
    """The jobs that some submissions are of."""

    job_of: Mapping[int, int]
    """The number of the job, by submission; a submission that nobody knows is missing."""

    jobs: Mapping[int, Job]
    given_up: frozenset[int]
    """Those that ended without anybody knowing whether they ran."""

    stuck: frozenset[int]
    """Those that we wanted cancelled in order to send their job anew."""


async def jobs_of_submissions(connection: AsyncConnection, ids: Sequence[int]) -> Submitted:
    """The jobs of these submissions, and what became of those."""
    found = (await connection.execute(_SUBMISSIONS, {"ids": msgspec.json.encode(ids).decode()})).all()
    job_of = {row[0]: row[1] for row in found}
    given_up = frozenset(row[0] for row in found if row[2] in FATE_UNKNOWN)
    stuck = frozenset(row[0] for row in found if row[3] == CancelWhy.STUCK.value)
    return Submitted(job_of, await jobs_of(connection, list(set(job_of.values()))), given_up, stuck)


async def jobs_of(connection: AsyncConnection, ids: Sequence[int]) -> dict[int, Job]:
    """The jobs of these numbers."""
    rows = await connection.execute(_JOBS, {"ids": msgspec.json.encode(ids).decode()})
    return {row[0]: job_of_row(row) for row in rows}


async def custom_ids(connection: AsyncConnection, ids: Sequence[int]) -> list[str]:
    """What the input calls these jobs, in the same order."""
    query = select(jobs.c.id, jobs.c.custom_id).where(jobs.c.id.in_(select(_ids.c.value)))
    rows = await connection.execute(query, {"ids": msgspec.json.encode(ids).decode()})
    names = {row[0]: row[1] for row in rows}
    return [names[job] for job in ids]


async def outstanding_by_endpoint(connection: AsyncConnection) -> dict[int, int]:
    """How many jobs are outstanding at each endpoint, by the counts."""
    query = (
        select(runs.c.endpoint_id, func.sum(counts.c.n))
        .select_from(counts.join(runs, runs.c.id == counts.c.run_id))
        .where(counts.c.name == State.OUTSTANDING.value)
        .group_by(runs.c.endpoint_id)
    )
    return {row[0]: row[1] for row in await connection.execute(query)}


_UNAPPLIED = (
    select(submissions.c.failure)
    .select_from(
        jobs.join(submissions, submissions.c.id == jobs.c.submission_id).join(events, events.c.job_id == jobs.c.id)
    )
    .where(
        jobs.c.id == bindparam("job"),
        events.c.id == select(func.max(events.c.id)).where(events.c.job_id == bindparam("job")).scalar_subquery(),
        events.c.reason == literal_column(f"'{RETRY_UNANSWERED}'"),
        jobs.c.unfinished_at <= events.c.at,
        submissions.c.failure.is_not(None),
    )
)
_failure = msgspec.json.Decoder(Failure)


async def failure_before_retry(connection: AsyncConnection, job: int) -> Failure | None:
    """The execution that the `/retry` of `job` was to follow, as long as nobody knows whether that was applied."""
    found = (await connection.execute(_UNAPPLIED, {"job": job})).scalar()
    return None if found is None else _failure.decode(found)


async def secret_names(connection: AsyncConnection) -> frozenset[str]:
    """The environment variables whose values have left with a submission."""
    return frozenset((await connection.execute(select(names_of_secrets.c.name))).scalars())


async def notices_after(
    connection: AsyncConnection, *, after: int, most: int, bytes_max: int
) -> list[tuple[int, Notice]]:
    """Up to `most` notices that were not dealt with, with their numbers, in the order in which they came.

    Fewer where their outputs, as stored, come to more than `bytes_max`; but at least one.
    """
    sizes = select(notices.c.id, func.coalesce(func.length(notices.c.output), 0))
    taken, held = 0, 0
    for number, size in await connection.execute(sizes.where(notices.c.id > after).order_by(notices.c.id).limit(most)):
        held += size
        if taken and held > bytes_max:
            break
        taken = number
    query = select(notices).where(notices.c.id > after, notices.c.id <= taken).order_by(notices.c.id)
    return [(row.id, notice_of(row)) for row in await connection.execute(query)]


async def notices_count(connection: AsyncConnection) -> int:
    """How many notices were not dealt with."""
    return (await connection.execute(select(func.count()).select_from(notices))).scalar_one()


async def submissions_latest_id(connection: AsyncConnection) -> int:
    """The largest submission number so far; 0 without any."""
    found: int | None = (await connection.execute(select(func.max(submissions.c.id)))).scalar()
    return found or 0


class Sent(msgspec.Struct, frozen=True):
    """When an endpoint's submissions were answered, ascending; where no answer came, the latest time at which the
    service can have seen them.
    """

    answered: list[int]
    unanswered: list[int]


async def sent_since(connection: AsyncConnection, *, endpoint_id: int, since: int, now: int, answer_us: int) -> Sent:
    """The endpoint's submissions that were claimed after `since`.

    The service can have seen one until `answer_us` after its sending. No time is later than `now`.
    """
    is_answered = submissions.c.answered_at.is_not(None)
    seen_at = func.min(func.coalesce(submissions.c.answered_at, submissions.c.sent_at + answer_us), now)
    query = (
        select(is_answered, seen_at)
        .select_from(submissions.join(jobs, jobs.c.id == submissions.c.job_id))
        .where(submissions.c.id > since, jobs.c.endpoint_id == endpoint_id)
        .order_by(seen_at)
    )
    found = (await connection.execute(query)).all()
    return Sent([at for answered, at in found if answered], [at for answered, at in found if not answered])


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A finished job with everything its row in the results or the errors file needs."""

    line: int
    job: int
    custom_id: str
    state: State
    attempts: int
    remote_id: str | None
    status: str | None
    output: bytes | None
    trouble: str | None
    message: str | None
    delay_ms: int | None
    execution_ms: int | None
    ended_at: int | None = None


async def finished_page(
    connection: AsyncConnection, run: int, states: Sequence[State], *, after: tuple[int, int], most: int
) -> list[Finished]:
    """Up to `most` jobs of `run` in `states`, in input order, after the job at `(line, id)`."""
    accepted = select(runs.c.intake_accepted).where(runs.c.id == run).scalar_subquery()
    line, job = after
    query = (
        select(
            jobs.c.line, jobs.c.id, jobs.c.custom_id, jobs.c.state, jobs.c.attempt,
            outcomes.c.remote_id, outcomes.c.status, outcomes.c.output, outcomes.c.packed,
            outcomes.c.trouble, outcomes.c.message, outcomes.c.delay_ms, outcomes.c.execution_ms,
            jobs.c.ended_at,
        )
        .select_from(jobs.outerjoin(outcomes, outcomes.c.job_id == jobs.c.id))
        .where(
            jobs.c.run_id == run,
            jobs.c.state.in_([state.value for state in states]),
            jobs.c.intake_id <= accepted,
            (jobs.c.line > line) | ((jobs.c.line == line) & (jobs.c.id > job)),
            jobs.c.line >= line,
        )
        .order_by(jobs.c.line, jobs.c.id)
        .limit(most)
    )  # fmt: skip
    return [
        Finished(
            line=row[0], job=row[1], custom_id=row[2], state=State(row[3]), attempts=row[4],
            remote_id=row[5], status=row[6],
            output=None if row[7] is None else unpack(row[7], row[8]),
            trouble=row[9], message=row[10], delay_ms=row[11], execution_ms=row[12], ended_at=row[13],
        )
        for row in await connection.execute(query)
    ]  # fmt: skip


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a job."""

    at: int
    event: str
    submission: int | None
    attempt: int
    trouble: str | None
    reason: str


async def events_of(connection: AsyncConnection, job: int) -> list[EventRow]:
    """The history of `job`, oldest first."""
    query = select(events).where(events.c.job_id == job).order_by(events.c.id)
    return [
        EventRow(
            at=row.at,
            event=row.event,
            submission=row.submission_id,
            attempt=row.attempt,
            trouble=row.trouble,
            reason=row.reason,
        )
        for row in await connection.execute(query)
    ]


async def ends_since(connection: AsyncConnection, *, since: int) -> dict[int, int]:
    """How many jobs of each run have ended since that time. It looks at the latest events only."""
    latest = select(func.max(events.c.id) - EVENTS_LOOKED_AT_MAX).scalar_subquery()
    query = (
        select(jobs.c.run_id, func.count())
        .select_from(events.join(jobs, jobs.c.id == events.c.job_id))
        .where(events.c.id > latest, events.c.at >= since, events.c.event.in_(ENDING))
        .group_by(jobs.c.run_id)
    )
    return {row[0]: row[1] for row in await connection.execute(query)}


async def unfinished_intake(connection: AsyncConnection) -> bool:
    """Whether an intake was begun and never accepted, or a run was made and never got one."""
    begun = select(intakes.c.id).where(intakes.c.accepted_at.is_(None))
    made = select(runs.c.id).where(runs.c.intake_accepted == 0)
    found = await connection.execute(begun.union_all(made).limit(1))
    return found.first() is not None


def jobs_total(found: Mapping[str, int]) -> int:
    """All jobs among `counts_of`."""
    return sum(found.get(state.value, 0) for state in State)
