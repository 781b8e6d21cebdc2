"""Batches at the service: what is intended with each, its rows, and how far it has come."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, bindparam, func, insert, literal_column, select, update

from orchestrator.core.batches.batch_record import ENDED, BatchRecord, BatchStage
from orchestrator.core.batches.why import Why
from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.batches import ServiceBatch
from orchestrator.ledger.expressions import as_number
from orchestrator.ledger.schema.job_columns import job_of, select_jobs_by_submission
from orchestrator.ledger.schema.job_tables import batches, jobs, submissions, values_check
from orchestrator.ledger.schema.row_codec import columns, is_taken_in
from orchestrator.ledger.transactions.repository import Repository, shared
from orchestrator.ledger.transactions.transaction import Transaction

_BATCHES: Final = select(*columns(BatchRecord, batches)).order_by(batches.c.id)
_ALL_OPEN: Final = _BATCHES.where(batches.c.ended_at.is_(None))
_OPEN: Final = _ALL_OPEN.where(batches.c.endpoint_id == bindparam("endpoint"))
_OF_RUN: Final = _BATCHES.where(batches.c.run_id == bindparam("run"))
_AT_SERVICE: Final[ColumnElement[bool]] = literal_column(
    values_check("jobs.state", (State.SUBMITTING, State.OUTSTANDING))
)
_ROWS: Final = (
    select_jobs_by_submission()
    .where(submissions.c.batch_id == bindparam("batch"), _AT_SERVICE)
    .order_by(submissions.c.id)
)
_IDS: Final = (
    select(submissions.c.remote_id)
    .where(submissions.c.batch_id == bindparam("batch"), submissions.c.remote_id.is_not(None))
    .order_by(submissions.c.id)
)
_CHOSEN: Final = select(submissions.c.job_id).where(
    submissions.c.batch_id == bindparam("batch"),
    submissions.c.cancel_why == literal_column(f"'{CancelWhy.CHOSEN}'"),
)
_COUNTS: Any = (
    select(
        func.count(submissions.c.remote_id),
        func.coalesce(func.sum(as_number(literal_column(f"jobs.state = '{State.SUBMITTING}'"))), 0),
        func.coalesce(func.sum(as_number(literal_column(f"jobs.state = '{State.OUTSTANDING}'"))), 0),
    )
    .select_from(
        submissions.outerjoin(jobs, (jobs.c.id == submissions.c.job_id) & (jobs.c.submission_id == submissions.c.id))
    )
    .where(submissions.c.batch_id == bindparam("batch"))
)
_MOVE: Final = (
    update(batches)
    .where(batches.c.id == bindparam("b_id"), batches.c.stage == bindparam("b_stage"))
    .values(
        stage=bindparam("b_next"),
        remote_id=bindparam("b_remote_id"),
        why=bindparam("b_why"),
        is_by_place=bindparam("b_is_by_place"),
        finalized_at=bindparam("b_finalized_at"),
        ended_at=bindparam("b_ended_at"),
    )
)
_TELL: Final = (
    update(batches)
    .where(batches.c.id == bindparam("b_id"))
    .values(
        total=bindparam("b_total"),
        completed=bindparam("b_completed"),
        failed=bindparam("b_failed"),
        begun_at=bindparam("b_begun_at"),
        news_at=bindparam("b_news_at"),
    )
)
_FRESH: Final = (
    select(jobs.c.id)
    .where(
        jobs.c.run_id == bindparam("run"),
        jobs.c.endpoint_id == bindparam("endpoint"),
        jobs.c.state == literal_column(f"'{State.QUEUED}'"),
        is_taken_in(bindparam("run")),
        jobs.c.attempt == 0,
    )
    .limit(1)
)


class RowCounts(NamedTuple):
    """Of a batch."""

    named: int
    """Rows that are, or were, in it: the service has told their ids."""

    pending: int
    """Rows that are about to be put in."""

    unsettled: int
    """Rows that have not come to their end."""


class Batches(Repository):
    """The batches of a ledger."""

    @shared
    async def intend(self, transaction: Transaction, run: int, *, endpoint: int) -> BatchRecord:
        """A batch of `run` is about to be made at `endpoint`; the intent is durable on return."""
        now, stage = self._access.now(), BatchStage.CREATING
        row = {"run_id": run, "endpoint_id": endpoint, "stage": stage.value, "made_at": now}
        made = await transaction.connection.execute(insert(batches).returning(batches.c.id), row)
        return BatchRecord(id=made.scalar_one(), run=run, endpoint=endpoint, stage=stage, made_at=now)

    async def open_at(self, endpoint: int) -> list[BatchRecord]:
        """The batches at `endpoint` about which something is to be done still, in the order in which they were made."""
        return await self._access.structs(BatchRecord, _OPEN, {"endpoint": endpoint})

    async def open_by_endpoint(self) -> Mapping[int, Sequence[BatchRecord]]:
        """All about which something is to be done still, by the numbers of endpoints."""
        found: dict[int, list[BatchRecord]] = {}
        for batch in await self._access.structs(BatchRecord, _ALL_OPEN, {}):
            found.setdefault(batch.endpoint, []).append(batch)
        return found

    async def of_run(self, run: int) -> list[BatchRecord]:
        """All batches of `run`, in the order in which they were made."""
        return await self._access.structs(BatchRecord, _OF_RUN, {"run": run})

    @shared
    async def move(
        self,
        transaction: Transaction,
        batch: BatchRecord,
        stage: BatchStage,
        *,
        steps: Sequence[Transition] = (),
        remote_id: str | None = None,
        why: Why | None = None,
        is_by_place: bool = False,
    ) -> BatchRecord:
        """`batch` comes to `stage`, and its rows take these `steps`, by one transaction; returns it as it is then: as
        it was given, where it was in another stage already, and then nothing is written.
        """
        now = self._access.now()
        after = msgspec.structs.replace(
            batch,
            stage=stage,
            remote_id=remote_id or batch.remote_id,
            why=why or batch.why,
            is_by_place=is_by_place or batch.is_by_place,
            finalized_at=now if stage is BatchStage.RUNNING else batch.finalized_at,
            ended_at=now if stage in ENDED else None,
        )
        changed = await transaction.connection.execute(_MOVE, _moved(batch, after))
        if not changed.rowcount:
            return batch
        if steps:
            await transaction.apply(steps)
        return after

    async def tell(self, batch: BatchRecord, said: ServiceBatch, *, asked_before: int) -> BatchRecord:
        """How the service says that `batch` stands, which was asked for before at that time, or never (0); returns the
        batch with that.
        """
        total, completed, failed = said.total or 0, said.completed or 0, said.failed or 0
        begins = batch.begun_at is None and bool(said.ended or said.in_progress)
        is_news = begins or (completed, failed) != (batch.completed, batch.failed)
        after = msgspec.structs.replace(
            batch,
            total=total,
            completed=completed,
            failed=failed,
            begun_at=max(asked_before, batch.finalized_at or 0) if begins else batch.begun_at,
            news_at=self._access.now() if is_news else batch.news_at,
        )
        row = {"b_id": batch.id, "b_total": total, "b_completed": completed, "b_failed": failed}
        await self._access.shared.execute(_TELL, {**row, "b_begun_at": after.begun_at, "b_news_at": after.news_at})
        return after

    async def counts(self, batch: int) -> RowCounts:
        """How many rows it has."""
        [row] = await self._access.rows(_COUNTS, {"batch": batch})
        return RowCounts(*row)

    async def rows(self, batch: int) -> list[Job]:
        """The jobs that are in it and have not come to their end, or are about to be put there: in their order."""
        return [job_of(row) for row in await self._access.rows(_ROWS, {"batch": batch})]

    async def ids(self, batch: int) -> list[str]:
        """What the service calls all rows that were ever in it, in their order."""
        return [row[0] for row in await self._access.rows(_IDS, {"batch": batch})]

    async def cancelled_rows(self, batch: int) -> frozenset[int]:
        """The jobs that were put in it and that people have cancelled since, which only its end can carry out."""
        return frozenset(row[0] for row in await self._access.rows(_CHOSEN, {"batch": batch}))

    async def has_fresh(self, run: int, *, endpoint: int) -> bool:
        """Whether a job of `run` is queued for `endpoint` that was never executed."""
        return bool(await self._access.rows(_FRESH, {"run": run, "endpoint": endpoint}))


def _moved(before: BatchRecord, after: BatchRecord) -> dict[str, Any]:
    return {
        "b_id": before.id,
        "b_stage": before.stage.value,
        "b_next": after.stage.value,
        "b_remote_id": after.remote_id,
        "b_why": after.why,
        "b_is_by_place": int(after.is_by_place),
        "b_finalized_at": after.finalized_at,
        "b_ended_at": after.ended_at,
    }
