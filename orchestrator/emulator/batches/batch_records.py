"""A batch as the service keeps it, and what it shows of it."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.emulator.contract.ids_and_times import iso_time
from orchestrator.emulator.jobs.jobs import FINISHED, RETRYABLE, ServiceJob, ServiceStatus


class BatchStatus(StrEnum):
    """The states of a batch. There is none for one that is done: its counts tell (as documented)."""

    DRAFT = "DRAFT"
    FINALIZED = "FINALIZED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


PLACES: Final = {
    ServiceStatus.FAILED: 0,
    ServiceStatus.TIMED_OUT: 0,
    ServiceStatus.IN_PROGRESS: 1,
    ServiceStatus.IN_QUEUE: 2,
    ServiceStatus.COMPLETED: 3,
    ServiceStatus.CANCELLED: 4,
}
"""Which requests are shown first, where that goes by their status."""


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A request of a batch as JSON. What one that has not ended shows, is not documented."""

    id: str
    status: ServiceStatus
    output: msgspec.Raw | None = None
    error: str | None = None
    started_at: str | None = None
    completed_at: str | None = None


class BatchReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to what changes a batch."""

    id: str
    status: BatchStatus


class AppendReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an append that names its requests; its form is our choice (not documented)."""

    id: str
    status: BatchStatus
    requests: tuple[RequestRecord, ...]


class BatchSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a batch stands."""

    id: str
    endpoint_id: str
    name: str | msgspec.UnsetType = msgspec.UNSET
    status: BatchStatus
    request_total: int
    request_in_progress: int
    request_completed: int
    request_failed: int
    created_at: int
    """ms since the epoch."""


class RequestsPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Some requests of a batch."""

    requests: tuple[RequestRecord, ...]
    total: int
    offset: int
    limit: int
    has_more: bool


class BatchesPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Some batches of an endpoint, newest first. Its form is not documented: here as a page of requests."""

    batches: tuple[BatchSummary, ...]
    total: int
    offset: int
    limit: int
    has_more: bool


class Batch:
    """One batch. Its requests are jobs: queued from when its workers begin, and kept for as long as it is."""

    def __init__(self, batch_id: str, endpoint: str, created_at: int) -> None:
        self.id = batch_id
        self.endpoint = endpoint
        self.created_at = created_at
        self.name: str | None = None
        self.status = BatchStatus.DRAFT
        self.requests: dict[str, ServiceJob] = {}
        """In the order in which they are shown, unless that goes by their status."""

        self.ended = 0
        """How many of them have."""

        self.ends_as: BatchStatus | None = None
        """What becomes of it once nothing of it is in progress any more."""

        self.fails_after: int | None = None
        """By a fault: it fails once so many of its requests have ended."""

        self.kept_until: int | None = None
        """Until when it is known; None while something of it has not ended."""

    @property
    def is_active(self) -> bool:
        """Whether it is finalized and something of it has not ended."""
        return self.status is BatchStatus.FINALIZED and self.kept_until is None

    @property
    def queued(self) -> int:
        """How many of its requests wait for a worker, once it is finalized."""
        if not self.is_active:
            return 0
        return sum(job.status is ServiceStatus.IN_QUEUE for job in self.requests.values())

    def reply(self) -> BatchReply:
        """Says what it is now."""
        return BatchReply(id=self.id, status=self.status)

    def summary(self) -> BatchSummary:
        """How it stands."""
        statuses = [job.status for job in self.requests.values()]
        return BatchSummary(
            id=self.id,
            endpoint_id=self.endpoint,
            name=msgspec.UNSET if self.name is None else self.name,
            status=self.status,
            request_total=len(statuses),
            request_in_progress=statuses.count(ServiceStatus.IN_PROGRESS),
            request_completed=statuses.count(ServiceStatus.COMPLETED),
            request_failed=sum(status in RETRYABLE for status in statuses),
            created_at=self.created_at // 1000,
        )

    def shown(self, *, by_status: bool) -> Sequence[ServiceJob]:
        """Its requests in the order of its pages."""
        jobs = list(self.requests.values())
        return sorted(jobs, key=lambda job: PLACES[job.status]) if by_status else jobs


def request_record(job: ServiceJob) -> RequestRecord:
    """What a page shows of a request."""
    has_ended = job.status in FINISHED
    return RequestRecord(
        id=job.id,
        status=job.status,
        output=None if job.output is None or not has_ended else msgspec.Raw(job.output),
        error=job.error,
        started_at=None if job.started_at is None else iso_time(job.started_at),
        completed_at=iso_time(job.finished_at) if has_ended and job.finished_at is not None else None,
    )
