"""Drafts: batches that are made, and finalized, or dropped unpaid. The intent is durable before each request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from orchestrator.core.batches.batch_record import BatchStage
from orchestrator.core.batches.why import ENDS_THE_LANE, Why
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.reasons import Reason, ReasonCode
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.jobs.transitions import cancelled_on_request
from orchestrator.core.lanes.batch_outcomes import BatchRefused
from orchestrator.core.service.batches import BatchChanged, ServiceBatch
from orchestrator.core.service.http_answers import Pointless
from orchestrator.core.service.outcomes import Deferred, Gone, Uncertain
from orchestrator.engine.batches.batch_requests import BatchRequests, asked_s
from orchestrator.engine.batches.open_batch import OpenBatch
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.ledger import Ledger
from orchestrator.views.batches import NoBatch

LOST: Final = (
    "the answer to the making of a batch is lost: if it was made, an empty draft stays at the service, which costs"
    " nothing; the rows go into another one"
)


@dataclass(kw_only=True, eq=False)
class Drafts:
    """Of one endpoint."""

    endpoint: Endpoint
    ledger: Ledger
    requests: BatchRequests
    refusals: int = 0
    """How often in a row no other batch was made."""

    refused: NoBatch | None = None
    """Since when the service refuses to make one; None where it does not."""

    async def begin(self, run: int) -> OpenBatch | None:
        """Makes a batch for rows of `run`; None where there is none, or nobody knows."""
        batches = self.ledger.runs.batches
        batch = await batches.intend(run, endpoint=self.endpoint.id)
        outcome = await self.requests.change(lambda calls, permit: calls.create(permit))
        match outcome:
            case BatchChanged(batch=made) if made is not None:
                self.refusals, self.refused = 0, None
                return OpenBatch(batch=await batches.move(batch, BatchStage.DRAFT, remote_id=made.id))
            case BatchChanged() | Uncertain() | Gone():
                await self.leave(OpenBatch(batch=batch))
            case Deferred(reason=reason) | BatchRefused(reason=reason):
                await batches.move(batch, BatchStage.DROPPED, why=Why.REFUSED)
                since = self.endpoint.clock.now() if self.refused is None else self.refused.since
                self.refused = NoBatch(reason, since)
                if not self.refusals:
                    self.endpoint.warn(f"no other batch is made for now: {reason}; it is tried again")
            case Pointless(reason=reason):
                await batches.move(batch, BatchStage.DROPPED, why=Why.REFUSED)
                self.endpoint.runs.stop(run, f"no batch can be made: {reason}")
        self.refusals += 1
        return None

    async def leave(self, found: OpenBatch) -> None:
        """Nobody knows whether it was made. If so it is empty, and cannot be told from a draft of somebody else's."""
        found.batch = await self.ledger.runs.batches.move(found.batch, BatchStage.STRAY)
        self.endpoint.warn(LOST)

    async def finalize(self, found: OpenBatch) -> None:
        """Has it executed, where it has exactly our rows: how it stands is asked first, each time."""
        batches = self.ledger.runs.batches
        said = await self._state(found)
        if said is None:
            return
        if not said.is_draft:
            await self._runs(found, said)
            return
        rows = found.counts.named
        if said.total != rows:
            await self.drop(found, Why.FOREIGN if (said.total or 0) > rows else Why.FEWER)
            return
        if found.batch.stage is BatchStage.DRAFT:
            found.batch = await batches.move(found.batch, BatchStage.FINALIZING)
        outcome = await self.requests.change(
            lambda calls, permit: calls.finalize(permit, found.remote_id), found.remote_id
        )
        if isinstance(outcome, BatchChanged):
            await self._runs(found, said)
            return
        if isinstance(outcome, BatchRefused) and not found.troubles:
            self.endpoint.warn(f"a batch is not begun for now: {outcome.reason}; it is tried again")
        found.put_off(self.endpoint.clock.now(), asked_s(outcome))

    async def _runs(self, found: OpenBatch, said: ServiceBatch) -> None:
        found.batch = await self.ledger.runs.batches.move(found.batch, BatchStage.RUNNING)
        found.troubles = 0
        if (said.total or 0) > found.counts.named:
            self.endpoint.warn(f"a batch has more requests than rows were put into it: {found.remote_id}")

    async def drop(self, found: OpenBatch, why: Why) -> None:
        """It is to be cancelled as a draft."""
        found.batch = await self.ledger.runs.batches.move(found.batch, BatchStage.DROPPING, why=why)
        if why in ENDS_THE_LANE:
            self.endpoint.runs.stop(found.batch.run, f"batches cannot be used here: {why.sentence}")
        elif why is not Why.EMPTY:
            self.endpoint.warn(f"a batch is cancelled before it has begun, unpaid: {why.sentence}")

    async def cancel(self, found: OpenBatch) -> None:
        """Cancels a draft, and once that is seen, queues its rows again."""
        outcome = await self.requests.change(
            lambda calls, permit: calls.cancel(permit, found.remote_id), found.remote_id
        )
        if isinstance(outcome, Gone):
            await self.gone(found)
            return
        if not isinstance(outcome, BatchChanged | BatchRefused):
            found.put_off(self.endpoint.clock.now(), asked_s(outcome))
            return
        said = await self._state(found)
        if said is None:
            return
        if not said.is_draft and not said.is_cancelled:
            found.batch = await self.ledger.runs.batches.move(found.batch, BatchStage.CANCELLING)
        elif said.is_cancelled or isinstance(outcome, BatchRefused):  # then it stays a draft that is never finalized
            await self.gone(found)
        else:
            found.put_off(self.endpoint.clock.now())

    async def _state(self, found: OpenBatch) -> ServiceBatch | None:
        """How a draft stands; None where that is not known now, or it is gone."""
        said = await self.requests.state(found.remote_id)
        if isinstance(said, ServiceBatch):
            return said
        if isinstance(said, Gone):
            await self.gone(found)
        else:
            found.put_off(self.endpoint.clock.now(), asked_s(said))
        return None

    async def gone(self, found: OpenBatch) -> None:
        """Nothing of a draft will ever be executed: its rows are queued again, at no cost, but those that people have
        cancelled meanwhile.
        """
        batches = self.ledger.runs.batches
        with anyio.CancelScope(shield=True):
            jobs, cancelled = await batches.rows(found.batch.id), await batches.cancelled_rows(found.batch.id)
            now = self.endpoint.clock.now()
            steps = self._put_back([job for job in jobs if job.id not in cancelled], ReasonCode.BATCH_DROPPED)
            steps += [cancelled_on_request(job, at=now, alone=True) for job in jobs if job.id in cancelled]
            found.batch = await batches.move(
                found.batch, BatchStage.DROPPED, steps=steps, why=found.batch.why or Why.GONE
            )

    async def give_back(self, jobs: Sequence[Job]) -> None:
        """These rows are not in it, and are queued again, at no cost."""
        if jobs:
            await self.ledger.writer.apply(self._put_back(jobs, "not sent"))

    def _put_back(self, jobs: Sequence[Job], reason: Reason) -> list[Transition]:
        now, homes = self.endpoint.clock.now(), self.endpoint.homes
        return [homes.homeward(transitions.deferred(job, due_at=now, reason=reason, at=now)) for job in jobs]
