"""The batches of the Batch API, as programs ask for them: made, shown, listed, cancelled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from orchestrator.api.batch_api.file_store import FileStore, new_id
from orchestrator.api.batch_api.refusals import RequestRefusedError, not_found
from orchestrator.core.batch_api.batch_question import BatchQuestion, Misfit, check_question, window_of
from orchestrator.core.batch_api.posted_batch import POSTED_ENDS, PostedBatch, PostedState
from orchestrator.core.batch_api.posted_file import Purpose
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.units import SECOND_US
from orchestrator.views.batch_api import BatchCounts, BatchObject, batch_object


@dataclass(kw_only=True, eq=False)
class BatchStore:
    """Those of one ledger."""

    files: FileStore
    wake: Callable[[], None] = lambda: None
    """Tells whoever carries them on that there is something to do."""

    @property
    def ledger(self) -> Ledger:
        """Where they are."""
        return self.files.ledger

    async def create(self, owner: str, question: BatchQuestion) -> BatchObject:
        """Makes the batch that is asked for. Raises `RequestRefusedError`, and `LedgerUnavailableError`."""
        self.ledger.patience.check()
        try:
            check_question(question)
        except Misfit as misfit:
            raise RequestRefusedError(str(misfit), param=misfit.param) from misfit
        file = await self.files.one(owner, question.input_file_id, param="input_file_id")
        if file.purpose is not Purpose.BATCH:
            raise RequestRefusedError(f"{file.id} is no file of requests", param="input_file_id")
        now, after = self.ledger.now(), question.output_expires_after
        batch = PostedBatch(
            id=new_id("batch_"),
            owner=owner,
            endpoint=question.endpoint,
            completion_window=question.completion_window,
            input_file=file.id,
            metadata=None if question.metadata is None else msgspec.json.encode(question.metadata),
            keep_output_us=None if after is None else after.seconds * SECOND_US,
            created_at=now,
            expires_at=now + window_of(question),
        )
        await self.ledger.runs.posted.batches.add(batch)
        self.wake()
        return await self._shown(batch)

    async def show(self, owner: str, batch: str) -> BatchObject:
        """The batch of that id. Raises `RequestRefusedError` where `owner` has none."""
        return await self._shown(await self._one(owner, batch))

    async def page(self, owner: str, *, after: str | None, most: int) -> Sequence[BatchObject]:
        """Those of `owner`, newest first, from behind the one of the id `after` on."""
        if after is not None:
            await self._one(owner, after, param="after")
        found = await self.ledger.runs.posted.batches.page(owner, after=after, most=most)
        counted = await self.ledger.runs.counts_by_run([each.run for each in found if each.run is not None])
        return [batch_object(each, _counts(each, counted.get(each.run or 0, {}))) for each in found]

    async def cancel(self, owner: str, batch: str) -> BatchObject:
        """Has the batch of that id cancelled. Raises `RequestRefusedError` where `owner` has none, or it has ended, and
        `LedgerUnavailableError`.
        """
        self.ledger.patience.check()
        if not await self.ledger.runs.posted.batches.cancel(owner, batch):
            found = await self._one(owner, batch)
            if found.state is not PostedState.CANCELLING:
                raise RequestRefusedError(f"Cannot cancel a batch with status '{found.state}'.", param="id")
        self.wake()
        return await self.show(owner, batch)

    async def _one(self, owner: str, batch: str, *, param: str = "id") -> PostedBatch:
        found = await self.ledger.runs.posted.batches.one(owner, batch)
        if found is None:
            raise not_found("Batch", batch, param=param)
        return found

    async def _shown(self, batch: PostedBatch) -> BatchObject:
        counted = {} if batch.run is None else await self.ledger.runs.counts(batch.run)
        return batch_object(batch, _counts(batch, counted))


def _counts(batch: PostedBatch, counted: dict[str, int]) -> BatchCounts:
    """How its requests stand: by its run while it goes on, and in the end by its files."""
    completed, failed = batch.completed, batch.failed
    if batch.state not in POSTED_ENDS:
        completed, failed = counted.get(State.SUCCEEDED.value, 0), counted.get(State.FAILED.value, 0)
    return BatchCounts(total=batch.total, completed=completed, failed=failed)
