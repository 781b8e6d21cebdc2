"""The jobs that leave an endpoint by one operation (`/run`, `/retry`): claimed just in time, and sent each within the
limits.
"""

from collections import deque
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.client import Permit
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.poll_loop import Wakeup, keep_polling
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.engine.sending.claim_turns import AHEAD_S, ClaimTurns
from orchestrator.engine.sending.request_sender import RequestSender
from orchestrator.engine.sending.run_sender import IDLE_S, RunSender
from orchestrator.ledger import Claim

CLAIM_S_MAX: Final = 1.0
"""A claimed job whose turn does not come within this time (429s, answers that hang) is given back."""


class LaneSender:
    """The jobs that leave by one operation: a claimer that keeps a little ahead, and a sender."""

    def __init__(
        self,
        operation: Operation,
        *,
        endpoint: Endpoint,
        task_pool: TaskPool,
        turns: ClaimTurns,
        sender: RequestSender,
    ) -> None:
        self._task_pool = task_pool
        self._endpoint = endpoint
        self._turns = turns
        self._sender = sender
        self._operation = operation
        self._claimed: deque[Claim] = deque()
        self._claiming = Wakeup()
        self._sending = Wakeup()

    @property
    def ahead(self) -> int:
        """Jobs that are claimed and not yet on their way."""
        return len(self._claimed)

    def wake(self) -> None:
        """There may be something to claim."""
        self._claiming.wake()

    def take_out(self, run: int) -> list[Claim]:
        """What is claimed of `run`, which nobody will send any more."""
        found = [claim for claim in self._claimed if claim.job.run == run]
        self._claimed = deque(claim for claim in self._claimed if claim.job.run != run)
        return found

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Claims and sends until cancelled. What was claimed and not yet sent is then given back."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(keep_polling, self._claim, self._claiming)
                group.start_soon(keep_polling, self._send, self._sending)
                task_status.started()
        finally:
            await self._sender.give_back(self._claimed)

    async def _claim(self) -> float:
        """Claims what is missing to the next quarter of a second, of the run whose turn it is."""
        ready, again_s = self._turns.ready(self._operation, self.ahead)
        if not ready:
            return again_s
        run = self._turns.chosen(ready)
        weight = self._turns.weight(run.run)
        unanswered_s = await self._unanswered_s(run)
        if unanswered_s:
            return unanswered_s
        if unanswered_s is None:
            most = ready[run.run]
            claims = await run.claim(self._operation, most)
            self._turns.share.sent(run.run, len(claims), weight)
            if len(claims) < most:
                await run.look_ahead(self._operation)
            self._claimed.extend(claims)
            if claims:
                self._sending.wake()
        self._claiming.wake()  # at once, and not at the next tick: it may be the turn of another run
        return IDLE_S

    async def _unanswered_s(self, run: RunSender) -> float | None:
        """Seconds after which to look again, 0 for at once; None where jobs of `run` may be sent.

        While nothing is answered, a question goes first, if there are jobs to send. A run that has none due leaves its
        turn to the others.
        """
        if not self._endpoint.health.is_silent:
            return None
        await run.look_ahead(self._operation)
        if run.none_s(self._operation):
            return 0.0
        return None if await self._endpoint.probe.is_answering() else AHEAD_S

    async def _send(self) -> float:
        """Sends what was claimed, each in its turn; gives it back where going on is pointless or takes too long."""
        good: int | None = None
        while self._claimed:
            permit = self._permit_at_once()
            if permit is None:
                good = None  # while we wait anything may change
                permit = await self._permit()
            if permit is None:
                await self._sender.give_back([self._claimed.popleft() for _ in range(len(self._claimed))])
                break
            run = self._claimed[0].job.run if self._claimed else None
            if run is None or (run != good and self._turns.is_recalled(run)):
                permit.give_back()
                good = None
                await self._sender.give_back(() if run is None else self.take_out(run))
            else:
                good = run
                claim = self._claimed.popleft()
                self._endpoint.claimed.in_flight.add(claim.job.id)
                self._task_pool.launch(partial(self._sender.send, claim, permit, self._turns.runs[run].builder))
                if not self._claimed:  # where few may go at once, the next look would come too late
                    self._claiming.wake()
        return IDLE_S

    def _permit_at_once(self) -> Permit | None:
        """Leave to send, where nothing is in the way; at full speed to wait for each costs a hundredth of a job."""
        api = self._endpoint.api
        is_in_line = self._operation is not Operation.RETRY and api.up.waiting
        return None if is_in_line else api.limiter.permit_at_once(self._operation)

    async def _permit(self) -> Permit | None:
        """Waits for leave to send; None where it does not come soon."""
        api = self._endpoint.api
        if self._operation is not Operation.RETRY and api.up.waiting:
            await api.up.clear()  # however long that takes: to claim them again and again would be no faster
            if not self._turns.is_open(self._operation):
                return None
        return await api.limiter.permit_within(self._operation, CLAIM_S_MAX)
