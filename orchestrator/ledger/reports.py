"""The reads: verbs that answer one question each, inside a reading transaction."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import ColumnElement, bindparam, func, literal_column, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.job import RETRIES_IN_DOUBT, CancelWhy, Job
from orchestrator.core.lifecycle import TERMINAL, TRANSITIONS, Event, State
from orchestrator.core.notice import Notice
from orchestrator.core.responses import Failure
from orchestrator.ledger.pages import fitting
from orchestrator.ledger.records import job_of as job_of_row
from orchestrator.ledger.records import notice_of, select_jobs, unpack
from orchestrator.ledger.sqlite.statements import IN_BATCH, batch_of, lesser, without_index
from orchestrator.ledger.tables import (
    FATE_UNKNOWN,
    GIVEN_UP,
    counts,
    endpoints,
    events,
    intakes,
    jobs,
    notices,
    one_of,
    outcomes,
    runs,
    submissions,
)
from orchestrator.ledger.tables import secret_names as names_of_secrets
from orchestrator.settings import RunSettings

EVENTS_LOOKED_AT_MAX: Final = 60_000
"""A minute's events at ten times the contract's rate would be more; then the rate shown is too small."""

ENDING: Final = tuple(event.value for event in Event if {row.get(event) for row in TRANSITIONS.values()} & TERMINAL)
"""The events that end a job, computed from the table."""


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
    return (await counts_by_run(connection, run=run)).get(run, {})


async def counts_by_run(connection: AsyncConnection, *, run: int | None = None) -> dict[int, dict[str, int]]:
    """The same of every run that ever counted anything, or of `run` alone."""
    query = select(counts.c.run_id, counts.c.name, counts.c.n)
    found: dict[int, dict[str, int]] = {}
    for of, name, n in await connection.execute(query if run is None else query.where(counts.c.run_id == run)):
        found.setdefault(of, {})[name] = n
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


async def jobs_given_up(connection: AsyncConnection, *, run: int, after: int, most: int) -> list[Job]:
    """Up to `most` failed or cancelled jobs of `run` with an id above `after`, by id."""
    # Else SQLite goes through all jobs of the run and sorts them, for each page.
    of_run = without_index(jobs.c.run_id) == run
    query = (
        select_jobs()
        .where(of_run, literal_column(one_of("jobs.state", GIVEN_UP)), jobs.c.id > after)
        .order_by(jobs.c.id)
        .limit(most)
    )
    return [job_of_row(row) for row in await connection.execute(query)]


_NEXT_QUEUED = select(func.min(jobs.c.due_at)).where(
    jobs.c.run_id == bindparam("run"),
    jobs.c.state == literal_column(f"'{State.QUEUED}'"),
    jobs.c.intake_id <= select(runs.c.intake_accepted).where(runs.c.id == bindparam("run")).scalar_subquery(),
    jobs.c.due_at > bindparam("after"),
)
_NEXT_BY_RETRY = _NEXT_QUEUED.where(jobs.c.due_at > 0, jobs.c.retry_until > bindparam("now"))
_NEXT_BY_RUN = _NEXT_QUEUED.where(jobs.c.retry_until.is_(None) | (jobs.c.retry_until <= bindparam("now")))


async def next_queued_at(
    connection: AsyncConnection, run: int, *, by_retry: bool, now: int, after: int = -1
) -> int | None:
    """When the next queued job of `run` is due by `/retry`, or by `/run`, of those that are due after `after`; 0 for at
    once, None where there is none.
    """
    query = _NEXT_BY_RETRY if by_retry else _NEXT_BY_RUN
    found: int | None = (await connection.execute(query, {"run": run, "now": now, "after": after})).scalar()
    return found


_SUBMISSIONS = select(
    submissions.c.id, submissions.c.job_id, submissions.c.ended, submissions.c.cancel_why, submissions.c.remote_id
).where(submissions.c.id.in_(IN_BATCH))
_JOBS = select_jobs().where(jobs.c.id.in_(IN_BATCH))


class Submitted(msgspec.Struct, frozen=True):
    """The jobs that some submissions are of."""

    job_of: Mapping[int, int]
    """The number of the job, by submission; a submission that nobody knows is missing."""

    jobs: Mapping[int, Job]
    given_up: frozenset[int]
    """Those that ended without anybody knowing whether they ran."""

    stuck: frozenset[int]
    """Those that we wanted cancelled in order to send their job anew."""

    remote_ids: Mapping[int, str]
    """What the service calls them, where that is known."""


async def jobs_of_submissions(connection: AsyncConnection, ids: Sequence[int]) -> Submitted:
    """The jobs of these submissions, and what became of those."""
    found = (await connection.execute(_SUBMISSIONS, batch_of(ids))).all()
    job_of = {row[0]: row[1] for row in found}
    given_up = frozenset(row[0] for row in found if row[2] in FATE_UNKNOWN)
    stuck = frozenset(row[0] for row in found if row[3] == CancelWhy.STUCK.value)
    remote_ids = {row[0]: row[4] for row in found if row[4] is not None}
    return Submitted(job_of, await jobs_of(connection, list(set(job_of.values()))), given_up, stuck, remote_ids)


async def jobs_of(connection: AsyncConnection, ids: Sequence[int]) -> dict[int, Job]:
    """The jobs of these numbers."""
    rows = await connection.execute(_JOBS, batch_of(ids))
    return {row[0]: job_of_row(row) for row in rows}


async def custom_ids(connection: AsyncConnection, ids: Sequence[int]) -> list[str]:
    """What the input calls these jobs, in the same order."""
    query = select(jobs.c.id, jobs.c.custom_id).where(jobs.c.id.in_(IN_BATCH))
    rows = await connection.execute(query, batch_of(ids))
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
        events.c.reason.in_(literal_column(f"'{reason}'") for reason in sorted(RETRIES_IN_DOUBT)),
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

    Fewer where their outputs come to more than `bytes_max`, stored or unpacked; but at least one.
    """
    sizes = select(notices.c.id, func.coalesce(func.length(notices.c.output), 0))
    found = (await connection.execute(sizes.where(notices.c.id > after).order_by(notices.c.id).limit(most))).all()
    taken = fitting((size for _, size in found), bytes_max)
    query = select(notices).where(notices.c.id > after).order_by(notices.c.id).limit(taken)
    page: list[tuple[int, Notice]] = []
    held = 0
    for row in await connection.execute(query):
        notice = notice_of(row)
        held += len((notice.record and notice.record.output) or b"")
        if page and held > bytes_max:
            break
        page.append((row.id, notice))
    return page


async def notices_count(connection: AsyncConnection) -> int:
    """How many notices were not dealt with."""
    return (await connection.execute(select(func.count()).select_from(notices))).scalar_one()


async def submissions_latest_id(connection: AsyncConnection) -> int:
    """The largest submission number so far; 0 without any."""
    found: int | None = (await connection.execute(select(func.max(submissions.c.id)))).scalar()
    return found or 0


async def accepted_since(connection: AsyncConnection, *, endpoint_id: int, first: int) -> int:
    """How many submissions to an endpoint have a remote id, from the one of number `first` on."""
    query = (
        select(func.count())
        .select_from(submissions.join(jobs, jobs.c.id == submissions.c.job_id))
        .where(submissions.c.id >= first, submissions.c.remote_id.is_not(None), jobs.c.endpoint_id == endpoint_id)
    )
    return (await connection.execute(query)).scalar_one()


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
    seen_at = lesser(func.coalesce(submissions.c.answered_at, submissions.c.sent_at + answer_us), now)
    query = (
        select(is_answered, seen_at)
        .select_from(submissions.join(jobs, jobs.c.id == submissions.c.job_id))
        .where(submissions.c.id > since, jobs.c.endpoint_id == endpoint_id)
        .order_by(seen_at)
    )
    found = (await connection.execute(query)).all()
    return Sent([at for answered, at in found if answered], [at for answered, at in found if not answered])


class FinishedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A finished job with everything its row in the results or the errors file needs."""

    line: int
    job: int
    custom_id: str
    state: State
    attempts: int
    """Executions that came to an end, since the job was last opened: those that failed, and the one with the result."""

    paid_at_most: int
    """Executions that may have been paid, all in all: those of submissions whose fate is unknown are among them."""

    remote_id: str | None
    status: str | None
    stored: bytes | None
    """The output as it is stored: pages hold it packed, and it is unpacked one job at a time."""

    packed: int
    trouble: str | None
    message: str | None
    delay_ms: int | None
    execution_ms: int | None
    ended_at: int | None = None

    @property
    def output(self) -> bytes | None:
        """The output as it was collected. Raises `DamagedError` where it cannot be unpacked any more."""
        return None if self.stored is None else unpack(self.stored, self.packed)


async def finished_page(
    connection: AsyncConnection,
    run: int,
    states: Sequence[State],
    *,
    after: tuple[int, int],
    most: int,
    bytes_max: int,
    packed_too: bool = False,
) -> list[FinishedJob]:
    """Up to `most` jobs of `run` in `states`, in input order, after the job at `(line, id)`.

    Fewer where their outputs, as stored, come to more than `bytes_max`; but at least one. `packed_too`: also those that
    succeeded with a packed output.
    """
    wanted: list[ColumnElement[bool]] = [jobs.c.state.in_([state.value for state in states])]
    if packed_too:
        wanted.append((jobs.c.state == State.SUCCEEDED.value) & (outcomes.c.packed == 1))
    accepted = select(runs.c.intake_accepted).where(runs.c.id == run).scalar_subquery()
    line, job = after
    sizes = (
        select(jobs.c.id, func.coalesce(func.length(outcomes.c.output), 0))
        .select_from(jobs.outerjoin(outcomes, outcomes.c.job_id == jobs.c.id))
        .where(
            jobs.c.run_id == run,
            or_(*wanted),
            jobs.c.intake_id <= accepted,
            (jobs.c.line > line) | ((jobs.c.line == line) & (jobs.c.id > job)),
            jobs.c.line >= line,
        )
        .order_by(jobs.c.line, jobs.c.id)
        .limit(most)
    )
    found = (await connection.execute(sizes)).all()
    taken = [row[0] for row in found[: fitting((row[1] for row in found), bytes_max)]]
    rows = await connection.execute(_FINISHED, batch_of(taken))
    return [
        FinishedJob(
            line=row[0], job=row[1], custom_id=row[2], state=State(row[3]),
            attempts=row[14] + (row[3] == State.SUCCEEDED), paid_at_most=row[4],
            remote_id=row[5], status=row[6], stored=row[7], packed=row[8] or 0,
            trouble=row[9], message=row[10], delay_ms=row[11], execution_ms=row[12], ended_at=row[13],
        )
        for row in rows
    ]  # fmt: skip


_FINISHED = (
    select(
        jobs.c.line, jobs.c.id, jobs.c.custom_id, jobs.c.state, jobs.c.attempt,
        outcomes.c.remote_id, outcomes.c.status, outcomes.c.output, outcomes.c.packed,
        outcomes.c.trouble, outcomes.c.message, outcomes.c.delay_ms, outcomes.c.execution_ms,
        jobs.c.ended_at, jobs.c.failures,
    )
    .select_from(jobs.outerjoin(outcomes, outcomes.c.job_id == jobs.c.id))
    .where(jobs.c.id.in_(IN_BATCH))
    .order_by(jobs.c.line, jobs.c.id)
)  # fmt: skip


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
