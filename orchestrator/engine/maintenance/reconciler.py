"""Compares what the ledger says with what this process is doing, and mends the difference.

There should be none. Where there is, a defect or a fault of the machine has left a job to nobody, and it would wait
for ever: so it is put back to work, and logged.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.maintenance.janitor import left_submitting
from orchestrator.ledger import Ledger

log = logging.getLogger(__name__)

PAGE: Final = 1_000
CLAIM_US_MAX: Final = 120_000_000
"""A claim is stale after this: it is given back after a second, and a request takes forty at the most."""


@dataclass(kw_only=True, eq=False)
class Reconciler:
    """Compares for the endpoints that this process serves."""

    ledger: Ledger
    endpoints: Mapping[int, Endpoint]
    _suspicious: set[int] = field(init=False, default_factory=set)

    async def run_once(self) -> None:
        """One comparison of everything."""
        await self._settle_stale_claims()
        counts = await self.ledger.runs.outstanding()
        suspicious = {endpoint for endpoint, n in counts.items() if self._differs(endpoint, n)}
        # A difference may be a step on its way; one that is there twice is none.
        for endpoint in suspicious & self._suspicious:
            await self._adopt_unattended(endpoint)
        self._suspicious = suspicious
        for endpoint in counts:
            if endpoint in self.endpoints and (revived := self.endpoints[endpoint].outstanding.revive()):
                log.warning("%d outstanding jobs had not been asked for in time: asking now", revived)

    def _differs(self, endpoint: int, outstanding: int) -> bool:
        if endpoint not in self.endpoints:
            return False
        known = self.endpoints[endpoint].outstanding
        return len(known) + known.carried < outstanding

    async def _settle_stale_claims(self) -> None:
        now, after = self.ledger.now(), (0, 0)
        while page := await self.ledger.jobs.in_state(state=State.SUBMITTING, after=after, most=PAGE):
            after = (page[-1].due_at, page[-1].id)
            stale = [job for job in page if self._is_stale(job, now)]
            if stale:
                never_left = await self.ledger.never_left(stale)
                taken = await self.ledger.writer.apply([self._left(job, never_left, now) for job in stale])
                log.warning("%d jobs were being sent by nobody", len(taken))

    def _is_stale(self, job: Job, now: int) -> bool:
        """Whether `job` was claimed long ago, and no request in flight is about it."""
        claimed_at = max(job.sent_at or 0, job.unfinished_at or 0)
        endpoint = self.endpoints.get(job.endpoint)
        return (
            endpoint is not None
            and not job.is_carried
            and now - claimed_at > CLAIM_US_MAX
            and job.id not in endpoint.claimed
        )

    def _left(self, job: Job, never_left: Collection[int], now: int) -> Transition:
        endpoint = self.endpoints[job.endpoint]
        step = left_submitting(endpoint, job, now, never_left=job.submission in never_left)
        return endpoint.homes.homeward(step)

    async def _adopt_unattended(self, number: int) -> None:
        endpoint, after, adopted = self.endpoints[number], (0, 0), 0
        outstanding = endpoint.outstanding
        while page := await self.ledger.jobs.in_state(state=State.OUTSTANDING, after=after, most=PAGE):
            after = (page[-1].due_at, page[-1].id)
            unattended = [
                job
                for job in page
                if job.endpoint == number and not job.is_carried and outstanding.plan.get(job.id) is None
            ]
            endpoint.adopt(unattended)
            adopted += len(unattended)
            now = await self.ledger.jobs.of(ids=[job.id for job in unattended])
            for job in unattended:  # whose end came between the question and its answer: no step tells of it any more
                if now[job.id].state is not State.OUTSTANDING:
                    outstanding.forget(job.id)
        if adopted:
            log.warning("%d outstanding jobs were in nobody's plan: asking for them now", adopted)
