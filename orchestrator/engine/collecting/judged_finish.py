"""An execution that has ended is judged, and its job takes its step by that: whoever has collected the record."""

from dataclasses import dataclass

from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.segments import SegmentEnd
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.job_record import Record
from orchestrator.engine.collecting.result_steps import on_finished
from orchestrator.engine.collecting.validation_pool import GOOD, Validation, ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.ledger import Ledger


@dataclass(kw_only=True, eq=False)
class JudgedFinish:
    """Of one endpoint."""

    endpoint: Endpoint
    ledger: Ledger
    validators: ValidationPool

    async def step(
        self, job: Job, record: Record, *, reason: str, margin_us: int | None, end: SegmentEnd | None = None
    ) -> Transition:
        """The step for `job`, whose execution has ended as `record` says: see `on_finished`."""
        is_result = record.status == "COMPLETED" and (end is None or end.report is None)
        judged = await self.judged(job, record) if is_result else GOOD
        is_taken = is_result and judged.invalid is None
        why = None if is_taken else await self.ledger.jobs.cancels.why(submission=job.submission or 0)
        return on_finished(
            self.endpoint,
            job,
            record,
            reason=reason,
            margin_us=margin_us,
            cancel_why=why,
            end=end,
            judged=judged,
        )

    async def judged(self, job: Job, record: Record) -> Validation:
        """What is found of the output of `record`, a result of `job`."""
        found = await self.validators.received(job, record)
        self.endpoint.runs.observe_validation(job.run, found.unjudged, found.disk_fault)
        return found
