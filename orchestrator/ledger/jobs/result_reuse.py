"""Results that are taken again: what was sent for which key, and which job has the result of another one.

A key is noted by the transaction that claims a job to be sent; whether it has a result, and of when, its job says. So a
result can be taken as soon as it is there, and is gone with its job.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, func, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job, Outcome
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.reasons import Detail, ReasonCode
from orchestrator.core.jobs.result_reuse import DAMAGED, REUSED, Reuse, reuse_key, why_not
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.errors import DamagedError
from orchestrator.ledger.expressions import of_greatest
from orchestrator.ledger.jobs.claim_queue import ClaimableJob
from orchestrator.ledger.jobs.results import Origin
from orchestrator.ledger.schema.handover_tables import reusable, reused
from orchestrator.ledger.schema.job_tables import endpoints, events, jobs, outcomes, payloads, runs
from orchestrator.ledger.schema.row_codec import (
    checksum,
    columns,
    detail_of,
    fitting,
    saved_names,
    unpack,
    values,
)
from orchestrator.ledger.statements import IN_BATCH, TEXTS_IN_BATCH, Many, batch_of, insert_new
from orchestrator.ledger.transactions.repository import Repository
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.count_writes import counts_add
from orchestrator.units import MIB, SECOND_US

BYTES_MAX: Final = 8 * MIB
"""Outputs, as stored, that one transaction takes again, but for one that is larger by itself."""


class _Result(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A result that may be taken again."""

    job: int
    run: str
    custom_id: str
    remote_id: str | None
    status: str | None
    stored: bytes | None
    packed: int
    checked: int | None
    saved: str | None

    @property
    def output(self) -> bytes | None:
        """Raises `DamagedError` where it is not what was collected."""
        if self.checked is not None and checksum(self.job, self.stored) != self.checked:
            raise DamagedError
        return None if self.stored is None else unpack(self.stored, self.packed)


class ReuseLookup(msgspec.Struct, frozen=True):
    """What became of jobs for which a result was looked for."""

    left: list[ClaimableJob]
    """Those that have to be sent."""

    why: Mapping[int, str]
    """Why each of these has none."""

    is_cut: bool
    """Whether some were left out, neither sent nor ended: their results would have been too much at once."""


_ENDPOINT: Final = select(endpoints.c.service_url, endpoints.c.endpoint).where(endpoints.c.id == bindparam("endpoint"))
_DIGESTS: Final = select(payloads.c.job_id, payloads.c.digest).where(payloads.c.job_id.in_(IN_BATCH))
_NEWEST: Final = (
    select(reusable.c.key, of_greatest(reusable.c.job_id, jobs.c.ended_at), func.max(jobs.c.ended_at))
    .select_from(reusable.join(jobs, jobs.c.id == reusable.c.job_id))
    .where(reusable.c.key.in_(TEXTS_IN_BATCH), jobs.c.state == literal_column(f"'{State.SUCCEEDED}'"))
    .group_by(reusable.c.key)
)
_SIZES: Final = select(outcomes.c.job_id, func.coalesce(func.length(outcomes.c.output), 0)).where(
    outcomes.c.job_id.in_(IN_BATCH)
)
_RESULTS: Final = (
    select(
        *columns(
            _Result,
            outcomes,
            run=runs.c.name,
            custom_id=jobs.c.custom_id,
            stored=outcomes.c.output,
            checked=outcomes.c.checksum,
        )
    )
    .select_from(outcomes.join(jobs, jobs.c.id == outcomes.c.job_id).join(runs, runs.c.id == jobs.c.run_id))
    .where(outcomes.c.job_id.in_(IN_BATCH))
)
_NOTE: Final = Many(insert_new(reusable), "key", "job_id")
_REUSE: Final = Many(insert_new(reused), "job_id", "from_run", "from_custom_id")
_ORIGINS: Final = select(reused).where(reused.c.job_id.in_(IN_BATCH))
_WHY_NOT: Final = (
    select(events.c.job_id, events.c.detail)
    .where(
        events.c.job_id.in_(IN_BATCH),
        events.c.reason_code == literal_column(f"'{ReasonCode.NOT_REUSED}'"),
        events.c.detail.is_not(None),
    )
    .order_by(events.c.id)
)


FOR_EVER_US: Final = 1 << 60
WAIT_US: Final = 10 * SECOND_US
"""How soon it is looked again whether the job has ended that others have the input of."""

_ON_ITS_WAY: Final = (
    select(reusable.c.key, reusable.c.job_id)
    .select_from(reusable.join(jobs, jobs.c.id == reusable.c.job_id))
    .where(reusable.c.key.in_(TEXTS_IN_BATCH), jobs.c.run_id == bindparam("run"), jobs.c.ended_at.is_(None))
)
_WAIT: Final = (
    update(jobs)
    .values(due_at=bindparam("until"))
    .where(jobs.c.id.in_(IN_BATCH), jobs.c.state == literal_column(f"'{State.QUEUED}'"))
)


async def _without_others(
    connection: AsyncConnection,
    found: Sequence[ClaimableJob],
    keys: Mapping[int, str],
    young: Mapping[str, int],
    *,
    run: int,
    now: int,
) -> list[ClaimableJob]:
    """`found` without those that have to wait for another job of the run with the same input: for one that was sent
    and has not ended, or for the first of these.
    """
    first: dict[str, set[int]] = {}
    for key, job in await connection.execute(_ON_ITS_WAY, {**batch_of(set(keys.values())), "run": run}):
        first.setdefault(key, set()).add(job)
    left, waiting = [], []
    for each in found:
        key = keys.get(each.job.id)
        if key is None or key in young or each.job.id in first.setdefault(key, {each.job.id}):
            left.append(each)
        else:
            waiting.append(each.job.id)
    if waiting:
        await connection.execute(_WAIT, {**batch_of(waiting), "until": now + WAIT_US})
    return left


class Reused(Repository):
    """What of a ledger's results was taken again."""

    async def origins(self, among: Collection[int]) -> Mapping[int, Origin]:
        """Whose results these jobs have, of those that have another one's."""
        rows = await self._access.rows(_ORIGINS, batch_of(among))
        return {row[0]: Origin(run=row[1], custom_id=row[2]) for row in rows}

    async def why_not(self, among: Collection[int]) -> Mapping[int, str]:
        """Why these jobs were sent last, of those that could have had another one's result; as far as is remembered."""
        rows = await self._access.rows(_WHY_NOT, batch_of(among))
        return {job: detail_of(detail).because for job, detail in rows}


async def results_reuse(
    transaction: Transaction,
    found: Sequence[ClaimableJob],
    reuse: Reuse | None,
    *,
    once: bool = False,
    endpoint: int,
    now: int,
) -> ReuseLookup:
    """Ends those of these jobs of one run, which are due at `endpoint`, for which there is a result; notes the keys of
    the others, which are to be sent by this very transaction.

    With `once` a job waits while another one of the run is on its way with the same key. Without `reuse` only results
    of the run itself are taken.
    """
    connection = transaction.connection
    run = found[0].job.run
    reuse = reuse or Reuse(young_us=FOR_EVER_US, version=f"once in run {run}")
    keys = await _keys(connection, found, reuse, endpoint)
    newest = {row[0]: (row[1], row[2]) for row in await connection.execute(_NEWEST, batch_of(set(keys.values())))}
    young = {key: job for key, (job, ended_at) in newest.items() if why_not(reuse, ended_at, now) is None}
    if once:
        found = await _without_others(connection, found, keys, young, run=run, now=now)
    results, beyond = await _results(connection, young.values())
    taken: list[tuple[Transition, _Result]] = []
    left: list[ClaimableJob] = []
    why: dict[int, str] = {}
    for each in found:
        key = keys.get(each.job.id)
        of = None if key is None else young.get(key)
        if of in beyond:
            continue
        step = None if of is None else _step(each, results[of], now)
        if of is not None and step is not None:
            taken.append((step, results[of]))
            continue
        left.append(each)
        if key is not None:
            why[each.job.id] = DAMAGED if of else why_not(reuse, newest.get(key, (0, None))[1], now) or ""
    await _take(transaction, taken)
    if noted := [{"key": keys[job], "job_id": job} for job in why]:
        await _NOTE.execute(connection, noted)
    return ReuseLookup(left, why, bool(beyond))


async def _keys(
    connection: AsyncConnection, found: Sequence[ClaimableJob], reuse: Reuse, endpoint: int
) -> Mapping[int, str]:
    """By job; one that has begun a segment goes on with it."""
    [(service_url, name)] = (await connection.execute(_ENDPOINT, {"endpoint": endpoint})).all()
    asked = batch_of([each.job.id for each in found if not each.job.segment])
    rows = (await connection.execute(_DIGESTS, asked)).all()
    return {job: reuse_key(service_url, name, digest, reuse.version) for job, digest in rows}


async def _results(connection: AsyncConnection, wanted: Iterable[int]) -> tuple[Mapping[int, _Result], frozenset[int]]:
    """The results of these jobs, and those of which they would have been too much at once."""
    sizes = (await connection.execute(_SIZES, batch_of(wanted))).all()
    taken = [job for job, _ in sizes[: fitting((size for _, size in sizes), BYTES_MAX)]]
    found = values(_Result, (await connection.execute(_RESULTS, batch_of(taken))).all())
    return {each.job: each for each in found}, frozenset(job for job, _ in sizes) - frozenset(taken)


def _step(found: ClaimableJob, result: _Result, now: int) -> Transition | None:
    """The end of a job by another one's result; None where that cannot be read any more."""
    try:
        output = result.output
    except DamagedError:
        return None
    outcome = Outcome(
        submission=None,
        remote_id=result.remote_id,
        status=result.status,
        output=output,
        saved=saved_names(result.saved),
    )
    origin = Detail(run=result.run, custom_id=result.custom_id)
    return transitions.completed(found.job, outcome, reason=ReasonCode.REUSED, detail=origin, at=now)


async def _take(transaction: Transaction, taken: Sequence[tuple[Transition, _Result]]) -> None:
    origins = {step.after.id: result for step, result in taken}
    done = await transaction.apply([step for step, _ in taken])
    rows = [(step.after.id, origins[step.after.id]) for step in done]
    if rows:
        named = [{"job_id": job, "from_run": of.run, "from_custom_id": of.custom_id} for job, of in rows]
        await _REUSE.execute(transaction.connection, named)
        await counts_add(transaction.connection, Counter((step.after.run, REUSED) for step in done))


# --- of the stage before
#
# Of a stage that is carried out anew for what has failed, what has succeeded the time before is taken over. It is asked
# for by the claim, too: so nothing is sent that was paid for, whenever a process ends.

_old_jobs: Final = jobs.alias("old_jobs")
_old_payloads: Final = payloads.alias("old_payloads")
_BEFORE: Final = (
    jobs.join(payloads, payloads.c.job_id == jobs.c.id)
    .join(
        _old_jobs,
        (_old_jobs.c.run_id == bindparam("previous"))
        & (_old_jobs.c.custom_id == jobs.c.custom_id)
        & (_old_jobs.c.state == State.SUCCEEDED.value),
    )
    .join(
        _old_payloads,
        (_old_payloads.c.job_id == _old_jobs.c.id) & (_old_payloads.c.digest == payloads.c.digest),
    )
    .join(outcomes, outcomes.c.job_id == _old_jobs.c.id)
    .join(runs, runs.c.id == _old_jobs.c.run_id)
)
_THESE: Final = jobs.c.id.in_(IN_BATCH) & outcomes.c.output.is_not(None)
_SIZES_BEFORE: Final = select(jobs.c.id, func.length(outcomes.c.output)).select_from(_BEFORE).where(_THESE)
_CARRIED_OVER: Final = (
    select(
        jobs.c.id,
        outcomes.c.remote_id,
        outcomes.c.status,
        outcomes.c.output,
        outcomes.c.packed,
        outcomes.c.delay_ms,
        outcomes.c.execution_ms,
        outcomes.c.worker,
        outcomes.c.saved,
        runs.c.name,
    )
    .select_from(_BEFORE)
    .where(_THESE)
)


async def results_carry_over(
    transaction: Transaction, found: Sequence[ClaimableJob], previous: int, *, now: int
) -> tuple[list[ClaimableJob], bool]:
    """Ends those of these jobs, which are due, that have succeeded in the run `previous` with the same input; returns
    the others, and whether some were left out, neither sent nor ended: their results would have been too much at once.
    """
    connection = transaction.connection
    given = {"previous": previous, **batch_of([each.job.id for each in found])}
    sizes = (await connection.execute(_SIZES_BEFORE, given)).all()
    if not sizes:
        return list(found), False
    taken = [job for job, _ in sizes[: fitting((size for _, size in sizes), BYTES_MAX)]]
    of_job = {each.job.id: each.job for each in found}
    rows = (await connection.execute(_CARRIED_OVER, {"previous": previous, **batch_of(taken)})).all()
    await transaction.apply([_carried(of_job[row.id], row, now) for row in rows])
    known = {job for job, _ in sizes}
    return [each for each in found if each.job.id not in known], len(taken) < len(sizes)


def _carried(job: Job, row: Any, now: int) -> Transition:
    outcome = Outcome(
        submission=None,
        remote_id=row.remote_id,
        status=row.status,
        output=unpack(row.output, row.packed),
        delay_ms=row.delay_ms,
        execution_ms=row.execution_ms,
        worker=row.worker,
        saved=saved_names(row.saved),
    )
    return transitions.completed(job, outcome, reason=ReasonCode.CARRIED_OVER, detail=Detail(run=row.name), at=now)
