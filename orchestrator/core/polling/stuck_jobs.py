"""Which outstanding jobs do not come to an end, by what `/status` and `/health` have shown.

A job in progress is stuck once it has run far longer than nearly all others did, and one in the queue once it has
waited so while workers are idle. Both are suspicions: long jobs among short ones look the same. So they are reported,
and acted upon only where somebody asked for that.
"""

from typing import Final

import msgspec

from orchestrator.core.jobs.job import Job
from orchestrator.core.polling.latency import DurationHistogram
from orchestrator.units import SECOND_US

FACTOR: Final = 3
"""A job is stuck after so many times what 99.9 % of the jobs took."""

OBSERVED_MIN: Final = 100
"""So many jobs have to have finished before their times mean anything."""

RUNNING_US_MIN: Final = 60 * SECOND_US
WAITING_US_MIN: Final = 120 * SECOND_US
"""Nothing is stuck before that, however quick the others were."""

WAITING_US_UNLEARNED: Final = 300 * SECOND_US
"""How long a job may wait beside idle workers while nothing is known of others."""

QUEUED: Final = "IN_QUEUE"


def running_us_max(learned: DurationHistogram, execution_timeout_us: int) -> int:
    """How long an execution may take; while little is known, twice its timeout, which the service should have kept."""
    p999_us = learned.p999_us
    if p999_us is None or learned.weight < OBSERVED_MIN:
        return 2 * execution_timeout_us
    return max(RUNNING_US_MIN, FACTOR * p999_us)


def waiting_us_max(learned: DurationHistogram) -> int:
    """How long a job may be in the queue while workers are idle."""
    p999_us = learned.p999_us
    if p999_us is None or learned.weight < OBSERVED_MIN:
        return WAITING_US_UNLEARNED
    return max(WAITING_US_MIN, FACTOR * p999_us)


class Suspect(msgspec.Struct, frozen=True, gc=False):
    """A job that was seen unfinished: in progress since `since` at the latest, or in the queue since it was sent."""

    job: int
    run: int
    since: int
    policy: bytes | None = None
    escalated: bytes | None = None
    """What the job was given of its own (`core.jobs.job.Job`): its executions may take longer than others."""

    @property
    def has_own(self) -> bool:
        """Whether its time-out may be another than its run's."""
        return self.policy is not None or self.escalated is not None


class StuckDetector:
    """What was last seen of an endpoint's outstanding jobs: of those in progress, and of those that wait for long."""

    def __init__(self) -> None:
        self._running: dict[int, Suspect] = {}
        self._waiting: dict[int, Suspect] = {}
        self._moved: dict[int, int] = {}

    def moved(self, job: Job, at: int) -> None:
        """`job`, which is resumable, had something new to report at `at`."""
        self._moved[job.id] = at

    def observe(self, job: Job, status: str, at: int) -> None:
        """A question that was sent at `at` found `job` in `status`, unfinished."""
        if status != QUEUED:
            self._waiting.pop(job.id, None)
            self._running.setdefault(job.id, Suspect(job.id, job.run, at, job.policy, job.escalated))
            return
        self._running.pop(job.id, None)  # sent to a worker again
        sent_at = at if job.sent_at is None else job.sent_at
        if at - sent_at >= WAITING_US_MIN:  # the others are too many to be remembered
            self._waiting[job.id] = Suspect(job.id, job.run, sent_at)

    def forget(self, job: int) -> None:
        """`job` is no longer outstanding."""
        if self._running:
            self._running.pop(job, None)
        if self._waiting:
            self._waiting.pop(job, None)
        if self._moved:
            self._moved.pop(job, None)

    def running(self, now: int, longer_than_us: int) -> list[Suspect]:
        """The jobs in progress for longer than that, the longest first."""
        return _since(self._running, now - longer_than_us)

    def stalled(self, run: int, now: int, longer_than_us: int) -> list[Suspect]:
        """The jobs of `run` in progress that have had nothing new to report for longer than that, the longest first."""
        since = {each.job: self._moved.get(each.job, each.since) for each in self._running.values() if each.run == run}
        return _since({job: Suspect(job, run, at) for job, at in since.items()}, now - longer_than_us)

    def waiting(self, now: int, longer_than_us: int) -> list[Suspect]:
        """The jobs in the queue for longer than that, the longest first."""
        return _since(self._waiting, now - longer_than_us)


def _since(suspects: dict[int, Suspect], before: int) -> list[Suspect]:
    return sorted((each for each in suspects.values() if each.since < before), key=lambda each: each.since)
