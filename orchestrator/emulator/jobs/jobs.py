"""A job as the service keeps it, and the record that it shows of it (as observed)."""

import re
from enum import StrEnum
from typing import Final

import msgspec

REDISPATCHES_MAX = 1
"""A job whose worker fell silent is queued again this often; the next silence is its end (as observed)."""


EMPTY_INPUT: Final = re.compile(rb"\{\s*\}")


class ServiceStatus(StrEnum):
    """The states that the service reports."""

    IN_QUEUE = "IN_QUEUE"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"


RETRYABLE = frozenset({ServiceStatus.FAILED, ServiceStatus.TIMED_OUT})
FINISHED = RETRYABLE | {ServiceStatus.COMPLETED, ServiceStatus.CANCELLED}


class RunBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a `/run`, checked. `input` and `s3_config` are the sender's own bytes."""

    input: bytes
    webhook: str | None
    s3_config: bytes | None
    ttl_us: int
    execution_timeout_us: int | None
    """None: what the endpoint says."""
    low_priority: bool = False
    is_sync: bool = False
    """Submitted by `/runsync`: another form of id, and a shorter retention."""


class JobExecution(msgspec.Struct, frozen=True, kw_only=True):
    """One handing of a job to a worker. Job and number together name it."""

    endpoint: str
    job_id: str
    number: int
    """Counts the executions of the job, from 1: a result of an earlier one is recognised by it."""
    worker_id: str
    input: bytes
    s3_config: bytes | None
    silent: bool
    """By a fault: the worker holds the job and never reports."""


class ExecutionKey(msgspec.Struct, frozen=True):
    """Names an execution without holding its input."""

    job_id: str
    number: int


class WorkerResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker reports: JSON output, or an error, or both; nothing at all is a success without output."""

    output: bytes | None = None
    error: str | None = None
    refresh: bool = False
    """The worker asks to be replaced (`refresh_worker`, `stopPod`)."""


class ServiceRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A job as JSON. Absent fields are left out; they stand in the alphabetical order that webhooks show."""

    delay_time: int | msgspec.Raw | None = None
    """From submission (or `/retry`) to the start of the last execution, ms; by a fault any JSON."""
    error: str | None = None
    execution_time: int | msgspec.Raw | None = None
    """How long the worker held the job, ms."""
    id: str
    input: msgspec.Raw | None = None
    output: msgspec.Raw | None = None
    retries: int = 0
    status: ServiceStatus
    webhook: str | None = None
    worker_id: str | None = None


class ServiceJob(msgspec.Struct, kw_only=True, gc=False):
    """One job. Flat (no references but strings and bytes), so the garbage collector need not walk 300,000 of them."""

    id: str
    endpoint: str
    input: bytes
    webhook: str | None
    s3_config: bytes | None
    execution_timeout_us: int
    expires_at: int
    """Deleted then, whatever its state (contract, TTL expiry)."""
    queued_at: int
    retention_us: int
    """How long the job is kept once it has finished."""
    low_priority: bool = False
    status: ServiceStatus = ServiceStatus.IN_QUEUE
    executions: int = 0
    retries: int = 0
    worker_id: str | None = None
    started_at: int | None = None
    finished_at: int | None = None
    silent_until: int | None = None
    """When the service gives up the worker that holds the job, unless it hears of it before; None for never."""
    pings_count: bool = False
    """Whether the worker's pings move `silent_until`; those of a worker that never got the job do not name it."""
    killed_at: int | None = None
    """By a fault: when the worker that holds the job is taken away."""
    output: bytes | None = None
    error: str | None = None
    update: bytes | None = None
    """What the worker showed last of how far it is, whatever is shown."""
    avoids: str | None = None
    """The worker that had it before, while it waits to be tried again: another is to have it if there is one."""
    is_shared: bool = False
    """By a fault: two workers hold it, and the first result of either is the job's."""
    is_read: bool = False
    """Whether anybody was ever told how the job ended."""
    batch_id: str | None = None
    """Of which batch it is a request; None for one that was submitted by itself."""

    @property
    def is_empty(self) -> bool:
        """Whether its input is `{}`, which the service takes and drops: no worker can begin with it (as observed)."""
        return EMPTY_INPUT.fullmatch(self.input) is not None

    def start(self, worker_id: str, now: int) -> None:
        self.status = ServiceStatus.IN_PROGRESS
        self.avoids = None
        self.executions += 1
        self.worker_id = worker_id
        self.started_at = now

    def execution(self, worker_id: str, *, silent: bool) -> JobExecution:
        """The present execution, as a worker gets it."""
        return JobExecution(
            endpoint=self.endpoint,
            job_id=self.id,
            number=self.executions,
            worker_id=worker_id,
            input=self.input,
            s3_config=self.s3_config,
            silent=silent,
        )

    def is_executed_as(self, number: int) -> bool:
        """Whether that execution is the present one."""
        return self.status is ServiceStatus.IN_PROGRESS and self.executions == number

    def share(self) -> None:
        """Back to the queue while a worker holds it."""
        self.status = ServiceStatus.IN_QUEUE
        self.is_shared = True

    def finish(self, status: ServiceStatus, now: int, result: WorkerResult) -> None:
        self.status = status
        self.finished_at = now
        self.silent_until = self.killed_at = self.update = None
        self.output, self.error = result.output, result.error

    def dispatch_again(self) -> None:
        """Back to the queue after the worker's silence; `queued_at` stays, so that `delayTime` runs on (C3)."""
        self.status = ServiceStatus.IN_QUEUE
        self.retries += 1
        self.avoids = self.worker_id
        self.silent_until = self.killed_at = self.output = self.update = None

    def requeue(self, now: int) -> None:
        """Back to the queue by `/retry`: the previous outcome is gone, id and input stay."""
        self.status = ServiceStatus.IN_QUEUE
        self.queued_at = now
        self.retries = 0
        self.is_shared = False
        self.avoids = self.worker_id
        self.worker_id = self.started_at = self.finished_at = self.output = self.error = None

    def due_at(self) -> int:
        """When something happens to the job by itself: its end by time-out, silence, retention or TTL."""
        if self.finished_at is not None:
            return min(self.expires_at, self.finished_at + self.retention_us)
        if self.status is ServiceStatus.IN_PROGRESS and self.started_at is not None:
            silent_until = self.expires_at if self.silent_until is None else self.silent_until
            killed_at = self.expires_at if self.killed_at is None else self.killed_at
            return min(self.expires_at, silent_until, killed_at, self.started_at + self.execution_timeout_us)
        return self.expires_at

    def record(self) -> ServiceRecord:
        """What `/status` shows."""
        return ServiceRecord(
            delay_time=None if self.started_at is None else (self.started_at - self.queued_at) // 1000,
            error=self.error,
            execution_time=self._execution_ms(),
            id=self.id,
            output=None if self.output is None else msgspec.Raw(self.output),
            retries=self.retries,
            status=self.status,
            worker_id=self.worker_id,
        )

    def announcement(self) -> ServiceRecord:
        """What the webhook brings: the record with its input and the URL, but no worker (as observed)."""
        return msgspec.structs.replace(
            self.record(), input=msgspec.Raw(self.input), webhook=self.webhook, worker_id=None
        )

    def _execution_ms(self) -> int | None:
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at) // 1000
