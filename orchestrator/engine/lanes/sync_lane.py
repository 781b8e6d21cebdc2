"""`/runsync`: the answer is held until the job has ended, or for a time. Then the job goes on, and is asked for.

A result in the answer is taken at once. Of any other end more is to be asked (what its stream has yielded, whether we
have cancelled it), and a `/retry` needs its id in the ledger: so the job counts as accepted, and `/status` tells.
"""

import msgspec

from orchestrator.client import Permit
from orchestrator.client.http.bodies import Leaving
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.reasons import ReasonCode
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.lanes.sync_requests import SyncEnd, sync_outcome, unfinished_at
from orchestrator.core.lanes.via import Via
from orchestrator.core.service.http_answers import Answer
from orchestrator.core.service.job_record import Record, read_record
from orchestrator.core.service.outcomes import Accepted, RunOutcome
from orchestrator.engine.lanes.lane import ResultLane, left_at
from orchestrator.engine.lanes.queue_lanes import with_own_id
from orchestrator.engine.lanes.request_builder import RequestBuilder
from orchestrator.errors import NotSent, Unanswered
from orchestrator.ledger import Claim
from orchestrator.units import MILLISECOND_US


class SyncLane(ResultLane):
    """`POST /runsync`."""

    async def send(self, permit: Permit, claim: Claim, builder: RequestBuilder, leaving: Leaving) -> Answer:
        api = self._endpoint.api
        wait_ms = round(self._wait_us(builder) * api.time_scale / MILLISECOND_US)
        return await api.runsync(permit, builder.body(claim), wait_ms=wait_ms, leaving=leaving)

    def _wait_us(self, builder: RequestBuilder) -> int:
        return self._endpoint.sync_places.wait_us(is_alone=builder.via is Via.SYNC)

    async def step(
        self, claim: Claim, builder: RequestBuilder, result: Answer | NotSent | Unanswered, sent_at: int
    ) -> Transition:
        endpoint, job, sent_at = self._endpoint, claim.job, left_at(result, sent_at)
        found = self._found(result)
        end = found if isinstance(found, SyncEnd) else None
        outcome = with_own_id(endpoint, job, Accepted(found.remote_id) if isinstance(found, SyncEnd) else found)
        if not isinstance(outcome, Accepted) or not isinstance(result, Answer):
            return self._on_outcome(claim, builder, outcome, sent_at)
        now = endpoint.clock.now()
        endpoint.health.submission(outcome, sent_at, now)
        if end is not None and self._is_result(job, end.record):
            job = msgspec.structs.replace(job, sent_at=sent_at)
            endpoint.estimates.finished(job, end.record, now)
            return await self._on_end(job, end.record)
        return transitions.accepted(
            job,
            remote_id=outcome.remote_id,
            sent_at=sent_at,
            at=now,
            ttl_us=self._ttl_us(claim, builder),
            reason=ReasonCode.RUNSYNC if end is None else ReasonCode.RUNSYNC_ENDED,
            unfinished_at=unfinished_at(sent_at, result.answered_at, self._wait_us(builder)) if end is None else None,
        )

    def _found(self, result: Answer | NotSent | Unanswered) -> SyncEnd | RunOutcome:
        """What `result` means, without what is secret, but with the id whole."""
        found = sync_outcome(self._scrubbed_if_refused(result))
        if not isinstance(found, SyncEnd) or not isinstance(result, Answer):
            return found
        scrubbed = self._scrubbed(result)
        if scrubbed is result:
            return found
        record = read_record(scrubbed.body) or Record(remote_id=found.remote_id, status="")
        return SyncEnd(found.remote_id, msgspec.structs.replace(record, remote_id=found.remote_id))

    def _is_result(self, job: Job, record: Record) -> bool:
        """Whether nothing more has to be asked about it."""
        return record.status == "COMPLETED" and not self._endpoint.output_streams.wants(job.run, record)
