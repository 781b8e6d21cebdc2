"""What an answer of `/health` says, for all who look at it."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from orchestrator.core.service.job_record import NOTHING_MORE, read_as

Count = Annotated[int, msgspec.Meta(ge=0)] | None
"""None: the service does not say, or nothing that can be."""


class JobCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Jobs of an endpoint."""

    in_queue: Count = None
    in_progress: Count = None
    completed: Count = None
    failed: Count = None
    retried: Count = None
    more: Mapping[str, object] = NOTHING_MORE


class WorkerCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Workers of an endpoint."""

    idle: Count = None
    running: Count = None
    ready: Count = None
    initializing: Count = None
    throttled: Count = None
    unhealthy: Count = None
    more: Mapping[str, object] = NOTHING_MORE


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint in good health: the answer of `/health`."""

    jobs: JobCounts = JobCounts()
    workers: WorkerCounts = WorkerCounts()
    more: Mapping[str, object] = NOTHING_MORE
    raw: bytes = b""


def read_health(body: bytes) -> Health:
    """The answer of a `/health`. Raises `ValueError`, also for an error in the place of health."""
    health = read_as(Health, body)
    if any(health.more.get(name) is not None for name in ("jobs", "workers")):
        raise ValueError("the answer has something else in the place of counts")
    if health.more.get("error") is not None and (health.jobs, health.workers) == (JobCounts(), WorkerCounts()):
        raise ValueError("the answer is an error in the place of health")
    return health


def health_of(status: int, body: bytes) -> Health | None:
    """The health that an answer tells of; None for a refusal, and for whatever else is no health."""
    try:
        return read_health(body) if 200 <= status < 300 else None  # noqa: PLR2004
    except ValueError:
        return None


def is_of_service(status: int, body: bytes) -> bool:
    """Whether an answer is the service's own, a refusal perhaps: not a server error, which is an answer of the way
    there, and not the page of somebody who stands in for it.
    """
    return status < 500 and (not 200 <= status < 300 or health_of(status, body) is not None)  # noqa: PLR2004
