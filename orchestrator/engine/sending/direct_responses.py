"""What becomes of a job by an answer that is its result already: that of a request past the queue."""

import anyio
import msgspec

from orchestrator.core.jobs.job import Job, outcome_from
from orchestrator.core.jobs.transition import Transition
from orchestrator.core.service.answers import Trouble
from orchestrator.core.service.openai import Answered, Unreadable
from orchestrator.core.service.records import Record
from orchestrator.engine.collecting.result_steps import TORN_BYTES_MAX, on_failed, on_finished
from orchestrator.engine.collecting.validation_pool import GOOD, ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.ledger.jobs.history import ExecutionTimes
from orchestrator.units import MILLISECOND_US

UNREADABLE = "the answer is no JSON"


class DirectResponses:
    """Turns the answers at one endpoint into steps. There is no second question: what comes once is what there is."""

    def __init__(self, endpoint: Endpoint, validators: ValidationPool) -> None:
        self._endpoint = endpoint
        self._validators = validators

    async def step(self, job: Job, outcome: Answered | Unreadable, *, sent_at: int) -> Transition:
        """The step for `job`, whose request was sent at `sent_at`: its result, another execution, or the end."""
        now = self._endpoint.clock.now()
        job = msgspec.structs.replace(job, sent_at=sent_at)
        self._endpoint.estimates.throughput.observe(now)
        if isinstance(outcome, Unreadable):
            raw = outcome.raw[:TORN_BYTES_MAX]
            told = outcome_from(
                job, _record_of(raw), trouble=Trouble.INVALID_OUTPUT, message=UNREADABLE, margin_us=None
            )
            return on_failed(self._endpoint, job, told, reason=UNREADABLE)
        record, took_ms = outcome.record, max(0, now - sent_at) // MILLISECOND_US
        times = ExecutionTimes(delay_ms=None, execution_ms=record.execution_ms, whole_ms=took_ms)
        self._endpoint.estimates.remember([times])
        judged = GOOD
        if record.status == "COMPLETED":
            with anyio.CancelScope(shield=True):  # what was paid for comes only once
                judged = await self._validators.judged(job.run, record)
            self._endpoint.runs.observe_validation(job.run, judged.unjudged)
        return on_finished(self._endpoint, job, record, reason="answer", margin_us=None, judged=judged)


def _record_of(raw: bytes) -> Record:
    return Record(remote_id=None, status="", output=raw)
