"""The step that is next for a batch is done: each by the part that knows how."""

from typing import Final, assert_never

from orchestrator.core.batches.batch_record import BatchStage
from orchestrator.core.batches.batch_steps import (
    Append,
    AskState,
    Cancel,
    Drop,
    EndBatch,
    Finalize,
    ReadPages,
    Settle,
    Step,
    Stop,
    Stray,
    WaitUntil,
)
from orchestrator.core.batches.terms import BatchTerms
from orchestrator.core.batches.why import Why
from orchestrator.core.lanes.batch_outcomes import BatchRefused
from orchestrator.core.service.batches import BatchChanged
from orchestrator.core.service.outcomes import Gone
from orchestrator.engine.batches.appends import Appends
from orchestrator.engine.batches.batch_requests import BatchRequests, asked_s
from orchestrator.engine.batches.drafts import Drafts
from orchestrator.engine.batches.open_batch import OpenBatch
from orchestrator.engine.batches.page_reader import PageReader
from orchestrator.engine.collecting.judged_finish import JudgedFinish
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.engine.sending.run_sender import RunSender
from orchestrator.ledger import Ledger

BILLED: Final = (
    "of the batches that run, what has not begun is cancelled there; what has goes on and is billed, and its results"
    " count"
)


class StepWork:
    """Of one endpoint."""

    def __init__(self, *, endpoint: Endpoint, ledger: Ledger, task_pool: TaskPool, validators: ValidationPool) -> None:
        self._ledger = ledger
        self._clock = endpoint.clock
        self._warn = endpoint.warn
        self._requests = BatchRequests(endpoint=endpoint, task_pool=task_pool)
        self.drafts = Drafts(endpoint=endpoint, ledger=ledger, requests=self._requests)
        self._appends = Appends(endpoint=endpoint, ledger=ledger, requests=self._requests, drafts=self.drafts)
        judged = JudgedFinish(endpoint=endpoint, ledger=ledger, validators=validators)
        self._pages = PageReader(endpoint=endpoint, ledger=ledger, requests=self._requests, judged=judged)

    async def carry_out(self, found: OpenBatch, step: Step, terms: BatchTerms, run: RunSender | None) -> None:
        """Does what is next for a batch, of `run` where that is sent."""
        match step:
            case Append(most=most):
                if run is not None:
                    await self._appends.add(found, run, most, terms)
            case Settle():
                await self._appends.settle(found)
            case Finalize() | Drop() | Stray():
                await self._end_draft(found, step)
            case Cancel():
                await self._cancel(found)
            case AskState():
                await self._pages.ask(found, terms)
            case ReadPages(is_last=is_last):
                await self._pages.read(found, terms, is_last=is_last)
            case Stop() | EndBatch():
                await self._move(found, step)
            case WaitUntil():
                pass
            case _:
                assert_never(step)

    async def _end_draft(self, found: OpenBatch, step: Finalize | Drop | Stray) -> None:
        match step:
            case Finalize():
                await self.drafts.finalize(found)
            case Drop(why=why):
                await self.drafts.drop(found, why)
            case Stray():
                await self.drafts.leave(found)

    async def _cancel(self, found: OpenBatch) -> None:
        """Cancels a draft, or what of a batch has not begun."""
        if found.batch.stage is BatchStage.DROPPING:
            await self.drafts.cancel(found)
            return
        outcome = await self._requests.change(
            lambda calls, permit: calls.cancel(permit, found.remote_id), found.remote_id
        )
        if isinstance(outcome, BatchChanged | BatchRefused | Gone):
            found.is_cancelled, found.quiet, found.asked_at = True, 0, 0
        else:
            found.put_off(self._clock.now(), asked_s(outcome))

    async def _move(self, found: OpenBatch, step: Stop | EndBatch) -> None:
        stage, why = (BatchStage.CANCELLING, step.why) if isinstance(step, Stop) else (BatchStage.OVER, None)
        if why is Why.CANCELLED:
            self._warn(BILLED)
        found.batch = await self._ledger.runs.batches.move(found.batch, stage, why=why)
