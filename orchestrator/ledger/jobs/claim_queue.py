"""The line in which a run's queued jobs stand: by priority and place, and how far a claim looks along it.

First come those that waited for a time, else a long queue of fresh ones would keep them waiting for ever; then fresh
ones, those of a higher priority first, and of the same one in input order. Jobs that are not worth sending now are
passed over, and nothing is written: the next look begins behind them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import BigInteger, ColumnElement, Select, bindparam, func, literal_column, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.chunks.chunk_terms import ChunkTerms
from orchestrator.core.gates.ended_executions import FAILED
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.fair_share import PRIORITY_MAX, PRIORITY_MIN
from orchestrator.core.text.durations import with_own
from orchestrator.ledger.expressions import not_by_key
from orchestrator.ledger.jobs.payloads import Payload, payloads_of
from orchestrator.ledger.schema.job_columns import job_of, select_jobs
from orchestrator.ledger.schema.job_tables import jobs, submissions
from orchestrator.ledger.schema.row_codec import is_taken_in
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.units import MINUTE_US

LEFT_TO_OTHERS_US: Final = 10 * MINUTE_US
"""For so long after it is due a job that has failed at one endpoint is left to others."""

LOOK_MAX: Final = 500
"""How many jobs one look meets, where most are passed over: it is one transaction, for which others wait."""

TtlOf = Callable[[Payload], int]
"""The TTL of a job with this payload, in microseconds."""

IsLate = Callable[[int], bool]
"""Whether a job with this TTL is to be passed over."""


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """How far a look has come: whoever stood there is claimed or passed over.

    Of those that wait for a time some may turn up there afterwards: when a `/retry` is not worth waiting for any more.
    """

    due_at: int = 0
    """When the last one was due of those that waited for a time."""

    due_priority: int = PRIORITY_MAX
    """Its priority."""

    due_job: int = 0
    """Its number."""

    fresh_priority: int = PRIORITY_MAX
    """The priority of the last fresh one."""

    fresh_job: int = 0
    """Its number."""

    newest_job: int = 0
    """The highest number of a fresh one: who comes later has a higher one, and may belong before the last one."""

    ttl_us: int = 0
    """The longest TTL that was passed over; 0 where none was."""

    def and_then(self, met: Sequence[Job], ttl_us: int) -> "Passed":
        """The same and `met`, who are next in the line; `ttl_us` is the longest TTL by now."""
        changes = {"ttl_us": ttl_us}
        fresh = [job for job in met if not job.due_at]
        if fresh:
            changes["newest_job"] = max(self.newest_job, *(job.id for job in fresh))
        if (last := next((job for job in reversed(fresh) if job.priority <= self.fresh_priority), None)) is not None:
            changes |= {"fresh_priority": last.priority, "fresh_job": last.id}
        if (due := next((job for job in reversed(met) if job.due_at), None)) is not None:
            changes |= {"due_at": due.due_at, "due_priority": due.priority, "due_job": due.id}
        return replace(self, **changes)


HEAD: Final = Passed()
"""Where the line begins."""


class ClaimableJob(msgspec.Struct, frozen=True):
    """A job that may be claimed, what to send, and its TTL."""

    job: Job
    payload: Payload
    ttl_us: int


class Walk(msgspec.Struct, frozen=True):
    """What a look along the line has found."""

    found: list[ClaimableJob]
    passed: Passed
    is_at_end: bool
    """Whether nobody stands behind those who were met."""


def nobody_is_late(_ttl_us: int) -> bool:
    """Every job may be claimed."""
    return False


class ClaimLine(msgspec.Struct, frozen=True):
    """The jobs of `run` for `endpoint` whose next attempt is by `/retry`, or by `/run`, from a place on."""

    run: int
    endpoint: int
    by_retry: bool
    ttl_of: TtlOf
    is_late: IsLate = nobody_is_late
    behind: Passed = HEAD
    only: Sequence[int] | None = None
    """The jobs of which alone any are met; None for all."""

    is_sync: bool = False
    """Whether they are to leave by `/runsync`."""

    batch: int | None = None
    """The batch in which they are to be."""

    chunk: ChunkTerms | None = None
    """How large the chunks are in which they are to travel; None: each travels by itself."""

    taker: int | None = None
    """The endpoint that takes them, where it is another: a member of the run's pool."""

    not_failed_at: int | None = None
    """The endpoint at which the latest execution of none of them has failed, unless it is long due; None for any."""

    def rows_at_once(self, most: int) -> int:
        """How many jobs are claimed along it at once, where `most` requests are to be made of them."""
        return most if self.chunk is None else self.chunk.rows_at_once(most)


async def queue_walk(connection: AsyncConnection, line: ClaimLine, *, now: int, most: int, bytes_max: int) -> Walk:
    """Up to `most` jobs of `line`, the next ones, that are due and not late.

    Their inputs, with those that are read to be passed over, come to no more than `bytes_max`, unless it is only one.
    Where jobs are passed over it goes on, in ever larger steps, until it has met `LOOK_MAX` or read as many bytes.
    """
    found: list[ClaimableJob] = []
    passed, longest_us, met, room = line.behind, line.behind.ttl_us, 0, bytes_max
    while True:
        asked = min(max(most - len(found), met), max(most, LOOK_MAX) - met)
        page = await jobs_claimable(connection, replace(line, behind=passed), now=now, most=asked)
        is_at_end = len(page) < asked
        payloads = await payloads_of(connection, [job.id for job in page], room, at_least_one=not found) if page else {}
        for n, job in enumerate(page):
            payload = payloads.get(job.id)
            if payload is None or len(found) == most:
                page, is_at_end = page[:n], False
                break
            room -= len(payload.input)
            if job.policy is not None:
                payload = replace(payload, policy=with_own(payload.policy, job.policy))
            if line.is_late(ttl_us := line.ttl_of(payload)):
                longest_us = max(longest_us, ttl_us)
            else:
                found.append(ClaimableJob(job, payload, ttl_us))
        passed = passed.and_then(page, longest_us)
        met += len(page)
        if len(page) < asked or len(found) == most or met >= LOOK_MAX:
            return Walk(found, passed, is_at_end)


_latest = submissions.alias("latest")
NOT_FAILED_AT: Final[ColumnElement[bool]] = or_(
    jobs.c.failures == 0,
    jobs.c.due_at <= bindparam("now", type_=BigInteger) - LEFT_TO_OTHERS_US,
    ~select(_latest.c.id)
    .where(
        _latest.c.id == jobs.c.submission_id,
        _latest.c.endpoint_id == bindparam("not_failed_at"),
        _latest.c.ended.in_(literal_column(f"'{trouble}'") for trouble in sorted(FAILED)),
    )
    .correlate(jobs)
    .exists(),
)
"""The latest execution has not failed at that endpoint, or that was long ago."""

_QUEUED = (
    select_jobs()
    .where(
        jobs.c.run_id == bindparam("run"),
        jobs.c.endpoint_id == bindparam("endpoint"),
        jobs.c.state == literal_column(f"'{State.QUEUED}'"),
        is_taken_in(bindparam("run")),
        bindparam("not_failed_at", type_=BigInteger).is_(None) | NOT_FAILED_AT,
    )
    .limit(bindparam("most"))
)
_TO_RUN = jobs.c.retry_until.is_(None) | (jobs.c.retry_until <= bindparam("now"))
_DUE = _QUEUED.where(jobs.c.due_at > bindparam("due_at"), jobs.c.due_at <= bindparam("now"))
_number = not_by_key(jobs.c.id)
_DUE = _DUE.order_by(jobs.c.due_at, jobs.c.priority.desc(), _number)
_BY_RETRY = _DUE.where(jobs.c.retry_until > bindparam("now"))
_BY_RUN = _DUE.where(_TO_RUN)
_AT = _QUEUED.where(_TO_RUN, jobs.c.due_at == bindparam("due_at"), _number > bindparam("job")).order_by(_number)
_OF_PRIORITY = _AT.where(jobs.c.priority == bindparam("priority"))
_ABOVE_PRIORITY = _AT.where(jobs.c.priority > bindparam("priority"))
_NEXT_PRIORITY = select(func.max(jobs.c.priority)).where(
    jobs.c.run_id == bindparam("run"),
    jobs.c.endpoint_id == bindparam("endpoint"),
    jobs.c.state == literal_column(f"'{State.QUEUED}'"),
    jobs.c.due_at == bindparam("due_at"),
    jobs.c.priority < bindparam("priority"),
)

_ONLY = _QUEUED.where(jobs.c.id.in_(IN_BATCH), jobs.c.due_at <= bindparam("now")).order_by(jobs.c.due_at, jobs.c.id)
_BY_RETRY_ONLY = _ONLY.where(jobs.c.retry_until > bindparam("now"))
_BY_RUN_ONLY = _ONLY.where(_TO_RUN)


async def jobs_claimable(connection: AsyncConnection, line: ClaimLine, *, now: int, most: int) -> list[Job]:
    """Up to `most` queued jobs of `line`, in its order."""
    behind = line.behind
    place = {"run": line.run, "endpoint": line.endpoint, "now": now, "not_failed_at": line.not_failed_at}
    if line.only is not None:
        query = _BY_RETRY_ONLY if line.by_retry else _BY_RUN_ONLY
        after = (behind.due_at, behind.due_job or behind.fresh_job)
        found = await connection.execute(query, {**place, "most": most, **batch_of(line.only)})
        rows = [job_of(row) for row in found]
        return [job for job in rows if (job.due_at, job.id) > after] if behind != HEAD else rows
    page = _Page(connection, place, most)
    if behind.due_at:
        await page.add_at(behind.due_at, behind.due_priority, behind.due_job)
    await page.add(_BY_RETRY if line.by_retry else _BY_RUN, due_at=behind.due_at)
    if line.by_retry:
        return page.found
    if behind.newest_job and behind.fresh_priority < PRIORITY_MAX:  # sorted, as `newest_job` goes by their numbers
        await page.add(_ABOVE_PRIORITY, due_at=0, priority=behind.fresh_priority, job=behind.newest_job)
    await page.add_at(0, behind.fresh_priority, behind.fresh_job)
    return page.found


class _Page:
    """The jobs that are found at a place, question after question, until they are `most`."""

    def __init__(self, connection: AsyncConnection, place: Mapping[str, int | None], most: int) -> None:
        self.found: list[Job] = []
        self._connection = connection
        self._place = place
        self._most = most

    async def add(self, query: Select[Any], **parameters: int) -> None:
        left = self._most - len(self.found)
        if left > 0:
            found = await self._connection.execute(query, {**self._place, "most": left, **parameters})
            self.found.extend([job_of(row) for row in found])

    async def add_at(self, due_at: int, priority: int, job: int) -> None:
        """Who is due then, behind `job` of `priority`. SQLite finds a place in their index by equal columns only."""
        below = priority if job else PRIORITY_MAX + 1
        if job:
            await self.add(_OF_PRIORITY, due_at=due_at, priority=priority, job=job)
        while len(self.found) < self._most and below > PRIORITY_MIN:
            asked = {**self._place, "due_at": due_at, "priority": below}
            highest: int | None = (await self._connection.execute(_NEXT_PRIORITY, asked)).scalar()
            if highest is None:
                return
            await self.add(_OF_PRIORITY, due_at=due_at, priority=highest, job=0)
            below = highest
