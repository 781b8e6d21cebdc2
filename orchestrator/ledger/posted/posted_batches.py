"""Batches of the Batch API: how each stands. Its rows are the jobs of a run."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Select, Update, bindparam, delete, func, insert, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.batch_api.posted_batch import CANCELLABLE, POSTED_ENDS, PostedBatch, PostedState
from orchestrator.core.batch_api.posted_file import PostedFile
from orchestrator.ledger.posted.posted_files import file_add
from orchestrator.ledger.schema.job_tables import runs
from orchestrator.ledger.schema.posted_tables import POSTED_OPEN, posted_batches, posted_ends
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.statements import IN_BATCH, batch_of, upsert
from orchestrator.ledger.transactions.repository import Repository, alone, shared
from orchestrator.ledger.transactions.run_removal import run_give_up
from orchestrator.ledger.transactions.transaction import Transaction

_BATCHES: Final[Select[tuple[object, ...]]] = select(*columns(PostedBatch, posted_batches))
IS_OPEN: Final[ColumnElement[bool]] = literal_column(POSTED_OPEN)
"""Of a batch that has not ended."""

_ENDED_AT: Final = func.coalesce(*(posted_batches.c[f"{each.value}_at"] for each in sorted(POSTED_ENDS)))
_COUNT_END: Final = upsert(
    posted_ends, lambda new: {each: posted_ends.c[each] + new[each] for each in ("n", "completed", "failed")}
)


class OutlivedBatch(NamedTuple):
    """One that has ended long ago."""

    id: str
    run: int | None
    """None where there is no such run any more."""

    run_name: str | None


def _change_of(batch: str, states: Sequence[PostedState]) -> Update:
    """A change of a batch that is in one of these states; of one in another nothing is changed."""
    return update(posted_batches).where(
        posted_batches.c.id == batch, posted_batches.c.state.in_([each.value for each in states])
    )


class PostedBatches(Repository):
    """Those of a ledger."""

    async def add(self, batch: PostedBatch) -> None:
        """There is this batch from now on."""
        row = msgspec.structs.asdict(batch) | {"state": batch.state.value, "is_late": int(batch.is_late)}
        await self._access.shared.execute(insert(posted_batches).values(row))

    async def one(self, owner: str, batch: str) -> PostedBatch | None:
        """The one of that id; None where `owner` has none that is called so."""
        query = _BATCHES.where(posted_batches.c.id == bindparam("id"), posted_batches.c.owner == bindparam("owner"))
        return await self._access.first(PostedBatch, query, {"id": batch, "owner": owner})

    async def page(self, owner: str, *, after: str | None, most: int) -> list[PostedBatch]:
        """Those of `owner`, newest first, from behind the one of the id `after` on."""
        number = posted_batches.c.number
        query = _BATCHES.where(posted_batches.c.owner == owner).order_by(number.desc()).limit(most)
        if after is not None:
            of = (posted_batches.c.id == after) & (posted_batches.c.owner == owner)
            query = query.where(number < select(number).where(of).scalar_subquery())
        return await self._access.structs(PostedBatch, query)

    async def of_runs(self, among: Collection[int]) -> Mapping[int, PostedBatch]:
        """By run, those that have become one of these."""
        query = _BATCHES.where(posted_batches.c.run.in_(IN_BATCH))
        found = await self._access.structs(PostedBatch, query, batch_of(among))
        return {each.run: each for each in found if each.run is not None}

    async def open(self) -> list[PostedBatch]:
        """Those that have not ended, oldest first."""
        return await self._access.structs(PostedBatch, _BATCHES.where(IS_OPEN).order_by(posted_batches.c.number))

    async def is_awaiting(self, file: str) -> bool:
        """Whether a batch is still to be read from that file."""
        query = select(posted_batches.c.id).where(
            posted_batches.c.input_file == file, posted_batches.c.state == PostedState.VALIDATING.value
        )
        return bool(await self._access.rows(query.limit(1)))

    async def learned(self, batch: str, *, run: int, model: str, total: int) -> None:
        """Its file was read: it is a run of so many rows, whose intake begins."""
        change = update(posted_batches).where(posted_batches.c.id == batch)
        await self._access.shared.execute(change.values(run=run, model=model, total=total))

    @shared
    async def move(self, transaction: Transaction, /, batch: PostedBatch, to: PostedState, **values: Any) -> bool:
        """Brings it into another state, unless it is in another one by now."""
        return await self._move(transaction.connection, batch, to, values)

    async def cancel(self, owner: str, batch: str) -> bool:
        """Has it cancelled, if that can be done."""
        change = _change_of(batch, sorted(CANCELLABLE)).where(posted_batches.c.owner == owner)
        return bool(await self._access.shared.execute(change.values(self._into(PostedState.CANCELLING))))

    async def name_files(self, batch: PostedBatch, *, output_file: str, error_file: str) -> None:
        """Writes down how its files will be called, unless that is known."""
        change = _change_of(batch.id, (batch.state,)).where(posted_batches.c.output_file.is_(None))
        await self._access.shared.execute(change.values(output_file=output_file, error_file=error_file))

    @shared
    async def finish(
        self,
        transaction: Transaction,
        batch: PostedBatch,
        to: PostedState,
        *,
        files: Sequence[PostedFile],
        completed: int,
        failed: int,
        usage: bytes | None = None,
    ) -> bool:
        """It ends, and there are its files, unless it is in another state by now."""
        names = {each.id for each in files}
        moved: dict[str, Any] = {
            "completed": completed,
            "failed": failed,
            "usage": usage,
            "output_file": batch.output_file if batch.output_file in names else None,
            "error_file": batch.error_file if batch.error_file in names else None,
        }
        if not await self._move(transaction.connection, batch, to, moved):
            return False
        for each in files:
            await file_add(transaction.connection, each)
        return True

    async def outlived(self, before: int) -> list[OutlivedBatch]:
        """Those that ended before then, oldest first, with their runs as far as there are those."""
        there = (runs.c.id == posted_batches.c.run) & (runs.c.intake_accepted > 0)
        query = (
            select(posted_batches.c.id, runs.c.id, runs.c.name)
            .select_from(posted_batches.outerjoin(runs, there))
            .where(before > _ENDED_AT)
            .order_by(posted_batches.c.number)
        )
        return [OutlivedBatch(*row) for row in await self._access.rows(query)]

    @alone
    async def forget(self, transaction: Transaction, batch: OutlivedBatch) -> bool:
        """There is no such batch any more, and its run is none either: what is left of that is to be cleared
        (`Intakes.clear`). False, and nothing is changed, where somebody has something of its run done again.
        """
        connection = transaction.connection
        if batch.run is not None and not await run_give_up(connection, batch.run):
            return False
        await connection.execute(delete(posted_batches).where(posted_batches.c.id == batch.id))
        return True

    async def _move(
        self, connection: AsyncConnection, batch: PostedBatch, to: PostedState, values: Mapping[str, Any]
    ) -> bool:
        change = _change_of(batch.id, (batch.state,)).values({**self._into(to), **values})
        if not (await connection.execute(change)).rowcount:
            return False
        if to in POSTED_ENDS:
            counted = {each: values.get(each, 0) for each in ("completed", "failed")}
            await connection.execute(_COUNT_END, {"state": to.value, "n": 1, **counted})
        return True

    def _into(self, to: PostedState) -> dict[str, Any]:
        """What a batch is given that comes into that state now."""
        return {"state": to.value, f"{to.value}_at": self._access.now()}

    async def named_files(self) -> frozenset[str]:
        """The names of files that are being written."""
        query = select(posted_batches.c.output_file, posted_batches.c.error_file).where(IS_OPEN)
        return frozenset(name for row in await self._access.rows(query) for name in row if name is not None)
