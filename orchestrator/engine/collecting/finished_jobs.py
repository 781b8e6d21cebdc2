"""What becomes of a job that the service calls finished: a result, another execution, the end, or another question."""

from orchestrator.core.gates.ended_executions import FAILED
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.deadlines import margin_left
from orchestrator.core.jobs.job import Outcome
from orchestrator.core.jobs.reasons import Reason, ReasonCode, reason_text
from orchestrator.core.jobs.retry import backoff_us
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.polling.poll_plan_entry import Entry
from orchestrator.core.polling.remote_queue import begun_at_of
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Record
from orchestrator.engine.collecting.chunk_results import BY_STATUS, ChunkResults, on_chunk_failed
from orchestrator.engine.collecting.judged_finish import JudgedFinish
from orchestrator.engine.collecting.result_steps import TORN_BYTES_MAX, on_failed
from orchestrator.engine.collecting.segment_tracker import SegmentTracker
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.ledger import Ledger


class FinishedJobs:
    """Of one endpoint."""

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        ledger: Ledger,
        segments: SegmentTracker,
        validators: ValidationPool,
    ) -> None:
        self._endpoint = endpoint
        self._clock = endpoint.clock
        self._ledger = ledger
        self._segments = segments
        self._judged = JudgedFinish(endpoint=endpoint, ledger=ledger, validators=validators)
        self._chunks = ChunkResults(endpoint=endpoint, ledger=ledger, validators=validators)

    async def step(self, entry: Entry, record: Record) -> Transition | int | None:
        """The step for the job of `entry`, which has ended as `record` says.

        Else when it is to be asked for again: at a time, or (None) after a pause, since nothing was learned.
        """
        job, now = entry.job, self._clock.now()
        entry.finished_at = entry.finished_at or now
        if (doubted_until := self._endpoint.doubts_until(job, entry.finished_at, entry.deadline)) > now:
            return doubted_until
        if self._endpoint.remote_ids.owner(job.remote_id or "") not in (None, job.id):  # by its webhook
            return await self.failed(entry, FailureClass.LOST, ReasonCode.REPEATED_ID)
        if (streams := self._endpoint.output_streams).wants(job.run, record):
            whole = await streams.gathered(job, record)
            if whole is None:
                return None
            if whole is record and record.output is None and streams.gathers(job.run):
                return await self.failed(entry, FailureClass.LOST, ReasonCode.NOTHING_YIELDED)
            record = whole
        self._endpoint.estimates.finished(job, record, now)
        if (begun_at := begun_at_of(job, record, now)) is not None:
            self._endpoint.outstanding.plan.began(entry, begun_at - (job.sent_at or 0))
        if entry.retry_in_doubt is not None and await self._is_same_failure(entry, record):
            step = transitions.deferred(
                job,
                due_at=now + backoff_us(job.deferrals + 1, job.id),
                reason="the /retry was not applied",
                at=now,
                trouble=FailureClass.TRANSPORT,
                retry_until=entry.deadline if entry.retry_in_doubt is ReasonCode.RETRY_UNANSWERED else None,
            )
            return self._endpoint.homes.homeward(step)
        margin_us = margin_left(job.unfinished_at or now, self._endpoint.estimates.retention_of(job), now)
        end = await self._segments.end(job, record) if job.segment else None
        return await (
            self._judged.step(job, record, reason=BY_STATUS, margin_us=margin_us, end=end)
            if job.chunk is None
            else self._chunks.step(job, record, margin_us=margin_us)
        )

    async def _is_same_failure(self, entry: Entry, record: Record) -> bool:
        """Whether `record` is of the execution before a `/retry` that was not answered, or refused: none was made."""
        if entry.retry_in_doubt is ReasonCode.RETRY_REFUSED:
            return record.status in {"FAILED", "TIMED_OUT"}
        failure = await self._ledger.jobs.failure_before_retry(job=entry.job.id)
        return failure is not None and failure.is_of(record)

    async def failed(
        self, entry: Entry, trouble: FailureClass, reason: Reason, *, output: bytes | None = None
    ) -> Transition:
        """The step for the job of `entry`, of which no result will come any more."""
        job = entry.job
        outcome = Outcome(
            submission=job.submission,
            remote_id=job.remote_id,
            status=None,
            output=None if output is None else output[:TORN_BYTES_MAX],
            trouble=trouble,
            message=reason_text(reason),
        )
        if trouble in FAILED and job.has_riders:
            return on_chunk_failed(self._endpoint, job, job, outcome)
        end = await self._segments.end(job, None) if job.segment else None
        return on_failed(self._endpoint, job, outcome, reason=reason, end=end)
