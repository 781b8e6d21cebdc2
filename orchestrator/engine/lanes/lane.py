"""A lane: how the request for a job leaves, and what its answer makes of the job; and what all lanes learn by it."""

from abc import ABC, abstractmethod
from functools import partial

import anyio

from orchestrator.client import Permit
from orchestrator.client.http.bodies import Leaving
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import Answer, Pointless
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.outcomes import Deferred, RunOutcome
from orchestrator.engine.collecting.result_steps import on_finished
from orchestrator.engine.collecting.validation_pool import GOOD, ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.lanes.request_builder import RequestBuilder
from orchestrator.engine.lanes.response_steps import on_response
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.errors import NotSent, Unanswered
from orchestrator.ledger import Claim


class Lane(ABC):
    """One way for jobs to leave for an endpoint. Nothing is repeated here."""

    def __init__(self, endpoint: Endpoint, task_pool: TaskPool) -> None:
        self._endpoint = endpoint
        self._task_pool = task_pool

    @abstractmethod
    async def send(self, permit: Permit, claim: Claim, builder: RequestBuilder, leaving: Leaving) -> Answer:
        """Sends the request for `claim`. Raises `NotSent`, `Unanswered`, and what `builder` raises."""

    @abstractmethod
    async def step(
        self, claim: Claim, builder: RequestBuilder, result: Answer | NotSent | Unanswered, sent_at: int
    ) -> Transition:
        """What the result of the request for `claim`, which was sent at `sent_at`, makes of its job."""

    def _scrubbed(self, answer: Answer) -> Answer:
        """`answer` without what is secret: of it more is kept than an id."""
        return answer.with_body(self._endpoint.scrub(answer.body))

    def _scrubbed_if_refused(self, result: Answer | NotSent | Unanswered) -> Answer | NotSent | Unanswered:
        """Of a submission that succeeded nothing is kept but the id, which must stay whole."""
        return self._scrubbed(result) if isinstance(result, Answer) and result.status >= 300 else result  # noqa: PLR2004

    def _on_outcome(self, claim: Claim, builder: RequestBuilder, outcome: RunOutcome, sent_at: int) -> Transition:
        """What `outcome` of a submission tells of the endpoint, and its step for the job."""
        job, endpoint, now = claim.job, self._endpoint, self._endpoint.clock.now()
        endpoint.health.submission(outcome, sent_at, now, by_retry=job.by_retry)
        if isinstance(outcome, Pointless):
            self._task_pool.launch(partial(endpoint.probe.stop_if_shut, outcome))
        if isinstance(outcome, Deferred) and outcome.trouble is FailureClass.TRANSPORT:
            endpoint.health.unreachable(outcome.reason, sent_at, now)
        return on_response(endpoint, job, outcome, sent_at=sent_at, now=now, ttl_us=self._ttl_us(claim, builder))

    def _ttl_us(self, claim: Claim, builder: RequestBuilder) -> int | None:
        """How long the job lasts there, where more is known of that than as it was claimed: the first answers tell how
        fast the service's time runs.
        """
        endpoint = self._endpoint
        if endpoint.api.time_scale == 1.0:
            return None
        return endpoint.estimates.here_us(builder.ttl_us(claim.payload))


class ResultLane(Lane):
    """One whose answers bring results."""

    def __init__(self, endpoint: Endpoint, task_pool: TaskPool, validators: ValidationPool) -> None:
        super().__init__(endpoint, task_pool)
        self._validators = validators

    async def _on_end(self, job: Job, record: Record) -> Transition:
        """The step for `job`, whose execution has ended as the `record` in its answer says: its result, another
        execution, or the end.
        """
        judged = GOOD
        if record.status == "COMPLETED":
            try:
                judged = await self._validators.received(job, record)
            except anyio.get_cancelled_exc_class():  # we are to end, and what was paid for may come only once
                with anyio.CancelScope(shield=True):
                    judged = await self._validators.received(job, record, is_patient=False)
            self._endpoint.runs.observe_validation(job.run, judged.unjudged, judged.disk_fault)
        return on_finished(self._endpoint, job, record, reason="answer", margin_us=None, judged=judged)


def left_at(result: Answer | NotSent | Unanswered, sent_at: int) -> int:
    """When a request with this result left, which was begun at `sent_at`."""
    return result.sent_at if isinstance(result, Answer) else sent_at
