"""What becomes of jobs that the service does not know (404), or says nothing readable of: lost, or is it unwell?"""

from typing import Final, NamedTuple

from orchestrator.core.jobs.deadlines import Absence, absence, lost_gap_us, safe_until
from orchestrator.core.jobs.job import Job
from orchestrator.core.polling.poll_plan_entry import Entry
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.health import health_of
from orchestrator.core.service.outcomes import NoNews
from orchestrator.core.text.durations import rough_duration
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.errors import NotSent, Unanswered
from orchestrator.ledger import Ledger
from orchestrator.units import SECOND_US

TTL_OVER: Final = "the job's TTL ran out at the service"


class Lost(NamedTuple):
    """The execution of a job is over, and has left nothing that can be collected."""

    trouble: FailureClass
    message: str


class MissingJobCheck:
    """Of one endpoint."""

    def __init__(self, *, endpoint: Endpoint, ledger: Ledger) -> None:
        self._endpoint = endpoint
        self._ledger = ledger
        self._plan = endpoint.outstanding.plan
        self._well_at = 0
        self._judged_at = 0
        self._many_missing = False

    async def after_404(self, entry: Entry, now: int) -> Lost | int:
        """What a 404 means: its TTL, our lateness, a loss, or nothing yet: then, when it is to be asked for again."""
        job = entry.job
        match absence(job, now=now, retention_us=self._agreed_us(job)):
            case Absence.TTL:
                return Lost(FailureClass.TIMED_OUT, TTL_OVER)
            case Absence.EXPIRED:
                self._forgotten(entry)
                return Lost(FailureClass.EXPIRED, "its result expired before it could be collected")
            case Absence.MISSING:
                return await self._missing(entry, now)

    async def after_no_news(self, job: Job, answer: NoNews, now: int) -> Lost | None:
        """What an answer means that cannot be read: nothing yet (None), until the result can no longer be there.

        What nobody can read is kept where it was the result, since it was paid for. Anything else ends a job only where
        it alone is answered so: a service in maintenance knows its jobs when it is back.
        """
        if now < safe_until(job, self._agreed_us(job)):
            return None
        if answer.is_torn:
            message = "the service's answer about the finished job could not be decoded"
            return Lost(FailureClass.INVALID_OUTPUT, message)
        if self._endpoint.health.questions.breaker.is_tripped or not await self.is_well(now):
            return None
        if job.ttl_at is not None and now >= job.ttl_at:
            return Lost(FailureClass.TIMED_OUT, f"{TTL_OVER}; {answer.reason}")
        return Lost(FailureClass.EXPIRED, f"{answer.reason} until its result could no longer be there")

    async def _missing(self, entry: Entry, now: int) -> Lost | int:
        """Lost only after two 404s well apart, an endpoint that is well after each, and few 404s elsewhere.

        After the second alone would not do: one that vanished and comes back just then would be well again. Nor would
        after the first alone: it may vanish a second time.
        """
        gap_us = lost_gap_us(self._agreed_us(entry.job))
        if not entry.is_missing:
            entry.gone_after_us = self._since_finish_us(entry, now)
        if not self.is_known_to_go(entry.job, now) and await self._are_many_missing(now):
            self._endpoint.health.suspect(now)
            entry.gone_at = entry.missed_at = None
        elif entry.gone_at is None or now >= entry.gone_at + gap_us:
            well_after = await self._well_after(entry, now)
            if well_after is not None and entry.gone_at is not None and well_after >= entry.gone_at + gap_us:
                self._forgotten(entry)
                early = rough_duration(safe_until(entry.job, self._agreed_us(entry.job)) - entry.gone_at)
                return Lost(FailureClass.LOST, f"the service forgot the job {early} or more before its time")
            entry.gone_at = well_after if entry.gone_at is None or well_after is None else entry.gone_at
        ask_at = (entry.gone_at or now) + gap_us
        return ask_at if ask_at > now else now + gap_us

    def is_known_to_go(self, job: Job, now: int) -> bool:
        """Whether its result may be gone by now since the service is known to keep results for less than agreed."""
        believed_us = self._endpoint.estimates.retention_of(job)
        return safe_until(job, believed_us) <= now < safe_until(job, self._agreed_us(job))

    def _since_finish_us(self, entry: Entry, now: int) -> int:
        """How long ago the job has probably finished; negative where it probably has not."""
        return now - max(entry.job.unfinished_at or 0, (entry.job.sent_at or 0) + self._plan.times.takes_us(entry))

    def _forgotten(self, entry: Entry) -> None:
        """The job is given up: if it was missing in its time, the service has forgotten it.

        Or it was never executed: that is more likely where webhooks arrive, it had none, and nobody has ever seen it.
        """
        job = entry.job
        is_known = (job.unfinished_at or 0) > (job.sent_at or 0) or not self._plan.times.webhooks
        if entry.gone_after_us is not None and is_known:
            self._endpoint.estimates.result_was_gone(job, entry.gone_after_us)

    async def _well_after(self, entry: Entry, now: int) -> int | None:
        """The latest 404 of the job, at `now` or before, after which the endpoint was well; None where it was not.

        Where `/health` does not say so, the service may have no such thing: that it has answered for another job since
        the 404 before this one shows it as well.
        """
        missed_at, entry.missed_at = entry.missed_at, now
        if await self.is_well(now):
            return now
        answered_at = self._endpoint.health.missing_jobs.answered_at
        return missed_at if missed_at is not None and answered_at > missed_at else None

    async def _are_many_missing(self, now: int) -> bool:
        """Whether the endpoint is to blame; found out once a second, since it may take a look at the ledger."""
        if now >= self._judged_at + SECOND_US:
            self._many_missing = await self._endpoint.health.missing_jobs.are_many(
                now,
                outstanding=len(self._plan),
                sent_since=lambda first: self._ledger.jobs.submissions.accepted_since(
                    endpoint_id=self._endpoint.id, first=first
                ),
            )
            self._judged_at = now  # not before: who asks meanwhile is not to go by what was true a second ago
        return self._many_missing

    async def is_well(self, since: int) -> bool:
        """Whether the endpoint has answered `/health` since then; whoever waits in line shares the answer."""
        permit = await self._endpoint.api.health_permit()
        if permit is None:
            return self._well_at >= since
        if self._well_at >= since:
            permit.give_back()
            return True
        try:
            answer = await self._endpoint.api.health(permit)
        except (NotSent, Unanswered):
            return False
        if health_of(answer.status, answer.body) is None:
            return False
        self._well_at = answer.sent_at
        return True

    def _agreed_us(self, job: Job) -> int:
        return self._endpoint.estimates.agreed_of(job)
