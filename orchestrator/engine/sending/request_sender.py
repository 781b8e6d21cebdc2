"""Sends claimed jobs at one endpoint, and makes of each answer what becomes of its job.

What an answer means is decided in `core.service.outcomes`; nothing here repeats a request.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import anyio

from orchestrator.client import Permit
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.http_answers import Answer
from orchestrator.core.service.s3_config import UnusableVariables
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.lanes.direct_lanes import HttpLane, OpenAILane
from orchestrator.engine.lanes.lane import Lane
from orchestrator.engine.lanes.queue_lanes import RetryLane, RunLane
from orchestrator.engine.lanes.request_builder import RequestBuilder, UnusableInputError
from orchestrator.engine.lanes.response_steps import interrupted, put_back_until, refused
from orchestrator.engine.lanes.sync_lane import SyncLane
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.errors import NotSent, Unanswered, bare
from orchestrator.ledger import Claim, Ledger


class RequestSender:
    """Of one endpoint. `task_pool` is where requests in flight live: they outlast the taking of new work."""

    def __init__(self, *, endpoint: Endpoint, ledger: Ledger, task_pool: TaskPool, validators: ValidationPool) -> None:
        self._endpoint = endpoint
        self._ledger = ledger
        self._clock = endpoint.clock
        self._task_pool = task_pool
        self._lanes: Final[Mapping[Operation, Lane]] = {
            Operation.RUN: RunLane(endpoint, task_pool),
            Operation.RUNSYNC: SyncLane(endpoint, task_pool, validators),
            Operation.RETRY: RetryLane(endpoint, task_pool),
            Operation.OPENAI: OpenAILane(endpoint, task_pool, validators),
            Operation.HTTP: HttpLane(endpoint, task_pool, validators),
        }
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
        lane = self._lanes[permit.operation]
        try:
            result = await self._result(lane, claim, permit, builder)
            step = await lane.step(claim, builder, result, sent_at)
        except UnusableVariables as error:  # one went since the input was checked, or nobody had to allow any then
            permit.give_back()
            self._endpoint.runs.lack(job.run, error.with_advice, error.names)
            step = put_back_until(self._endpoint, job, due_at=sent_at, reason=str(error), now=sent_at)
        except UnusableInputError as error:
            permit.give_back()
            step = self._endpoint.homes.homeward(refused(job, f"not sent: {error}", now=sent_at))
        except BaseException:
            self._claimed.release(job.id)
            raise
        self._ledger.writer.submit(step, partial(self._landed, job.id))

    def _landed(self, job: int, error: Exception | None) -> None:
        self._claimed.release(job)
        if error is not None:
            self._task_pool.fail(error)

    async def _result(
        self, lane: Lane, claim: Claim, permit: Permit, builder: RequestBuilder
    ) -> Answer | NotSent | Unanswered:
        """What came of the request for `claim`. If we end before it is known, it is written that nobody knows."""
        sent_at = self._clock.now()
        leaving = partial(self._ledger.marks.mark, claim.job.submission or 0)
        try:
            answer = await lane.send(permit, claim, builder, leaving)
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
