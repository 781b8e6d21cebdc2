"""All jobs of the emulated service, and what becomes of each: its end, another execution, its being forgotten.

Nothing scans all jobs: each has one alarm (see `Timers`), and finished, expired and purged jobs are forgotten.
"""

import heapq
from collections.abc import Iterator

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.faults import FaultDice
from orchestrator.emulator.jobs.endpoint_table import EndpointTable
from orchestrator.emulator.jobs.false_answers import FalseAnswers
from orchestrator.emulator.jobs.jobs import (
    FINISHED,
    REDISPATCHES_MAX,
    RETRYABLE,
    ExecutionKey,
    ServiceJob,
    ServiceStatus,
    WorkerResult,
)
from orchestrator.emulator.jobs.streams import Streams
from orchestrator.emulator.jobs.webhook_schedule import WebhookCall, WebhookSchedule

KILLED = "the worker was taken away"


class JobObserver:
    """Hears what becomes of jobs. A subclass overrides what it wants to hear."""

    def accepted(self, job: ServiceJob, *, is_lost: bool) -> None:
        """The sender was told that the job is queued. `is_lost`: by a fault the service has forgotten it at once."""

    def started(self, job: ServiceJob, *, is_silent: bool) -> None:
        """A worker has begun with the job. `is_silent`: by a fault it will never report."""

    def finished(self, job: ServiceJob, result: WorkerResult, now: int) -> None:
        """The job has come to an end, which `/retry` may undo."""

    def forgotten(self, job: ServiceJob) -> None:
        """The service knows the job no more."""


STALE_MIN = 1_000
"""The heap is not swept for fewer outdated entries than this, nor before they are the larger half."""


class Timers:
    """One alarm per key, earliest first; setting it again moves it. Every operation is O(log n), amortised.

    A heap whose outdated entries are skipped when they come up. A job's first alarm is its TTL, a day away, and most
    jobs are gone within the hour: without the sweep below the heap would hold a day of them.
    """

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._at)

    def set(self, key: str, at: int) -> None:
        """Ring for `key` at `at` (µs), and no longer at the time set before."""
        if self._at.get(key) != at:
            self._at[key] = at
            heapq.heappush(self._heap, (at, key))
            self._sweep()

    def drop(self, key: str) -> None:
        """Do not ring for `key`; unknown keys are fine."""
        self._at.pop(key, None)

    def next_at(self) -> int | None:
        """When the next alarm rings (µs), or None without any."""
        while self._heap:
            at, key = self._heap[0]
            if self._at.get(key) == at:
                return at
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: int) -> str | None:
        """One key whose alarm is due, earliest first, its alarm taken off; None if none is due."""
        at = self.next_at()
        if at is None or at > now:
            return None
        _, key = heapq.heappop(self._heap)
        del self._at[key]
        return key

    def _sweep(self) -> None:
        stale = len(self._heap) - len(self._at)
        if stale > STALE_MIN and stale > len(self._at):
            self._heap = [(at, key) for key, at in self._at.items()]
            heapq.heapify(self._heap)


class JobTable:
    """The jobs by id, oldest first."""

    def __init__(self, endpoints: EndpointTable, dice: FaultDice, observer: JobObserver) -> None:
        self.by_id: dict[str, ServiceJob] = {}
        self.timers = Timers()
        self.streams = Streams()
        self.observer = observer
        self.false_answers = FalseAnswers(self.by_id, dice)
        self._endpoints = endpoints
        self._webhooks = WebhookSchedule(dice, self.false_answers)
        self._stopped: list[ExecutionKey] = []
        self._requeued: list[str] = []
        self.ended_in_batches: list[ServiceJob] = []
        """Requests of batches that have ended, for whoever keeps the batches to take."""

        self._watched: set[str] = set()
        self._changed: list[str] = []

    def add(self, job: ServiceJob, *, is_shelved: bool) -> None:
        """A new job stands in the queue of its endpoint. `is_shelved`: no worker will ever get it."""
        self.by_id[job.id] = job
        state = self._endpoints.state(job.endpoint)
        (state.shelve if is_shelved else state.push)(job)
        self.set_alarm(job)

    def find(self, endpoint: str, job_id: str, now: int) -> ServiceJob:
        """Raises ServiceRefusal 404 for a job that is unknown, expired or no longer retained."""
        job = self.by_id.get(job_id)
        if job is None or job.endpoint != endpoint:
            raise ServiceRefusal(404, "job not found")
        if now >= job.due_at():
            self.timers.drop(job_id)
            self._on_alarm(job, now)
            return self.find(endpoint, job_id, now)
        return job

    def find_executed(self, job_id: str, number: int, now: int) -> ServiceJob | None:
        """The job, if this execution of it is the one that everybody waits for, or one of two."""
        job = self.by_id.get(job_id)
        if job is None or job.status in FINISHED or not (job.is_shared or job.is_executed_as(number)):
            return None
        return None if now >= job.due_at() else job  # its time-out is due and only `ring_alarms` has not come round yet

    def newest_first(self) -> Iterator[ServiceJob]:
        """All jobs, to be looked at only."""
        return reversed(self.by_id.values())

    def finish(self, job: ServiceJob, status: ServiceStatus, now: int, result: WorkerResult) -> None:
        """The job comes to this end; whoever asked for it is told by a webhook."""
        job.finish(status, now, result)
        state = self._endpoints.state(job.endpoint)
        if status is ServiceStatus.COMPLETED:
            state.completed += 1
        elif status in RETRYABLE:
            state.failed += 1
        self.set_alarm(job)
        self._webhooks.job_ended(job, now)
        self.note_change(job.id)
        if job.batch_id is not None:
            self.ended_in_batches.append(job)
        self.observer.finished(job, result, now)

    def dispatch_again(self, job: ServiceJob) -> None:
        """To the head of the queue, so that its `delayTime` shows the silence and little else."""
        job.dispatch_again()
        self.streams.drop(job.id)
        self._endpoints.state(job.endpoint).retried += 1
        self.queue_again(job)

    def queue_again(self, job: ServiceJob) -> None:
        """A job that a worker had stands at the head of the queue."""
        self._endpoints.state(job.endpoint).push(job, first=True)
        self._requeued.append(job.endpoint)
        self.set_alarm(job)

    def release(self, job: ServiceJob, now: int) -> None:
        """Take the job from its queue or its worker, who is to stop."""
        if job.status is ServiceStatus.IN_PROGRESS:
            self.leave_worker(job, now)
            self._stopped.append(ExecutionKey(job.id, job.executions))
        else:
            self._endpoints.state(job.endpoint).drop(job.id)

    def leave_worker(self, job: ServiceJob, now: int) -> None:
        """Its worker is free for another job."""
        state = self._endpoints.state(job.endpoint)
        state.in_progress -= 1
        state.executed_us += now - (job.started_at or now)
        if job.worker_id is not None:
            state.fleet.ended(job.worker_id, now)

    def forget(self, job: ServiceJob) -> None:
        """The job, which is in no queue and has no worker, is known no more."""
        del self.by_id[job.id]
        self.timers.drop(job.id)
        self.streams.drop(job.id)
        self.note_change(job.id)
        self.observer.forgotten(job)

    def set_alarm(self, job: ServiceJob) -> None:
        """To be called whenever one of the job's times has changed."""
        self.timers.set(job.id, job.due_at())

    def ring_alarms(self, now: int) -> None:
        """Let everything happen to jobs that is due by itself."""
        while (job_id := self.timers.pop_due(now)) is not None:
            self._on_alarm(self.by_id[job_id], now)

    def _on_alarm(self, job: ServiceJob, now: int) -> None:
        silent = job.silent_until is not None and now >= job.silent_until
        is_killed = job.killed_at is not None and now >= job.killed_at
        self.release(job, now)
        if now >= job.expires_at or job.finished_at is not None:
            if job.status is ServiceStatus.COMPLETED and not job.is_read:
                self._endpoints.state(job.endpoint).unread += 1
            self.forget(job)
        elif is_killed:
            self.finish(job, ServiceStatus.FAILED, now, WorkerResult(error=KILLED))
        elif not silent:
            self.finish(
                job, ServiceStatus.TIMED_OUT, now, WorkerResult(error="job timed out: executionTimeout reached")
            )
        elif job.retries < REDISPATCHES_MAX:
            self.dispatch_again(job)
        else:
            error = f"job timed out after {job.retries} retries"
            self.finish(job, ServiceStatus.FAILED, now, WorkerResult(error=error))

    def watch(self, job_id: str) -> None:
        """Note changes of the job, until `unwatch`."""
        self._watched.add(job_id)

    def unwatch(self, job_id: str) -> None:
        """Note them no more."""
        self._watched.discard(job_id)

    def note_change(self, job_id: str) -> None:
        """The job has ended, vanished or put out a chunk."""
        if job_id in self._watched:
            self._changed.append(job_id)

    def pop_news(self, now: int) -> tuple[tuple[WebhookCall, ...], list[ExecutionKey], list[str], list[str]]:
        """Webhooks, stopped executions, endpoints with requeued jobs and changed jobs, each given out once."""
        news = self._webhooks.pop_due(now), self._stopped, self._requeued, self._changed
        self._stopped, self._requeued, self._changed = [], [], []
        return news

    def next_due(self) -> int | None:
        """When something happens by itself (µs): 0 for at once, None if nothing is ahead."""
        if self._stopped or self._requeued or self._changed:
            return 0
        times = (self.timers.next_at(), self._webhooks.next_at())
        return min((at for at in times if at is not None), default=None)
