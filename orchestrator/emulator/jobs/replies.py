"""The JSON of the answers that are not a job's record."""

import msgspec

from orchestrator.emulator.jobs.fleet import WorkerCounts
from orchestrator.emulator.jobs.jobs import Record, Status
from orchestrator.emulator.jobs.streams import Chunk


class JobCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The job figures of `/health`: two of now, three since the beginning."""

    completed: int
    failed: int
    in_progress: int
    in_queue: int
    retried: int


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `/health` (as observed)."""

    jobs: JobCounts
    workers: WorkerCounts


class Metrics(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to `/metrics`: what the official tools read of it (as observed)."""

    workers: WorkerCounts
    ready_workers: tuple[str, ...]


class Purged(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `/purge-queue`."""

    removed: int
    status: str = "completed"


class Requests(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `/requests`; its form is our choice (contract: not shown)."""

    requests: tuple[Record, ...]


class StreamPart(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `/stream`: the chunks since the previous call (as observed)."""

    status: Status
    stream: tuple[Chunk, ...]
