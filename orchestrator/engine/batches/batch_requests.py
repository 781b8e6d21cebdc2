"""Requests about batches, each within the limit for them, and what they tell of the endpoint. None is repeated."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from orchestrator.client import Permit
from orchestrator.client.jobs.batches import BatchCalls
from orchestrator.core.lanes.batch_outcomes import (
    OF_THE_KEY,
    OF_THE_PATH,
    BatchChange,
    BatchRefused,
    batch_change_outcome,
    batch_list_outcome,
    batch_outcome,
    batch_page_outcome,
)
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.batches import BatchList, BatchPage, ServiceBatch
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import Answer, Pointless
from orchestrator.core.service.outcomes import Accepted, AskAgain, Deferred, Gone, Uncertain
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.errors import NotSent, Unanswered, bare

TURN_S_MAX: Final = 60.0
"""For so long a turn is waited for: a service may want no requests for an hour."""

NO_TURN: Final = "the service wants no requests about batches for now"

NOT_KNOWN: Final = "the service does not know this endpoint for now (404)"

_UNSURE: Final = AskAgain(FailureClass.SERVER, NOT_KNOWN)

T = TypeVar("T")
Call = Callable[[BatchCalls, Permit], Awaitable[Answer]]
Result = Answer | NotSent | Unanswered


@dataclass(kw_only=True, eq=False)
class BatchRequests:
    """Of one endpoint."""

    endpoint: Endpoint
    task_pool: TaskPool

    async def change(self, call: Call, remote_id: str | None = None, *, rows: int = 0) -> BatchChange:
        """What came of a request that changes the batch `remote_id`, or makes one; it has so many rows."""
        sent_at = self.endpoint.clock.now()
        result = await self._result(call)
        if result is None:
            return Deferred(FailureClass.THROTTLED, NO_TURN)
        outcome = batch_change_outcome(result, remote_id, requests=rows)
        if isinstance(outcome, Gone) and not await self._is_gone(remote_id):
            return Deferred(FailureClass.SERVER, NOT_KNOWN)
        if isinstance(outcome, Pointless) and not await self._is_without_batches(outcome):
            # As of a `/run`: whether it lasts, and all is to stop, the endpoint's health finds out.
            self.task_pool.launch(partial(self.endpoint.probe.stop_if_shut, outcome))
            self.endpoint.health.submission(outcome, sent_at, self.endpoint.clock.now())
            return Deferred(FailureClass.SERVER, outcome.reason)
        if not isinstance(outcome, Pointless):
            told = outcome if isinstance(outcome, Deferred | Uncertain) else Accepted("")
            self.endpoint.health.submission(told, sent_at, self.endpoint.clock.now())
        return outcome

    async def state(self, remote_id: str) -> ServiceBatch | Gone | AskAgain | Pointless:
        """How a batch stands."""
        said = await self._state(remote_id)
        return said if not isinstance(said, Gone) or await self._is_gone(remote_id) else _UNSURE

    async def page(self, remote_id: str, offset: int) -> BatchPage | BatchRefused | Gone | AskAgain | Pointless:
        """The requests of a batch from `offset` on, without what is secret."""
        page = await self._ask(
            lambda calls, permit: calls.page(permit, remote_id, offset),
            lambda result: batch_page_outcome(self._scrubbed(result), offset),
        )
        return page if not isinstance(page, Gone) or await self._is_gone(remote_id) else _UNSURE

    async def _state(self, remote_id: str) -> ServiceBatch | Gone | AskAgain | Pointless:
        return await self._ask(
            lambda calls, permit: calls.get(permit, remote_id), lambda result: batch_outcome(result, remote_id)
        )

    async def _list(self) -> BatchList | AskAgain | Pointless:
        return await self._ask(lambda calls, permit: calls.all(permit), batch_list_outcome)

    async def _is_gone(self, remote_id: str | None) -> bool:
        """Whether a batch is unknown where others are known: for a while an endpoint may answer 404 to everything."""
        listed = await self._list()
        if not isinstance(listed, BatchList) or remote_id is None:
            return False
        if remote_id in {batch.id for batch in listed.batches}:
            return False
        return not listed.has_more or isinstance(await self._state(remote_id), Gone)

    async def _is_without_batches(self, refusal: Pointless) -> bool:
        """Whether it is about Batch, which the endpoint has not; else about the key, or an endpoint that is unknown for
        a while, as a new one is.
        """
        if refusal.status not in OF_THE_PATH:
            return refusal.status not in OF_THE_KEY
        return isinstance(await self._list(), Pointless) and await self.endpoint.api.ask_health() is not None

    async def _ask(self, call: Call, read: Callable[[Result], T]) -> T | AskAgain:
        result = await self._result(call, is_question=True)
        return AskAgain(FailureClass.THROTTLED, NO_TURN) if result is None else read(result)

    def _scrubbed(self, result: Result) -> Result:
        return result.with_body(self.endpoint.scrub(result.body)) if isinstance(result, Answer) else result

    async def _result(self, call: Call, *, is_question: bool = False) -> Result | None:
        """What came of a request; None where there was no leave to send it. A question goes in the end although the
        service wants none for now: results that nobody asks for are forgotten, and it may want an hour of rest.
        """
        api, clock = self.endpoint.api, self.endpoint.clock
        permit = await api.limiter.permit_within(Operation.BATCH, TURN_S_MAX)
        if permit is None and is_question:
            permit = api.limiter.permit_past_throttle(Operation.BATCH)
        if permit is None:
            return None
        sent_at = clock.now()
        try:
            answer = await call(BatchCalls(api), permit)
        except NotSent as error:
            self.endpoint.health.unreachable(str(error), sent_at, clock.now())
            return bare(error)
        except Unanswered as error:
            self.endpoint.health.connectivity.record_failure(sent_at=sent_at, now=clock.now())
            return bare(error)
        self.endpoint.health.connectivity.record_success(answer.answered_at)
        return answer


def asked_s(outcome: object) -> float | None:
    """For how long the service asks to wait with the next try, where it does."""
    return outcome.retry_after_s if isinstance(outcome, Deferred | AskAgain) else None
