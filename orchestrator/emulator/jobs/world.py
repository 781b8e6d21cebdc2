"""The service's jobs, as a pure world: every verb takes `now`, nothing waits, nothing is asked of the system.

Whoever drives it calls a verb, then `step(now)`, and again at `next_due()` at the latest. Nothing scans all jobs:
each has one alarm (see `timers`), and finished, expired and purged jobs are forgotten.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import msgspec

from orchestrator.emulator.contract import ids
from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.faults import Fault, FaultDice
from orchestrator.emulator.jobs.due import Due
from orchestrator.emulator.jobs.endpoint_state import EXECUTION_TIMEOUT_US_DEFAULT, EndpointState
from orchestrator.emulator.jobs.false_answers import FalseAnswers
from orchestrator.emulator.jobs.fleet import Fleet, Scaling, fixed
from orchestrator.emulator.jobs.jobs import (
    FINISHED,
    REDISPATCHES_MAX,
    RETRYABLE,
    ExecutionKey,
    JobExecution,
    RunBody,
    ServiceJob,
    ServiceRecord,
    ServiceStatus,
    WorkerResult,
)
from orchestrator.emulator.jobs.replies import (
    HealthReply,
    JobTotals,
    MetricsReply,
    PurgeReply,
    RequestsReply,
    StreamReply,
)
from orchestrator.emulator.jobs.streams import Streams
from orchestrator.emulator.jobs.tally import Tally
from orchestrator.emulator.jobs.timers import Timers
from orchestrator.emulator.jobs.webhook_schedule import WebhookSchedule
from orchestrator.units import SECOND_US

REQUESTS_MAX = 100
"""The most jobs that one `/requests` lists."""

NO_RESULT = WorkerResult()
KILLED = "the worker was taken away"


class World:
    """Everything that the service knows.

    `scaling` tells how an endpoint scales and whether its workers announce themselves (see `deploy`); without it, each
    has a fixed number of `workers`. A job is kept for `retention_us` after its
    end, that of a `/runsync` for `sync_retention_us`. `silence_us` is how long a worker that speaks for itself may not
    speak of a job that it holds. A job that fails is executed again up to `service_retries` times before it is said to.
    """

    def __init__(
        self,
        *,
        workers: int,
        retention_us: int,
        dice: FaultDice,
        rng: random.Random,
        sync_retention_us: int = 60 * SECOND_US,
        silence_us: int = 40 * SECOND_US,
        service_retries: int = 0,
        tally: Tally | None = None,
        scaling: Callable[[str], tuple[Scaling, bool]] | None = None,
    ) -> None:
        self._scaling = scaling or (lambda _endpoint: (fixed(workers), False))
        self._retention_us = retention_us
        self._sync_retention_us = sync_retention_us
        self._silence_us = silence_us
        self._service_retries = service_retries
        self._dice = dice
        self._rng = rng
        self._tally = tally
        self._endpoints: dict[str, EndpointState] = {}
        self._jobs: dict[str, ServiceJob] = {}
        self._timers = Timers()
        self._streams = Streams()
        self.false_answers = FalseAnswers(self._jobs, dice)
        self._announcements = WebhookSchedule(dice, self.false_answers)
        self._stopped: list[ExecutionKey] = []
        self._requeued: list[str] = []
        self._stopping: list[tuple[str, str]] = []
        self.late_progress: Counter[str] = Counter()
        """By endpoint: how often a worker showed how far it is when nobody waited for that any more."""

        self._watched: set[str] = set()
        self._changed: list[str] = []

    def __len__(self) -> int:
        """How many jobs are known."""
        return len(self._jobs)

    def deploy(
        self, endpoint: str, scaling: Scaling, *, announced: bool, execution_timeout_us: int | None = None
    ) -> None:
        """From now on `endpoint` scales like this. With `announced`, its workers say themselves when they are ready.

        `execution_timeout_us` is for jobs from now on whose policy does not say; None: the contract's default.
        """
        state = self._endpoints.get(endpoint)
        if state is None:
            fleet = Fleet(
                scaling, new_id=partial(ids.worker_id, self._rng), announced=announced, guest_us=2 * self._silence_us
            )
            state = self._endpoints[endpoint] = EndpointState(fleet)
        else:
            state.fleet.scale(scaling)
        state.execution_timeout_us = execution_timeout_us or EXECUTION_TIMEOUT_US_DEFAULT

    def close(self, endpoint: str) -> None:
        """Forget an endpoint and all its jobs; those in progress are stopped."""
        self.forget_all(endpoint, 0)  # of no account: its workers go, too
        state = self._endpoints.pop(endpoint, None)
        if state is not None:
            self._stopping += [(endpoint, worker_id) for worker_id in state.fleet.own()]

    def forget_all(self, endpoint: str, now: int) -> None:
        """Forget all jobs of an endpoint, in whatever state; it goes on with those that come."""
        for job in [job for job in self._jobs.values() if job.endpoint == endpoint]:
            self._leave_worker_or_queue(job, now)
            self._forget(job)

    def submit(self, endpoint: str, submission: RunBody, now: int) -> ServiceRecord:
        """Accept a job: `{"id","status":"IN_QUEUE"}`."""
        timeout_us = submission.execution_timeout_us or self._endpoint(endpoint).execution_timeout_us
        job = ServiceJob(
            id=ids.job_id(self._rng, is_sync=submission.is_sync),
            endpoint=endpoint,
            input=submission.input,
            webhook=submission.webhook,
            s3_config=submission.s3_config,
            execution_timeout_us=timeout_us,
            expires_at=now + submission.ttl_us,
            queued_at=now,
            retention_us=self._kept_us(self._sync_retention_us if submission.is_sync else self._retention_us),
            low_priority=submission.low_priority,
        )
        if self._tally is not None:
            self._tally.note_accepted(job.input)
        if not self._dice.strikes(Fault.LOST_JOB):
            self._jobs[job.id] = job
            state = self._endpoint(endpoint)
            (state.shelve if self._dice.strikes(Fault.STUCK_IN_QUEUE) else state.push)(job)
            self._set_alarm(job)
        return ServiceRecord(id=job.id, status=job.status)

    def status(self, endpoint: str, job_id: str, now: int, ttl_us: int | None = None) -> ServiceRecord:
        """The job's record. Raises Refusal 404 for a job that is unknown, expired or no longer retained.

        `ttl_us` lets a finished job go sooner: that long from now (as observed, `/status?ttl=`).
        """
        if self._dice.strikes(Fault.AMNESIA):
            self.forget_all(endpoint, now)
        job = self._find(endpoint, job_id, now)
        if ttl_us is not None and job.status in FINISHED:
            job.expires_at = min(job.expires_at, now + ttl_us)
            self._set_alarm(job)
        if job.status in FINISHED:
            job.is_read = True
        return job.record()

    def jobs(self) -> Iterator[ServiceJob]:
        """All jobs that are known, latest first; to be looked at only."""
        return reversed(self._jobs.values())

    def endpoints(self) -> tuple[str, ...]:
        """The endpoints that were ever spoken of."""
        return tuple(self._endpoints)

    def stream(self, endpoint: str, job_id: str, now: int) -> StreamReply:
        """The chunks that nobody has fetched yet; they are given out once. Raises Refusal 404."""
        job = self._find(endpoint, job_id, now)
        return StreamReply(status=job.status, stream=self._streams.drain(job_id))

    def cancel(self, endpoint: str, job_id: str, now: int) -> ServiceRecord:
        """Stop a job that is queued or in progress; a finished one stays as it is. Raises Refusal 404."""
        job = self._find(endpoint, job_id, now)
        if job.status not in FINISHED:
            self._leave_worker_or_queue(job, now)
            self._finish(job, ServiceStatus.CANCELLED, now, NO_RESULT)
        return ServiceRecord(id=job.id, status=job.status)

    def retry(self, endpoint: str, job_id: str, now: int) -> ServiceRecord:
        """Queue a failed or timed-out job again, under its id. Raises Refusal 404, or 400 in any other state."""
        job = self._find(endpoint, job_id, now)
        if job.status not in RETRYABLE:
            raise ServiceRefusal(400, f"only a failed or timed-out job can be retried; this one is {job.status}")
        job.requeue(now)
        self._streams.drop(job_id)
        state = self._endpoint(endpoint)
        state.push(job)
        state.retried += 1
        self._set_alarm(job)
        return ServiceRecord(id=job.id, status=job.status)

    def purge(self, endpoint: str) -> PurgeReply:
        """Forget every queued job; those in progress go on (contract, `/purge-queue`)."""
        jobs = self._endpoint(endpoint).clear()
        for job in jobs:
            self._forget(job)
        return PurgeReply(removed=len(jobs))

    def health(self, endpoint: str) -> HealthReply:
        state = self._endpoint(endpoint)
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
        fleet = self._endpoint(endpoint).fleet
        ready = tuple(worker.id for worker in fleet.views() if worker.is_ready)
        return MetricsReply(workers=fleet.counts(), ready_workers=ready)

    def unread(self, endpoint: str) -> int:
        """How many results were forgotten without anybody having asked for them."""
        return self._endpoint(endpoint).unread

    def requests(self, endpoint: str) -> RequestsReply:
        """The endpoint's latest jobs, newest first, without their payloads."""
        jobs = (job for job in self.jobs() if job.endpoint == endpoint)
        return RequestsReply(
            requests=tuple(
                msgspec.structs.replace(job.record(), output=None, error=None) for job in islice(jobs, REQUESTS_MAX)
            )
        )

    def take(self, endpoint: str, worker_id: str, now: int, *, pings: bool = False) -> JobExecution | None:
        """Hand the oldest queued job to a worker, or None. A fault may make the worker silent from here on.

        A job that is tried again is left for another worker than the last, if one is free.
        A worker that `pings` has to name the job every now and then (see `ping`).
        """
        state = self._endpoint(endpoint)
        while (job := state.pop(worker_id)) is not None:
            if now < job.expires_at:
                return self._start(job, worker_id, now, pings=pings)
            self._forget(job)
        return None

    def done(self, execution: JobExecution, result: WorkerResult, now: int) -> bool:
        """A worker reports. False, and without effect, if nobody waits for this execution any more."""
        job = self._held(execution.job_id, execution.number, now)
        if job is None:
            return False
        result = self._spoil(result)
        if job.status is ServiceStatus.IN_PROGRESS:
            self._leave_worker(job, now)
        else:  # handed out twice, and the second worker has not come for it yet
            self._endpoint(job.endpoint).drop(job.id)
        if result.error is not None and job.retries < self._service_retries and not job.is_shared:
            self._dispatch_again(job)
        else:
            self._finish(job, ServiceStatus.COMPLETED if result.error is None else ServiceStatus.FAILED, now, result)
        if result.refresh:
            self.retire(job.endpoint, execution.worker_id)
        return True

    def progress(self, execution: JobExecution, output: bytes, now: int) -> bool:
        """A worker shows how far it is; False, and without effect, once nobody waits for this execution any more."""
        job = self._held(execution.job_id, execution.number, now)
        if job is not None:
            is_overtaken = job.update is not None and self._dice.strikes(Fault.STALE_PROGRESS)
            job.output = job.update if is_overtaken else output
            job.update = output
        return job is not None

    def put_chunk(self, execution: JobExecution, output: bytes, now: int) -> bool:
        """A worker streams a chunk; False, and without effect, once nobody waits for this execution any more."""
        job = self._held(execution.job_id, execution.number, now)
        if job is not None:
            self._streams.put(job.id, output)
            self._note_change(job.id)
        return job is not None

    def ping(self, worker_id: str, job_ids: tuple[str, ...], now: int) -> None:
        """A worker names the jobs that it holds: it is not silent about them (as observed)."""
        for job_id in job_ids:
            job = self._jobs.get(job_id)
            if job is not None and job.pings_count and job.worker_id == worker_id and job.silent_until is not None:
                job.silent_until = max(job.silent_until, now + self._silence_us)
                self._set_alarm(job)

    def watch(self, job_id: str) -> None:
        """Tell of the job in `Due.changed`, until `unwatch`."""
        self._watched.add(job_id)

    def unwatch(self, job_id: str) -> None:
        self._watched.discard(job_id)

    def queued(self, endpoint: str) -> int:
        """How many jobs wait for a worker."""
        return len(self._endpoint(endpoint).queue)

    def fleet(self, endpoint: str) -> Fleet:
        """The workers of the endpoint."""
        return self._endpoint(endpoint).fleet

    def retire(self, endpoint: str, worker_id: str) -> None:
        """The worker is to go, and another may take its place."""
        self._endpoint(endpoint).fleet.remove(worker_id)
        self._stopping.append((endpoint, worker_id))

    def waiting(self) -> tuple[str, ...]:
        """The endpoints that have queued jobs."""
        return tuple(endpoint for endpoint, state in self._endpoints.items() if state.queue)

    def step(self, now: int) -> Due:
        """Let everything happen that is due by itself, and hand over what the world outside has to do."""
        self._dice.pass_to(now)
        while (job_id := self._timers.pop_due(now)) is not None:
            self._ring(self._jobs[job_id], now)
        started: list[tuple[str, str]] = []
        for endpoint, state in self._endpoints.items():
            change = state.fleet.adjust(state.waiting, state.in_progress, now)
            started += [(endpoint, worker_id) for worker_id in change.started]
            self._stopping += [(endpoint, worker_id) for worker_id in change.stopped]
            if change.readied:
                self._requeued.append(endpoint)
        due = Due(
            webhooks=self._announcements.pop_due(now),
            stopped=tuple(self._stopped),
            queued=tuple(self._requeued),
            changed=tuple(self._changed),
            started=tuple(started),
            stopping=tuple(self._stopping),
        )
        self._stopped, self._requeued, self._changed, self._stopping = [], [], [], []
        return due

    def next_due(self) -> int | None:
        """When `step` must be called next (µs): 0 for at once, None if nothing is ahead."""
        if self._stopped or self._requeued or self._changed or self._stopping:
            return 0
        times = [self._timers.next_at(), self._announcements.next_at(), self._dice.next_at()]
        times += [state.fleet.next_due(state.waiting, state.in_progress) for state in self._endpoints.values()]
        return min((at for at in times if at is not None), default=None)

    def _endpoint(self, endpoint: str) -> EndpointState:
        state = self._endpoints.get(endpoint)
        if state is None:
            scaling, announced = self._scaling(endpoint)
            self.deploy(endpoint, scaling, announced=announced)
            state = self._endpoints[endpoint]
            if not announced and not scaling.cold_start_s:
                state.fleet.adjust({}, 0, 0)
        return state

    def _find(self, endpoint: str, job_id: str, now: int) -> ServiceJob:
        job = self._jobs.get(job_id)
        if job is None or job.endpoint != endpoint:
            raise ServiceRefusal(404, "job not found")
        if now >= job.due_at():
            self._timers.drop(job_id)
            self._ring(job, now)
            return self._find(endpoint, job_id, now)
        return job

    def _held(self, job_id: str, number: int, now: int) -> ServiceJob | None:
        """The job, if this execution of it is the one that everybody waits for, or one of two."""
        job = self._jobs.get(job_id)
        if job is None or job.status in FINISHED or not (job.is_shared or job.is_executed_as(number)):
            return None
        return None if now >= job.due_at() else job  # its time-out is due and only `step` has not come round yet

    def _start(self, job: ServiceJob, worker_id: str, now: int, *, pings: bool) -> JobExecution:
        job.start(worker_id, now)
        dead = self._dice.strikes(Fault.DEAD_WORKER) or job.is_empty
        stuck = not dead and self._dice.strikes(Fault.STUCK_WORKER)
        job.pings_count = pings and not dead
        if dead:
            job.silent_until = now + round(self._dice.faults.silence_s * SECOND_US)
        elif pings and not stuck:
            job.silent_until = now + self._silence_us
        if self._dice.strikes(Fault.KILLED_WORKER):
            after_s = self._dice.share(Fault.KILLED_WORKER) * self._dice.faults.killed_after_s
            job.killed_at = now + round(after_s * SECOND_US)
        state = self._endpoint(job.endpoint)
        state.in_progress += 1
        state.fleet.began(worker_id)
        self._set_alarm(job)
        if self._tally is not None:
            self._tally.note_executed(job.input, job.id)
        execution = job.execution(worker_id, silent=dead or stuck)
        if not execution.silent and execution.number == 1 and self._dice.strikes(Fault.DUPLICATE_DISPATCH):
            self._leave_worker(job, now)
            job.share()
            self._queue_again(job)
        return execution

    def _spoil(self, result: WorkerResult) -> WorkerResult:
        if result.error is not None:
            return result
        if self._dice.strikes(Fault.HANDLER_ERROR):
            return WorkerResult(error="handler error (injected)", refresh=result.refresh)
        if self._dice.strikes(Fault.EMPTY_OUTPUT):
            return WorkerResult(refresh=result.refresh)
        return result

    def _finish(self, job: ServiceJob, status: ServiceStatus, now: int, result: WorkerResult) -> None:
        job.finish(status, now, result)
        state = self._endpoint(job.endpoint)
        if status is ServiceStatus.COMPLETED:
            state.completed += 1
            if self._tally is not None:
                self._tally.note_completed(job.input)
        elif status in RETRYABLE:
            state.failed += 1
        self._set_alarm(job)
        self._announcements.job_ended(job, now)
        self._note_change(job.id)

    def _ring(self, job: ServiceJob, now: int) -> None:
        """The job's alarm has gone off: see which of its times has come."""
        silent = job.silent_until is not None and now >= job.silent_until
        is_killed = job.killed_at is not None and now >= job.killed_at
        self._leave_worker_or_queue(job, now)
        if now >= job.expires_at or job.finished_at is not None:
            if job.status is ServiceStatus.COMPLETED and not job.is_read:
                self._endpoint(job.endpoint).unread += 1
            self._forget(job)
        elif is_killed:
            self._finish(job, ServiceStatus.FAILED, now, WorkerResult(error=KILLED))
        elif not silent:
            self._finish(
                job, ServiceStatus.TIMED_OUT, now, WorkerResult(error="job timed out: executionTimeout reached")
            )
        elif job.retries < REDISPATCHES_MAX:
            self._dispatch_again(job)
        else:
            self._finish(
                job, ServiceStatus.FAILED, now, WorkerResult(error=f"job timed out after {job.retries} retries")
            )

    def _dispatch_again(self, job: ServiceJob) -> None:
        """To the head of the queue, so that its `delayTime` shows the silence and little else."""
        job.dispatch_again()
        self._streams.drop(job.id)
        self._endpoint(job.endpoint).retried += 1
        self._queue_again(job)

    def _queue_again(self, job: ServiceJob) -> None:
        self._endpoint(job.endpoint).push(job, first=True)
        self._requeued.append(job.endpoint)
        self._set_alarm(job)

    def _leave_worker_or_queue(self, job: ServiceJob, now: int) -> None:
        if job.status is ServiceStatus.IN_PROGRESS:
            self._leave_worker(job, now)
            self._stopped.append(ExecutionKey(job.id, job.executions))
        else:
            self._endpoint(job.endpoint).drop(job.id)

    def _leave_worker(self, job: ServiceJob, now: int) -> None:
        state = self._endpoint(job.endpoint)
        state.in_progress -= 1
        if job.worker_id is not None:
            state.fleet.ended(job.worker_id, now)

    def _forget(self, job: ServiceJob) -> None:
        del self._jobs[job.id]
        self._timers.drop(job.id)
        self._streams.drop(job.id)
        self._note_change(job.id)

    def _note_change(self, job_id: str) -> None:
        if job_id in self._watched:
            self._changed.append(job_id)

    def _kept_us(self, retention_us: int) -> int:
        """How long a job is really kept."""
        short = self._dice.strikes(Fault.SHORT_RETENTION)
        return round(retention_us * self._dice.faults.kept_share) if short else retention_us

    def _set_alarm(self, job: ServiceJob) -> None:
        self._timers.set(job.id, job.due_at())
