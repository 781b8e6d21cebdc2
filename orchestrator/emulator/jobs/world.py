"""The service's jobs, as a pure world: every verb takes `now`, nothing waits, nothing is asked of the system.

Whoever drives it calls a verb, then `step(now)`, and again at `next_due()` at the latest. Here are the verbs of those
who send jobs; those of workers are in `executions`, and `job_table` has what becomes of a job.
"""

import random
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Protocol

import msgspec

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.faults import Fault, FaultDice
from orchestrator.emulator.contract.ids_and_times import job_id
from orchestrator.emulator.jobs.endpoint_table import EndpointTable
from orchestrator.emulator.jobs.executions import Executions
from orchestrator.emulator.jobs.fleet import FleetCounts
from orchestrator.emulator.jobs.job_table import JobObserver, JobTable
from orchestrator.emulator.jobs.jobs import (
    FINISHED,
    RETRYABLE,
    ExecutionKey,
    RunBody,
    ServiceJob,
    ServiceRecord,
    ServiceStatus,
    WorkerResult,
)
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.emulator.jobs.streams import StreamedChunk
from orchestrator.emulator.jobs.webhook_schedule import WebhookCall
from orchestrator.units import SECOND_US

REQUESTS_MAX = 100
"""The most jobs that one `/requests` lists."""

NO_RESULT = WorkerResult()


class JobTotals(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The job figures of `/health`: two of now, three since the beginning."""

    completed: int
    failed: int
    in_progress: int
    in_queue: int
    retried: int


class HealthReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `/health` (as observed)."""

    jobs: JobTotals
    workers: FleetCounts


class MetricsReply(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to `/metrics`: what the official tools read of it (as observed)."""

    workers: FleetCounts
    ready_workers: tuple[str, ...]


class PurgeReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `/purge-queue`."""

    removed: int
    status: str = "completed"


class RequestsReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `/requests`; its form is our choice (contract: not shown)."""

    requests: tuple[ServiceRecord, ...]


class StreamReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `/stream`: the chunks since the previous call (as observed)."""

    status: ServiceStatus
    stream: tuple[StreamedChunk, ...]


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """What `step` hands to the world outside."""

    webhooks: tuple[WebhookCall, ...]
    stopped: tuple[ExecutionKey, ...]
    """Executions whose result nobody waits for any more; their workers are to stop."""
    queued: tuple[str, ...]
    """Endpoints where a job came back by itself, or a worker has just become ready: the one may take the other."""
    changed: tuple[str, ...]
    """Jobs that somebody watches, and that have ended, vanished or put out a chunk."""
    started: tuple[tuple[str, str], ...]
    """Workers (endpoint, id) that have just been started."""
    stopping: tuple[tuple[str, str], ...]
    """Workers (endpoint, id) that are to go: idle for too long, above the maximum, or asking for it."""


class WorldPart(Protocol):
    """Something of the service beside its queues for which time passes, too."""

    def step(self, now: int) -> Iterable[str]:
        """Let everything happen that is due by itself; the endpoints where jobs have been queued by that."""
        ...

    def next_due(self) -> int | None:
        """As of the world."""
        ...


class World:
    """Everything that the service knows.

    `scaling` tells how an endpoint scales that nobody has deployed, and whether its workers announce themselves. A job
    is kept for `retention_us` after its end, that of a `/runsync` for `sync_retention_us`. `silence_us` is how long a
    worker that speaks for itself may not speak of a job that it holds. A job that fails is executed again up to
    `service_retries` times before it is said to.
    """

    def __init__(
        self,
        *,
        scaling: Callable[[str], tuple[Scaling, bool]],
        retention_us: int,
        dice: FaultDice,
        rng: random.Random,
        sync_retention_us: int = 60 * SECOND_US,
        silence_us: int = 40 * SECOND_US,
        service_retries: int = 0,
        observer: JobObserver | None = None,
    ) -> None:
        self._retention_us = retention_us
        self._sync_retention_us = sync_retention_us
        self.dice = dice
        self.rng = rng
        self.endpoints = EndpointTable(scaling, rng=rng, guest_us=2 * silence_us)
        self.table = JobTable(self.endpoints, dice, observer or JobObserver())
        self.executions = Executions(
            self.table, self.endpoints, dice, silence_us=silence_us, service_retries=service_retries
        )
        """What workers do."""

        self.parts: list[WorldPart] = []
        """What goes along with its time."""

    def close(self, endpoint: str) -> None:
        """Forget an endpoint and all its jobs; those in progress are stopped."""
        self.forget_all(endpoint, 0)  # of no account: its workers go, too
        self.endpoints.close(endpoint)

    def forget_all(self, endpoint: str, now: int) -> None:
        """Forget all jobs of an endpoint, in whatever state; it goes on with those that come."""
        for job in [job for job in self.table.by_id.values() if job.endpoint == endpoint]:
            self.table.release(job, now)
            self.table.forget(job)

    def submit(self, endpoint: str, submission: RunBody, now: int) -> ServiceRecord:
        """Accept a job: `{"id","status":"IN_QUEUE"}`."""
        timeout_us = submission.execution_timeout_us or self.endpoints.state(endpoint).execution_timeout_us
        job = ServiceJob(
            id=job_id(self.rng, is_sync=submission.is_sync),
            endpoint=endpoint,
            input=submission.input,
            webhook=submission.webhook,
            s3_config=submission.s3_config,
            execution_timeout_us=timeout_us,
            expires_at=now + submission.ttl_us,
            queued_at=now,
            retention_us=self.kept_us(self._sync_retention_us if submission.is_sync else self._retention_us),
            low_priority=submission.low_priority,
        )
        is_lost = self.dice.strikes(Fault.LOST_JOB)
        self.table.observer.accepted(job, is_lost=is_lost)
        if not is_lost:
            self.table.add(job, is_shelved=self.dice.strikes(Fault.STUCK_IN_QUEUE))
        return ServiceRecord(id=job.id, status=job.status)

    def status(self, endpoint: str, job_id: str, now: int, ttl_us: int | None = None) -> ServiceRecord:
        """The job's record. Raises Refusal 404 for a job that is unknown, expired or no longer retained.

        `ttl_us` lets a finished job go sooner: that long from now (as observed, `/status?ttl=`).
        """
        if self.dice.strikes(Fault.AMNESIA):
            self.forget_all(endpoint, now)
        job = self.table.find(endpoint, job_id, now)
        if ttl_us is not None and job.status in FINISHED:
            job.expires_at = min(job.expires_at, now + ttl_us)
            self.table.set_alarm(job)
        if job.status in FINISHED:
            job.is_read = True
        return job.record()

    def stream(self, endpoint: str, job_id: str, now: int) -> StreamReply:
        """The chunks that nobody has fetched yet; they are given out once. Raises Refusal 404."""
        job = self.table.find(endpoint, job_id, now)
        return StreamReply(status=job.status, stream=self.table.streams.drain(job_id))

    def cancel(self, endpoint: str, job_id: str, now: int) -> ServiceRecord:
        """Stop a job that is queued or in progress; a finished one stays as it is. Raises Refusal 404."""
        job = self.table.find(endpoint, job_id, now)
        if job.status not in FINISHED:
            self.table.release(job, now)
            self.table.finish(job, ServiceStatus.CANCELLED, now, NO_RESULT)
        return ServiceRecord(id=job.id, status=job.status)

    def retry(self, endpoint: str, job_id: str, now: int) -> ServiceRecord:
        """Queue a failed or timed-out job again, under its id. Raises Refusal 404, or 400 in any other state."""
        job = self.table.find(endpoint, job_id, now)
        if job.status not in RETRYABLE:
            raise ServiceRefusal(400, f"only a failed or timed-out job can be retried; this one is {job.status}")
        job.requeue(now)
        self.table.streams.drop(job_id)
        state = self.endpoints.state(endpoint)
        state.push(job)
        state.retried += 1
        self.table.set_alarm(job)
        return ServiceRecord(id=job.id, status=job.status)

    def purge(self, endpoint: str) -> PurgeReply:
        """Forget every queued job; those in progress go on (contract, `/purge-queue`)."""
        jobs = self.endpoints.state(endpoint).clear()
        for job in jobs:
            self.table.forget(job)
        return PurgeReply(removed=len(jobs))

    def health(self, endpoint: str) -> HealthReply:
        state = self.endpoints.state(endpoint)
        return HealthReply(
            jobs=JobTotals(
                completed=state.completed,
                failed=state.failed,
                in_progress=state.in_progress,
                in_queue=state.in_queue,
                retried=state.retried,
            ),
            workers=state.fleet.counts(),
        )

    def metrics(self, endpoint: str) -> MetricsReply:
        fleet = self.endpoints.fleet(endpoint)
        ready = tuple(worker.id for worker in fleet.views() if worker.is_ready)
        return MetricsReply(workers=fleet.counts(), ready_workers=ready)

    def requests(self, endpoint: str) -> RequestsReply:
        """The endpoint's latest jobs, newest first, without their payloads."""
        jobs = (job for job in self.table.newest_first() if job.endpoint == endpoint)
        return RequestsReply(
            requests=tuple(
                msgspec.structs.replace(job.record(), output=None, error=None) for job in islice(jobs, REQUESTS_MAX)
            )
        )

    def step(self, now: int) -> Due:
        """Let everything happen that is due by itself, and hand over what the world outside has to do."""
        self.dice.pass_to(now)
        self.table.ring_alarms(now)
        queued = [endpoint for part in self.parts for endpoint in part.step(now)]
        workers = self.endpoints.adjust(now)
        webhooks, stopped, requeued, changed = self.table.pop_news(now)
        return Due(
            webhooks=webhooks,
            stopped=tuple(stopped),
            queued=(*requeued, *queued, *workers.readied),
            changed=tuple(changed),
            started=workers.started,
            stopping=self.endpoints.pop_stopping(),
        )

    def next_due(self) -> int | None:
        """When `step` must be called next (µs): 0 for at once, None if nothing is ahead."""
        parts = (part.next_due() for part in self.parts)
        times = (self.table.next_due(), self.endpoints.next_due(), self.dice.next_at(), *parts)
        return min((at for at in times if at is not None), default=None)

    def kept_us(self, retention_us: int) -> int:
        """How long is really kept what is to be kept for so long once it has ended."""
        short = self.dice.strikes(Fault.SHORT_RETENTION)
        return round(retention_us * self.dice.faults.kept_share) if short else retention_us
