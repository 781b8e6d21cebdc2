"""`/run` and `/retry`: the request puts a job into the service's queue, and its answer says whether it is there."""

from orchestrator.client import Permit
from orchestrator.client.http.bodies import Leaving
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.http_answers import Answer
from orchestrator.core.service.outcomes import SAME_ID, Accepted, RunOutcome, Uncertain, retry_outcome, run_outcome
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.lanes.lane import Lane, left_at
from orchestrator.engine.lanes.request_builder import RequestBuilder
from orchestrator.errors import NotSent, Unanswered
from orchestrator.ledger import Claim


class RunLane(Lane):
    """`POST /run`."""

    async def send(self, permit: Permit, claim: Claim, builder: RequestBuilder, leaving: Leaving) -> Answer:
        return await self._endpoint.api.run(permit, builder.body(claim), leaving=leaving)

    async def step(
        self, claim: Claim, builder: RequestBuilder, result: Answer | NotSent | Unanswered, sent_at: int
    ) -> Transition:
        outcome = with_own_id(self._endpoint, claim.job, run_outcome(self._scrubbed_if_refused(result)))
        return self._on_outcome(claim, builder, outcome, left_at(result, sent_at))


class RetryLane(Lane):
    """`POST /retry` of a job's latest submission."""

    async def send(self, permit: Permit, claim: Claim, builder: RequestBuilder, leaving: Leaving) -> Answer:  # noqa: ARG002  no body
        return await self._endpoint.api.retry(permit, claim.job.remote_id or "")

    async def step(
        self, claim: Claim, builder: RequestBuilder, result: Answer | NotSent | Unanswered, sent_at: int
    ) -> Transition:
        outcome = retry_outcome(self._scrubbed_if_refused(result), claim.job.remote_id or "")
        return self._on_outcome(claim, builder, outcome, left_at(result, sent_at))


def with_own_id(endpoint: Endpoint, job: Job, outcome: RunOutcome) -> RunOutcome:
    """`outcome` of a submission of `job`. An id that another job has is none: its result could be either's."""
    if isinstance(outcome, Accepted) and not endpoint.remote_ids.give(outcome.remote_id, job.id):
        endpoint.disbelieve(SAME_ID)
        return Uncertain(SAME_ID, is_repeated_id=True)
    return outcome
