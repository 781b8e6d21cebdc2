"""Requests past the queue (`/openai/*`, servers at URLs): the answer is the result, and nothing can be asked later."""

from abc import abstractmethod
from typing import Final

import msgspec

from orchestrator.client import Permit
from orchestrator.client.http.bodies import Leaving
from orchestrator.core.jobs.job import Job, outcome_from
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.lanes.direct_answers import Answered, DirectOutcome, Unreadable
from orchestrator.core.lanes.http import of_http
from orchestrator.core.lanes.openai import of_openai
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import Answer
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.outcomes import Accepted
from orchestrator.engine.collecting.result_steps import TORN_BYTES_MAX, on_failed
from orchestrator.engine.lanes.lane import ResultLane, left_at
from orchestrator.engine.lanes.request_builder import Question, RequestBuilder
from orchestrator.errors import NotSent, Unanswered
from orchestrator.ledger import Claim
from orchestrator.units import SECOND_US

UNREADABLE: Final = "the answer is no JSON"


class DirectLane(ResultLane):
    """A way past the queue, whatever the requests are."""

    @abstractmethod
    async def _post(self, permit: Permit, asked: Question, leaving: Leaving) -> Answer:
        """Sends the request. Raises `NotSent` and `Unanswered`."""

    @abstractmethod
    def _meaning(self, result: Answer | NotSent | Unanswered, time_scale: float) -> DirectOutcome:
        """What came of it; `time_scale` is how fast the service's time runs."""

    async def send(self, permit: Permit, claim: Claim, builder: RequestBuilder, leaving: Leaving) -> Answer:
        asked = builder.question(claim)
        answer = await self._post(permit, asked, leaving)
        # No execution takes longer; a machine that slept meanwhile finds the answer long after it had come.
        latest_at = answer.sent_at + round(asked.within_s * SECOND_US)
        return msgspec.structs.replace(answer, answered_at=min(answer.answered_at, latest_at))

    async def step(
        self, claim: Claim, builder: RequestBuilder, result: Answer | NotSent | Unanswered, sent_at: int
    ) -> Transition:
        endpoint, sent_at = self._endpoint, left_at(result, sent_at)
        if isinstance(result, Answer):
            result = self._scrubbed(result)
        outcome = self._meaning(result, endpoint.api.time_scale)
        if not isinstance(outcome, Answered | Unreadable):
            return self._on_outcome(claim, builder, outcome, sent_at)
        endpoint.health.submission(Accepted(""), sent_at, endpoint.clock.now())
        return await self._on_answer(msgspec.structs.replace(claim.job, sent_at=sent_at), outcome, sent_at)

    async def _on_answer(self, job: Job, outcome: Answered | Unreadable, sent_at: int) -> Transition:
        """The step for `job`, whose request was sent at `sent_at`: its result, another execution, or the end."""
        now = self._endpoint.clock.now()
        took_us, record = max(0, now - sent_at), None if isinstance(outcome, Unreadable) else outcome.record
        self._endpoint.estimates.answered(record, took_us, now)
        if isinstance(outcome, Unreadable):
            record = Record(remote_id=None, status="", output=outcome.raw[:TORN_BYTES_MAX])
            told = outcome_from(job, record, trouble=FailureClass.INVALID_OUTPUT, message=UNREADABLE, margin_us=None)
            return on_failed(self._endpoint, job, told, reason=UNREADABLE)
        return await self._on_end(job, outcome.record)


class OpenAILane(DirectLane):
    """`POST /openai/*`, or the same to a server at a URL."""

    async def _post(self, permit: Permit, asked: Question, leaving: Leaving) -> Answer:
        return await self._endpoint.api.openai(
            permit, asked.route, asked.body, within_s=asked.within_s, leaving=leaving
        )

    def _meaning(self, result: Answer | NotSent | Unanswered, time_scale: float) -> DirectOutcome:
        if self._endpoint.api.is_by_url:
            return of_http(result, time_scale=time_scale, is_json=True)
        return of_openai(result, time_scale=time_scale)


class HttpLane(DirectLane):
    """`POST` to a path of a server at a URL, with the input as its body."""

    async def _post(self, permit: Permit, asked: Question, leaving: Leaving) -> Answer:
        return await self._endpoint.api.http(permit, asked.route, asked.body, within_s=asked.within_s, leaving=leaving)

    def _meaning(self, result: Answer | NotSent | Unanswered, time_scale: float) -> DirectOutcome:
        return of_http(result, time_scale=time_scale)
