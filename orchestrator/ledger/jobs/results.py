"""Results: finished jobs with all that their rows in the files need."""

from collections.abc import Sequence
from functools import cache
from itertools import takewhile
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Select, bindparam, func, literal, literal_column, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.ledger.expressions import unindexed
from orchestrator.ledger.jobs.history import ENDING
from orchestrator.ledger.schema.handover_tables import reused
from orchestrator.ledger.schema.job_tables import (
    endpoints,
    events,
    jobs,
    outcomes,
    payloads,
    row_metadata,
    runs,
    submissions,
)
from orchestrator.ledger.schema.row_codec import fitting, saved_names, unpack
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.ledger.transactions.repository import Repository, asked_again


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Whose result a job has: names, since that job may be gone one day."""

    run: str
    custom_id: str


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
    worker: str | None = None
    endpoint: str | None = None
    """Where the outcome came from; None where nothing was sent for it."""

    sent_at: int | None = None
    """When the submission was sent that the outcome is of; None where that is forgotten, or there was none."""

    reused: Origin | None = None
    """Whose result it has, where nothing was sent for it."""

    saved: tuple[str, ...] = ()
    """The members of the output in whose places stands what tells of the files that we have made of them."""

    stored_input: bytes | None = None
    """As it is stored, where it was asked for."""

    packed_input: int = 0
    metadata: bytes | None = None
    """What its row carries, a compact JSON object."""

    @property
    def input(self) -> bytes | None:
        """The input as it came, where it was asked for. Raises `DamagedError`."""
        return None if self.stored_input is None else unpack(self.stored_input, self.packed_input)

    @property
    def output(self) -> bytes | None:
        """The output as it was collected. Raises `DamagedError` where it cannot be unpacked any more."""
        return None if self.stored is None else unpack(self.stored, self.packed)


_OF_JOB = outcomes.c.job_id == jobs.c.id

_EXECUTED_AT = func.coalesce(func.nullif(submissions.c.endpoint_id, 0), jobs.c.endpoint_id)
"""Where what became of a job came from; of a submission that is forgotten the job knows it."""

_FINISHED = (
    select(
        jobs.c.line, jobs.c.id, jobs.c.custom_id, jobs.c.state, jobs.c.attempt,
        outcomes.c.remote_id, outcomes.c.status, outcomes.c.output, outcomes.c.packed,
        outcomes.c.trouble, outcomes.c.message, outcomes.c.delay_ms, outcomes.c.execution_ms,
        jobs.c.ended_at, jobs.c.failures, outcomes.c.worker, submissions.c.sent_at,
        reused.c.from_run, reused.c.from_custom_id, row_metadata.c.metadata, endpoints.c.endpoint,
        outcomes.c.saved,
    )
    .select_from(
        jobs.outerjoin(outcomes, _OF_JOB)
        .outerjoin(submissions, submissions.c.id == outcomes.c.submission_id)
        .outerjoin(endpoints, endpoints.c.id == _EXECUTED_AT)
        .outerjoin(reused, reused.c.job_id == jobs.c.id)
        .outerjoin(row_metadata, (row_metadata.c.run_id == jobs.c.run_id) & (row_metadata.c.job_id == jobs.c.id))
    )
    .where(jobs.c.id.in_(IN_BATCH))
    .order_by(jobs.c.line, jobs.c.id)
)  # fmt: skip


_INPUT_SIZES = select(payloads.c.job_id, func.length(payloads.c.input)).where(payloads.c.job_id.in_(IN_BATCH))
_INPUTS = select(payloads.c.job_id, payloads.c.input, payloads.c.packed).where(payloads.c.job_id.in_(IN_BATCH))

_later = events.alias("later")
_EVENTS_PAGE: Final = (
    select(events.c.id)
    .where(events.c.id > bindparam("after"))
    .order_by(events.c.id)
    .limit(bindparam("most"))
    .subquery()
)
_EVENTS_END: Final = select(func.max(_EVENTS_PAGE.c.id))
_ENDED: Final = (
    select(events.c.id, jobs.c.id, func.coalesce(func.length(outcomes.c.output), 0))
    .select_from(
        events.join(jobs, jobs.c.id == events.c.job_id).outerjoin(outcomes, outcomes.c.job_id == events.c.job_id)
    )
    .where(
        events.c.id > bindparam("after"),
        events.c.id <= bindparam("upto"),
        events.c.event.in_([literal_column(f"'{event}'") for event in ENDING]),
        unindexed(jobs.c.run_id) == bindparam("run"),
        # One that was opened again since has not ended, or ends at a later event.
        ~select(_later.c.id).where(_later.c.job_id == events.c.job_id, _later.c.id > events.c.id).exists(),
    )
    .order_by(events.c.id)
)


_FIRST_EVENT: Final = select(
    func.min(select(func.min(events.c.id)).where(events.c.job_id == jobs.c.id).correlate(jobs).scalar_subquery())
).where(jobs.c.run_id == bindparam("run"))
_LATEST_EVENT: Final = select(func.coalesce(func.max(events.c.id), 0))
_LAST_EVENT: Final = _LATEST_EVENT.where(events.c.job_id == bindparam("job"))
_IN_ORDER: Final = (
    select(jobs.c.id, func.coalesce(func.length(outcomes.c.output), 0), jobs.c.state)
    .select_from(jobs.outerjoin(outcomes, outcomes.c.job_id == jobs.c.id))
    .where(
        jobs.c.run_id == bindparam("run"),
        (jobs.c.line > bindparam("line")) | ((jobs.c.line == bindparam("line")) & (jobs.c.id > bindparam("job"))),
        jobs.c.line >= bindparam("line"),
    )
    .order_by(jobs.c.line, jobs.c.id)
    .limit(bindparam("most"))
)
_ENDS: Final = frozenset(state.value for state in TERMINAL)


class EndedJobs(msgspec.Struct, frozen=True):
    """Some jobs of a run, in the order in which they ended, each with its place in that order."""

    jobs: Sequence[tuple[int, FinishedJob]]
    upto: int | None
    """The place after which to go on; None where nothing has happened since."""


_HAS_METADATA: Final = select(row_metadata.c.job_id).where(row_metadata.c.run_id == bindparam("run")).limit(1)


_results: Select[tuple[Any]] = (
    select(literal_column("1"))
    .select_from(jobs.join(outcomes, outcomes.c.job_id == jobs.c.id))
    .where(jobs.c.run_id == bindparam("run"), jobs.c.state == literal_column(f"'{State.SUCCEEDED}'"))
)
_EMPTY: Final = select(
    _results.where(outcomes.c.output.is_not(None), outcomes.c.output != literal(b"null")).exists(), _results.exists()
)


class Results(Repository):
    """The finished jobs of a ledger."""

    async def are_all_empty(self, run: int) -> bool:
        """Whether `run` has results, and none of them has anything in it. The first that has ends the look."""
        return (await self._access.rows(_EMPTY, {"run": run})) == [(0, 1)]

    async def have_metadata(self, run: int) -> bool:
        """Whether any row of `run` carries something unsent."""
        return bool(await self._access.rows(_HAS_METADATA, {"run": run}))

    @asked_again
    async def page(
        self,
        run: int,
        states: Sequence[State],
        *,
        after: tuple[int, int],
        most: int,
        bytes_max: int,
        packed_too: bool = False,
        inputs: bool = False,
    ) -> list[FinishedJob]:
        """Up to `most` jobs of `run` in `states`, in input order, after the job at `(line, id)`.

        Fewer where their outputs, as stored, come to more than `bytes_max`; but at least one. `packed_too`: also those
        that succeeded with a packed output. `inputs`: with their inputs, which count as outputs do.
        """
        sizes = _sizes(tuple(states), packed_too=packed_too)
        async with self._access.reading() as connection:
            parameters = {"run": run, "line": after[0], "job": after[1], "most": most}
            found = [(row[0], row[1]) for row in await connection.execute(sizes, parameters)]
            return await _finished(connection, found, bytes_max, inputs=inputs)

    @asked_again
    async def of(self, ids: Sequence[int], *, bytes_max: int, inputs: bool = False) -> list[FinishedJob]:
        """The finished ones of these jobs, by their numbers: the first of them where their outputs, as stored, come to
        more than `bytes_max`, and at least one. `inputs` as for `page`.
        """
        sizes = (
            select(jobs.c.id, func.coalesce(func.length(outcomes.c.output), 0))
            .select_from(jobs.outerjoin(outcomes, _OF_JOB))
            .where(jobs.c.id.in_(IN_BATCH), jobs.c.ended_at.is_not(None))
            .order_by(jobs.c.id)
        )
        async with self._access.reading() as connection:
            found = [(row[0], row[1]) for row in await connection.execute(sizes, batch_of(ids))]
            return sorted(await _finished(connection, found, bytes_max, inputs=inputs), key=lambda job: job.job)

    @asked_again
    async def ended(
        self,
        run: int,
        states: Sequence[State],
        *,
        after: int,
        most: int,
        bytes_max: int,
        packed_too: bool = False,
        inputs: bool = False,
    ) -> EndedJobs:
        """The jobs of `run` in `states` that ended by the `most` events of the ledger after place `after`.

        Fewer where their outputs, as stored, come to more than `bytes_max`; `packed_too` and `inputs` as for `page`.
        Each job comes once, at the place at which it ended last, after all that were there before it.
        """
        query = _ENDED.where(_is_wanted(states, packed_too=packed_too))

        async def look(horizon: int) -> EndedJobs | None:
            async with self._access.reading() as connection:
                seen = (await connection.execute(_EVENTS_END, {"after": after, "most": most})).scalar()
                if seen is None:
                    return EndedJobs((), None)
                if (upto := min(seen, horizon)) <= after:
                    return None
                found = (await connection.execute(query, {"after": after, "upto": upto, "run": run})).all()
                taken = await _finished(connection, [(row[1], row[2]) for row in found], bytes_max, inputs=inputs)
            finished = {job.job: job for job in taken}
            last = upto if len(taken) == len(found) else found[len(taken) - 1][0]
            return EndedJobs([(place, finished[job]) for place, job, _ in found[: len(taken)]], last)

        return await self._access.settled(look)

    @asked_again
    async def in_order(
        self, run: int, *, after: tuple[int, int], most: int, bytes_max: int, inputs: bool = False
    ) -> list[FinishedJob]:
        """Up to `most` jobs of `run` after the one at `(line, id)`, in input order, up to the first that has not ended;
        fewer, and with their `inputs`, as with `page`.
        """
        async with self._access.reading() as connection:
            parameters = {"run": run, "line": after[0], "job": after[1], "most": most}
            found = list(takewhile(lambda row: row[2] in _ENDS, await connection.execute(_IN_ORDER, parameters)))
            return await _finished(connection, [(row[0], row[1]) for row in found], bytes_max, inputs=inputs)

    @asked_again
    async def first_place(self, run: int) -> int:
        """A place, as of `ended`, before everything that has happened to the jobs of `run`."""
        horizon = await self._access.horizon()
        async with self._access.reading() as connection:
            first: int | None = (await connection.execute(_FIRST_EVENT, {"run": run})).scalar()
            latest: int = (await connection.execute(_LATEST_EVENT)).scalar_one()
        return min(horizon, latest if first is None else first - 1)

    async def place_of(self, job: int) -> int:
        """The place, as of `ended`, of what has happened to `job` last."""
        return int(await self._access.value(_LAST_EVENT, {"job": job}))


async def _finished(
    connection: AsyncConnection, sizes: Sequence[tuple[int, int]], bytes_max: int, *, inputs: bool = False
) -> list[FinishedJob]:
    """The first of the jobs, given by number and bytes, that come to no more than `bytes_max`, but at least one; in
    input order. With their `inputs`, which count as well.
    """
    if inputs:
        more = {row[0]: row[1] for row in await connection.execute(_INPUT_SIZES, batch_of(job for job, _ in sizes))}
        sizes = [(job, size + more.get(job, 0)) for job, size in sizes]
    taken = batch_of([job for job, _ in sizes[: fitting((size for _, size in sizes), bytes_max)]])
    rows = (await connection.execute(_FINISHED, taken)).all()
    given = {row[0]: row for row in await connection.execute(_INPUTS, taken)} if inputs else {}
    return [_finished_of(row, given.get(row[1])) for row in rows]


@cache
def _sizes(states: tuple[State, ...], *, packed_too: bool) -> Select[Any]:
    """The jobs of a run in these states after one of them, in input order, and how large their outputs are."""
    line: Any = bindparam("line")
    return (
        select(jobs.c.id, func.coalesce(func.length(outcomes.c.output), 0))
        .select_from(jobs.outerjoin(outcomes, _OF_JOB))
        .where(
            jobs.c.run_id == bindparam("run"),
            _is_wanted(states, packed_too=packed_too),
            jobs.c.intake_id <= select(runs.c.intake_accepted).where(runs.c.id == bindparam("run")).scalar_subquery(),
            (jobs.c.line > line) | ((jobs.c.line == line) & (jobs.c.id > bindparam("job"))),
            jobs.c.line >= line,
        )
        .order_by(jobs.c.line, jobs.c.id)
        .limit(bindparam("most"))
    )


def _is_wanted(states: Sequence[State], *, packed_too: bool) -> ColumnElement[bool]:
    """Whether a job is in `states`, or, with `packed_too`, has succeeded with a packed output."""
    wanted: list[ColumnElement[bool]] = [jobs.c.state.in_([state.value for state in states])]
    if packed_too:
        wanted.append((jobs.c.state == State.SUCCEEDED.value) & (outcomes.c.packed == 1))
    return or_(*wanted)


def _finished_of(row: Any, given: Any | None) -> FinishedJob:
    """The job in a row of `_FINISHED`, with the input in one of `_INPUTS`."""
    return FinishedJob(
        line=row[0], job=row[1], custom_id=row[2], state=State(row[3]),
        attempts=row[14] + (row[3] == State.SUCCEEDED and row[17] is None), paid_at_most=row[4],
        remote_id=row[5], status=row[6], stored=row[7], packed=row[8] or 0,
        trouble=row[9], message=row[10], delay_ms=row[11], execution_ms=row[12], ended_at=row[13],
        worker=row[15], sent_at=row[16], endpoint=None if row[17] is not None else row[20],
        reused=None if row[17] is None else Origin(run=row[17], custom_id=row[18]),
        metadata=row[19], stored_input=given and given[1], packed_input=0 if given is None else given[2],
        saved=saved_names(row[21]),
    )  # fmt: skip
