"""The jobs of one endpoint that are at the service, and the plan by which they are asked for."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from orchestrator.clock import Clock
from orchestrator.core.jobs.job import Job, sure_of
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.reasons import ReasonCode, doubt_of_retry
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.polling.poll_plan import PollPlan
from orchestrator.core.polling.poll_plan_entry import Entry
from orchestrator.core.polling.remote_queue import begun_at_of
from orchestrator.core.polling.stuck_jobs import QUEUED, StuckDetector
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.remote_ids import RemoteIds
from orchestrator.engine.endpoint.estimates import EndpointEstimates
from orchestrator.engine.runtime.poll_loop import Wakeup
from orchestrator.settings.run_settings import RunSettings

LATE_US: Final = 300_000_000
"""A job whose question is overdue by this, and past its deadline too, has been forgotten."""


class OutstandingJobs:
    """Of the endpoint that has this number in the ledger. Times are microseconds UTC."""

    def __init__(
        self,
        endpoint: int,
        clock: Clock,
        settings_of: Mapping[int, RunSettings],
        *,
        estimates: EndpointEstimates,
        remote_ids: RemoteIds,
        stuck_detector: StuckDetector,
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._settings_of = settings_of
        self._estimates = estimates
        self._remote_ids = remote_ids
        self._stuck_detector = stuck_detector
        self.plan = PollPlan(
            learned=estimates.durations.whole,
            execution=estimates.durations.execution,
            retention_of=estimates.retention_of,
            per_s=estimates.status_per_s,
            webhooks=estimates.webhook_health.healthy,
            watch_of=self._watch_us,
        )
        self.wakeup = Wakeup()
        """Wakes whoever asks for them."""

        self.asked_at = 0
        """When he asks next, if nobody wakes him."""

        self.carried = 0
        """How many more are in batches, or travel with others, and are not asked for one by one."""

        self.brief: set[int] = set()
        """The jobs whose results are kept for less than was agreed for their run."""

        self.reported: dict[int, tuple[int | None, int]] = {}
        """By job: its submission, and the `seq` of the latest report of it that was written; -1 for none."""

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def number(self) -> int:
        """All of them, also those that are not asked for one by one."""
        return len(self.plan) + self.carried

    def is_resumable(self, job: Job) -> bool:
        """Whether the latest submission of `job` is a segment: others were sent before its run became resumable."""
        return job.segment > 0 and self._settings_of[job.run].resumable

    def _watch_us(self, job: Job) -> int | None:
        """How often `job` is to be asked how far it is; 0 for not at all, None where it is not resumable."""
        return self._estimates.here_us(self._settings_of[job.run].progress_every_us) if self.is_resumable(job) else None

    def adopt(self, jobs: Iterable[Job]) -> None:
        """Takes over outstanding jobs of an earlier process, which are asked for at once."""
        now = self._clock.now()
        for found in jobs:
            job, is_unsure = sure_of(found, now)
            if job.remote_id is not None:
                self._remote_ids.give(job.remote_id, job.id)
            # Whether a /retry was answered, the earlier process knew: the ledger is asked should it fail.
            doubt = None if job.is_first_execution else ReasonCode.RETRY_UNANSWERED
            self._note_brief(job)
            self.plan.add(job, at_once=True, retry_in_doubt=doubt, is_unsure=is_unsure)
        self.wakeup.wake()

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """Takes in the steps of a transaction."""
        left = False
        for step in taken:
            if step.before.endpoint != self._endpoint:  # whatever a step gives: what it leaves was here
                continue
            if step.after.is_carried and step.before.is_carried:  # somebody else finds out
                self.carried += (step.after.state is State.OUTSTANDING) - (step.before.state is State.OUTSTANDING)
                continue
            if step.after.state is State.OUTSTANDING:
                doubt = doubt_of_retry(step.reason)
                job, is_unsure = sure_of(step.after, self._clock.now())
                self._note_brief(job)
                at_once = is_unsure or step.reason in (ReasonCode.RETRY_REFUSED, ReasonCode.RUNSYNC_ENDED)
                self.planned(self.plan.add(job, at_once=at_once, retry_in_doubt=doubt, is_unsure=is_unsure))
            elif step.before.state is State.OUTSTANDING:
                self.forget(step.after.id)
                left = True
        if left and self.plan.has_news:
            self.wakeup.wake()

    def _note_brief(self, job: Job) -> None:
        if job.retention_us is not None:
            self.brief.add(job.id)

    def planned(self, entry: Entry) -> None:
        """Wakes whoever asks if he would sleep too long for `entry`."""
        if entry.ask_at is not None and entry.ask_at < self.asked_at:
            self.wakeup.wake()

    def refresh(self, entry: Entry, job: Job, record: Record, unfinished_at: int | None) -> None:
        """The job of `entry`, which is `job` by now, is not over, as `record` says; it was not at that time."""
        is_queued = record.status == QUEUED
        begun_at = None if is_queued or unfinished_at is None else begun_at_of(job, record, unfinished_at)
        self.plan.refresh(entry, job, is_queued=is_queued, begun_at=begun_at)
        self.planned(entry)

    def forget(self, job: int) -> None:
        """`job` is no longer outstanding."""
        self.plan.drop(job)
        self.brief.discard(job)
        if self.reported:
            self.reported.pop(job, None)
        self._stuck_detector.forget(job)

    def hint(self, job: int) -> None:
        """Something was heard about `job` that has to be asked for."""
        if self.plan.hint(job, self._clock.now()):
            self.wakeup.wake()

    def revive(self) -> int:
        """Plans anew, at once, whatever should have been asked for long ago; returns how many jobs that are."""
        now = self._clock.now()
        late = self.plan.overdue(now - LATE_US)
        for entry in late:
            self.plan.schedule(entry, now)
        if late:
            self.wakeup.wake()
        return len(late)
