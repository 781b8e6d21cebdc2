"""Sends claimed jobs at one endpoint, and makes of each answer what becomes of its job.

What an answer means is decided in `core.service.outcomes`; nothing here repeats a request.
"""

from collections.abc import Sequence
from functools import partial

import anyio
import msgspec

from orchestrator.client import Permit
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import Answer, Pointless
from orchestrator.core.service.openai import Answered, DirectOutcome, Unreadable, of_openai
from orchestrator.core.service.outcomes import (
    SAME_ID,
    Accepted,
    Deferred,
    RunOutcome,
    Uncertain,
    retry_outcome,
    run_outcome,
)
from orchestrator.core.service.s3_config import UnusableVariables
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.engine.sending.request_builder import RequestBuilder, UnusableInputError
from orchestrator.engine.sending.response_steps import (
    DirectResponses,
    interrupted,
    on_response,
    put_back_until,
    rejected,
)
from orchestrator.errors import NotSent, Unanswered, bare
from orchestrator.ledger import Claim, Ledger
from orchestrator.units import SECOND_US


class RequestSender:
    """Of one endpoint. `task_pool` is where requests in flight live: they outlast the taking of new work."""

    def __init__(self, *, endpoint: Endpoint, ledger: Ledger, task_pool: TaskPool, validators: ValidationPool) -> None:
        self._endpoint = endpoint
        self._ledger = ledger
        self._clock = endpoint.clock
        self._task_pool = task_pool
        self._direct = DirectResponses(endpoint, validators)
        self._claimed = endpoint.claimed

    async def give_back(self, claims: Sequence[Claim]) -> None:
        """Claimed jobs that will not be sent now are queued again, at no cost."""
        if not claims:
            return
        now = self._clock.now()
        for claim in claims:
            self._claimed.release(claim.job.id)
        with anyio.CancelScope(shield=True):
            await self._ledger.writer.apply(
                [put_back_until(self._endpoint, claim.job, due_at=now, reason="not sent", now=now) for claim in claims]
            )

    async def send(self, claim: Claim, permit: Permit, builder: RequestBuilder) -> None:
        """One request, from its turn to its step, which is posted: the job is in flight until that is durable."""
        job, sent_at = claim.job, self._clock.now()
        try:
            result: Answer | NotSent | Unanswered = await self._request(claim, permit, builder)
            step = await self._on_result(claim, permit.operation, builder, result, sent_at)
        except UnusableVariables as error:  # one went since the input was checked, or nobody had to allow any then
            permit.give_back()
            self._endpoint.runs.lack(job.run, error.with_advice, error.names)
            step = put_back_until(self._endpoint, job, due_at=sent_at, reason=str(error), now=sent_at)
        except UnusableInputError as error:
            permit.give_back()
            step = self._endpoint.homes.homeward(rejected(job, f"not sent: {error}", now=sent_at))
        except BaseException:
            self._claimed.release(job.id)
            raise
        self._ledger.writer.submit(step, partial(self._landed, job.id))

    def _landed(self, job: int, error: Exception | None) -> None:
        self._claimed.release(job)
        if error is not None:
            self._task_pool.fail(error)

    async def _request(self, claim: Claim, permit: Permit, builder: RequestBuilder) -> Answer | NotSent | Unanswered:
        """What came of the request for `claim`. If we end before it is known, it is written that nobody knows."""
        api, sent_at = self._endpoint.api, self._clock.now()
        leaving = partial(self._ledger.marks.mark, claim.job.submission or 0)
        try:
            if claim.job.by_retry:
                answer = await api.retry(permit, claim.job.remote_id or "")
            elif permit.operation is Operation.OPENAI:
                asked = builder.question(claim)
                answer = await api.openai(permit, asked.route, asked.body, within_s=asked.within_s, leaving=leaving)
                # No execution takes longer; a machine that slept meanwhile finds the answer long after it had come.
                latest_at = answer.sent_at + round(asked.within_s * SECOND_US)
                answer = msgspec.structs.replace(answer, answered_at=min(answer.answered_at, latest_at))
            else:
                answer = await api.run(permit, builder.body(claim), leaving=leaving)
        except NotSent as error:
            return bare(error)
        except Unanswered as error:
            self._endpoint.health.connectivity.record_failure(sent_at=sent_at, now=self._clock.now())
            return bare(error)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                now = self._clock.now()
                await self._ledger.writer.step(interrupted(self._endpoint, claim.job, sent_at=sent_at, now=now))
            raise
        self._endpoint.health.connectivity.record_success(answer.answered_at)
        return answer

    async def _on_result(
        self,
        claim: Claim,
        operation: Operation,
        builder: RequestBuilder,
        result: Answer | NotSent | Unanswered,
        sent_at: int,
    ) -> Transition:
        """What the result of the request for `claim` makes of its job.

        Of a `/run` that succeeded nothing is kept but the id, which must stay whole; of every other answer, nothing
        that is secret.
        """
        job, health = claim.job, self._endpoint.health
        is_direct = operation is Operation.OPENAI
        if isinstance(result, Answer):
            sent_at = result.sent_at
            if is_direct or result.status >= 300:  # noqa: PLR2004
                result = msgspec.structs.replace(result, body=self._endpoint.scrub(result.body))
        outcome: RunOutcome | DirectOutcome
        if is_direct:
            outcome = of_openai(result, time_scale=self._endpoint.api.time_scale)
            if isinstance(outcome, Answered | Unreadable):
                health.submission(Accepted(""), sent_at, self._clock.now())
                return await self._direct.step(job, outcome, sent_at=sent_at)
        elif job.by_retry:
            outcome = retry_outcome(result, job.remote_id or "")
        else:
            outcome = self._with_own_id(job, run_outcome(result))
        health.submission(outcome, sent_at, self._clock.now(), by_retry=job.by_retry)
        if isinstance(outcome, Pointless):
            self._task_pool.launch(partial(self._endpoint.probe.stop_if_shut, outcome))
        if isinstance(outcome, Deferred) and outcome.trouble is FailureClass.TRANSPORT:
            health.unreachable(outcome.reason, sent_at, self._clock.now())
        # The first answers tell how fast the service's time runs, and their jobs were claimed before.
        is_scaled = self._endpoint.api.time_scale != 1.0
        ttl_us = self._endpoint.estimates.here_us(builder.ttl_us(claim.payload)) if is_scaled else None
        return on_response(self._endpoint, job, outcome, sent_at=sent_at, now=self._clock.now(), ttl_us=ttl_us)

    def _with_own_id(self, job: Job, outcome: RunOutcome) -> RunOutcome:
        """`outcome` of a `/run`. An id that another job has is none: its result could be either's."""
        if isinstance(outcome, Accepted) and not self._endpoint.remote_ids.give(outcome.remote_id, job.id):
            self._endpoint.disbelieve(SAME_ID)
            return Uncertain(SAME_ID, is_repeated_id=True)
        return outcome
