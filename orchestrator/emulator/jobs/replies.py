"""The JSON of the answers that are not a job's record."""

import msgspec

from orchestrator.emulator.jobs.fleet import FleetCounts
from orchestrator.emulator.jobs.jobs import ServiceRecord, ServiceStatus
from orchestrator.emulator.jobs.streams import StreamedChunk


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
