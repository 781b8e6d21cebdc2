"""The pages of a batch are read, and each row whose execution has ended takes its step: its result, another try, or its
end. What was never executed as the batch ended is queued again, or cancelled.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.core.batches.batch_record import BatchRecord, BatchStage
from orchestrator.core.batches.batch_steps import again_us
from orchestrator.core.batches.terms import BatchTerms
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job, Outcome
from orchestrator.core.jobs.reasons import ReasonCode
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.batches import CANCELLED, BatchPage, BatchRow, ServiceBatch
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import plausible
from orchestrator.core.service.outcomes import TERMINAL_STATUSES, Gone
from orchestrator.engine.batches.batch_requests import BatchRequests, asked_s
from orchestrator.engine.batches.open_batch import OpenBatch
from orchestrator.engine.collecting.judged_finish import JudgedFinish
from orchestrator.engine.collecting.result_steps import on_failed
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.history import ExecutionTimes
from orchestrator.units import MILLISECOND_US

SWEEPS_MAX: Final = 20
"""After so many looks a row is given up that the service does not end, though it says that all have ended."""

UNLISTED: Final = "the service shows no result of it, though its batch has ended"
NOT_ENDED: Final = "its batch has ended, and it has not"


@dataclass(kw_only=True, eq=False)
class PageReader:
    """Of one endpoint."""

    endpoint: Endpoint
    ledger: Ledger
    requests: BatchRequests
    judged: JudgedFinish

    async def ask(self, found: OpenBatch, terms: BatchTerms) -> None:
        """Asks how a batch stands."""
        said = await self.requests.state(found.remote_id)
        now, asked_before = self.endpoint.clock.now(), found.asked_at
        if isinstance(said, ServiceBatch):
            if found.hears(said, now):
                found.batch = await self.ledger.runs.batches.tell(found.batch, said, asked_before=asked_before)
        elif isinstance(said, Gone):
            await self._gone(found, terms)
        else:
            found.put_off(now, asked_s(said))

    async def read(self, found: OpenBatch, terms: BatchTerms, *, is_last: bool) -> None:
        """Reads all pages of a batch. `is_last`: what is not there, or has not ended, never will be, or end."""
        said, now = found.state, self.endpoint.clock.now()
        assert said is not None
        left = {job.remote_id: job for job in await self.ledger.runs.batches.rows(found.batch.id)}
        offset = 0
        while True:
            page = await self.requests.page(found.remote_id, offset)
            if isinstance(page, Gone):
                await self._gone(found, terms)
                return
            if not isinstance(page, BatchPage):
                found.put_off(self.endpoint.clock.now(), asked_s(page))
                return
            is_certain = is_last and not (said.is_cancelled or said.is_failed)
            ended = [(left.pop(row.record.remote_id), row) for row in page.rows if _has_ended(row, left, is_certain)]
            await self._take(found, [await self._step(job, row, terms) for job, row in ended], left)
            offset += len(page.rows)
            if not page.has_more or not page.rows:
                break
        found.swept, found.swept_at, found.sweeps = said.ended, now, found.sweeps + said.is_over
        if is_last and left:
            cancelled = await self.ledger.runs.batches.cancelled_rows(found.batch.id)
            rest = [self._step_of_rest(job, found, said, cancelled) for job in left.values()]
            steps = [step for step in rest if step is not None]
            settled = {step.after.id for step in steps}
            await self._take(found, steps, {each: job for each, job in left.items() if job.id not in settled})

    async def _take(self, found: OpenBatch, steps: Sequence[Transition], left: dict[str | None, Job]) -> None:
        """Writes these steps; the last ones of a batch end it."""
        if steps and not left and found.state is not None and found.state.is_over:
            found.batch = await self.ledger.runs.batches.move(found.batch, BatchStage.OVER, steps=steps)
        elif steps:
            await self.ledger.writer.apply(steps)

    async def _step(self, job: Job, row: BatchRow, terms: BatchTerms) -> Transition:
        """The step of `job`, whose execution has ended as `row` says."""
        endpoint, now = self.endpoint, self.endpoint.clock.now()
        within_us = (now - (job.sent_at or 0)) * endpoint.api.time_scale
        record = plausible(row.record, within_us=round(within_us))
        endpoint.estimates.throughput.observe(now)
        took_ms = max(0, now - (job.sent_at or now)) // MILLISECOND_US
        times = ExecutionTimes(delay_ms=None, execution_ms=record.execution_ms, whole_ms=took_ms)
        endpoint.estimates.remember([times] if record.execution_ms is not None else [])
        margin_us = None if row.finished_at is None else terms.retention_us - max(0, now - row.finished_at)
        return await self.judged.step(job, record, reason="batch", margin_us=margin_us)

    def _step_of_rest(
        self, job: Job, found: OpenBatch, said: ServiceBatch, cancelled: Container[int]
    ) -> Transition | None:
        """The step of `job`, of which nothing more will come from a batch that has ended. `cancelled`: the jobs that
        people have cancelled while it ran.
        """
        if said.is_cancelled and job.id in cancelled:
            return transitions.cancelled_on_request(job, at=self.endpoint.clock.now(), alone=True)
        if said.is_cancelled:
            return self._left(job, found.batch)
        if said.is_failed:
            return self._lost(job, FailureClass.LOST, NOT_ENDED)
        return self._lost(job, FailureClass.LOST, UNLISTED) if found.sweeps >= SWEEPS_MAX else None

    def _left(self, job: Job, batch: BatchRecord) -> Transition:
        """`job` had not begun as its batch was cancelled: by us, and then it goes on elsewhere, or by somebody else."""
        now = self.endpoint.clock.now()
        if batch.stage is BatchStage.CANCELLING:
            step = transitions.deferred(job, due_at=now, reason=ReasonCode.BATCH_LEFT, at=now)
            return self.endpoint.homes.homeward(step)
        outcome = self._outcome(job, FailureClass.CANCELLED, "its batch was cancelled at the service")
        return transitions.cancelled(job, outcome, reason="at the service", at=now)

    def _lost(self, job: Job, trouble: FailureClass, message: str) -> Transition:
        return on_failed(self.endpoint, job, self._outcome(job, trouble, message), reason=message, is_retained=False)

    def _outcome(self, job: Job, trouble: FailureClass, message: str) -> Outcome:
        return Outcome(
            submission=job.submission, remote_id=job.remote_id, status=None, trouble=trouble, message=message
        )

    async def _gone(self, found: OpenBatch, terms: BatchTerms) -> None:
        """The service does not know the batch: once it says so a second time, well apart, its rows are lost; expired,
        where their results could be gone by then.
        """
        now = self.endpoint.clock.now()
        if found.gone_at is None:
            found.gone_at = now
            found.put_off(now)
            return
        if now < found.gone_at + again_us(terms):
            found.put_off(now)
            return
        is_late = found.state is not None and now - found.asked_at > terms.retention_us
        trouble = FailureClass.EXPIRED if is_late or found.state is None else FailureClass.LOST
        steps = [
            self._lost(job, trouble, "the service does not know its batch any more")
            for job in await self.ledger.runs.batches.rows(found.batch.id)
        ]
        found.batch = await self.ledger.runs.batches.move(found.batch, BatchStage.OVER, steps=steps)


def _has_ended(row: BatchRow, left: Container[str | None], is_certain: bool) -> bool:
    """Whether it is one of ours and has come to its end. Of what is cancelled it is certain only once its batch is over
    that this was not by the end of the batch.
    """
    status = row.record.status
    return row.record.remote_id in left and status in TERMINAL_STATUSES and (status != CANCELLED or is_certain)
