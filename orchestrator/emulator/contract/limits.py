"""How many requests each operation takes before it answers 429, and what was seen of them.

The table is the contract's (Limits). `/retry`, `/health`, `/metrics` and `/batch` have no row there: they are unlimited
until a setting gives them one. `/status-sync` counts as `/status` (as observed).
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.rate_counters import Algorithm, Counter, counter
from orchestrator.errors import UsageError
from orchestrator.units import SECOND_US


class JobOperation(StrEnum):
    """An operation of the job API, named as its path is."""

    RUN = "run"
    RUNSYNC = "runsync"
    STATUS = "status"
    STREAM = "stream"
    CANCEL = "cancel"
    RETRY = "retry"
    PURGE_QUEUE = "purge-queue"
    HEALTH = "health"
    METRICS = "metrics"
    REQUESTS = "requests"
    OPENAI = "openai"
    BATCH = "batch"
    HTTP = "http"
    """Whatever a load balancing endpoint is asked for. The contract has no limit of it."""


class OperationLimit(msgspec.Struct, frozen=True, kw_only=True):
    """What one operation of one endpoint takes; None is unlimited. Raises UsageError for a limit below 1."""

    requests: int | None = None
    """How many requests per window."""
    window_us: int = 10 * SECOND_US
    concurrent: int | None = None
    """How many requests at a time, from arrival until just before the answer is sent."""

    def __post_init__(self) -> None:
        if self.window_us < 1 or any(limit is not None and limit < 1 for limit in (self.requests, self.concurrent)):
            raise UsageError(f"a limit must allow at least one request per window and at a time: {self}")


UNLIMITED = OperationLimit()

CONTRACT_LIMITS: Mapping[JobOperation, OperationLimit] = MappingProxyType(
    {
        JobOperation.RUN: OperationLimit(requests=1000, concurrent=200),
        JobOperation.RUNSYNC: OperationLimit(requests=2000, concurrent=400),
        JobOperation.STATUS: OperationLimit(requests=2000, concurrent=400),
        JobOperation.STREAM: OperationLimit(requests=2000, concurrent=400),
        JobOperation.CANCEL: OperationLimit(requests=100, concurrent=20),
        JobOperation.RETRY: UNLIMITED,
        JobOperation.PURGE_QUEUE: OperationLimit(requests=2),
        JobOperation.HEALTH: UNLIMITED,
        JobOperation.METRICS: UNLIMITED,
        JobOperation.REQUESTS: OperationLimit(requests=10, concurrent=2),
        JobOperation.OPENAI: OperationLimit(requests=2000, concurrent=400),
        JobOperation.BATCH: UNLIMITED,
    }
)
"""The table of the contract, Limits."""


class MeterFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one operation of one endpoint has seen."""

    accepted: int = 0
    """Requests within the limit, whatever became of them then."""
    refused: int = 0
    """Requests answered 429 because of the limit."""
    window_max: int = 0
    """The most accepted requests in any window, counted exactly, whatever algorithm decides."""
    concurrent: int = 0
    """Requests under way now, and the most that there were at once:"""
    concurrent_max: int = 0
    first_at: int | None = None
    """When the first request was accepted (µs)."""
    last_at: int | None = None


class OperationMeter:
    """Admits or refuses the requests of one operation of one endpoint, and remembers the extremes."""

    def __init__(
        self,
        limit: OperationLimit,
        algorithm: Algorithm = Algorithm.SLIDING_LOG,
        *,
        retry_after: bool = False,
        scale: float = 1.0,
    ) -> None:
        """`scale`: how many µs of `now` pass in one of the sender's, who is told to wait in seconds of its own."""
        self._limit = limit
        self._scale = scale
        self._effective = limit.requests
        self._retry_after = retry_after
        self._counter: Counter | None = (
            None if limit.requests is None else counter(algorithm, limit.requests, limit.window_us)
        )
        self._window: deque[int] = deque()
        self._concurrent = 0
        self._accepted = 0
        self._refused = 0
        self._window_max = 0
        self._concurrent_max = 0
        self._first_at: int | None = None
        self._last_at: int | None = None
        self._shared_at: int | None = None
        self._neighbour_at = 0

    def share_with(self, share: float, now: int) -> None:
        """Since the last call somebody else has sent this share of the limit, evenly. It is in no figures."""
        since, self._shared_at = self._shared_at, now
        if not share or since is None or self._counter is None or self._effective is None:
            return
        gap_us = max(1, round(self._limit.window_us / (share * self._effective)))
        at = max(self._neighbour_at, since, now - self._limit.window_us)
        while at <= now:
            self._counter.admit(at)
            at += gap_us
        self._neighbour_at = at

    def enter(self, now: int) -> None:
        """Count a request that arrives at `now`; each one that enters must leave. Raises Refusal 429 over the limit."""
        if self._limit.concurrent is not None and self._concurrent >= self._limit.concurrent:
            self._refuse("too many concurrent requests", 1 * SECOND_US)
        if self._counter is not None and not self._counter.admit(now):
            self._refuse("rate limit exceeded", self._counter.wait_us(now))
        self._accepted += 1
        self._concurrent += 1
        self._concurrent_max = max(self._concurrent_max, self._concurrent)
        self._first_at = now if self._first_at is None else self._first_at
        self._last_at = now
        while self._window and self._window[0] <= now - self._limit.window_us:
            self._window.popleft()
        self._window.append(now)
        self._window_max = max(self._window_max, len(self._window))

    def allow(self, requests: int) -> None:
        """The base limit or `requests` per window, whichever is more (contract, Limits, dynamic rule)."""
        if self._counter is not None and self._limit.requests is not None:
            effective = max(self._limit.requests, requests)
            if effective != self._effective:
                self._effective = effective
                self._counter.allow(effective)

    def leave(self) -> None:
        """The answer of a request that entered is about to be sent, or nobody waits for it any more."""
        self._concurrent -= 1

    def figures(self) -> MeterFigures:
        return MeterFigures(
            accepted=self._accepted,
            refused=self._refused,
            window_max=self._window_max,
            concurrent=self._concurrent,
            concurrent_max=self._concurrent_max,
            first_at=self._first_at,
            last_at=self._last_at,
        )

    def turn_away(self) -> None:
        """Count a request that somebody else has refused for its number."""
        self._refused += 1

    def _refuse(self, error: str, wait_us: int) -> None:
        self._refused += 1
        seconds = max(1, math.ceil(wait_us / self._scale / SECOND_US))
        raise ServiceRefusal(429, error, (("retry-after", str(seconds)),) if self._retry_after else ())


class OperationMeters:
    """The meters of all operations of all endpoints.

    `dynamic_limit` gives what an endpoint's running workers allow per window (contract, Limits, dynamic rule); the rest
    is as `OperationMeter` has it.
    """

    def __init__(
        self,
        limits: Mapping[JobOperation, OperationLimit] = CONTRACT_LIMITS,
        algorithm: Algorithm = Algorithm.SLIDING_LOG,
        *,
        retry_after: bool = False,
        scale: float = 1.0,
        dynamic_limit: Callable[[str], int] | None = None,
    ) -> None:
        self._limits = limits
        self._algorithm = algorithm
        self._retry_after = retry_after
        self.scale = scale
        self._dynamic_limit = dynamic_limit
        self._meters: dict[tuple[str, JobOperation], OperationMeter] = {}

    def of(self, endpoint: str, operation: JobOperation) -> OperationMeter:
        """The meter of an operation, with what it allows now."""
        meter = self._meters.get((endpoint, operation))
        if meter is None:
            limit = self._limits.get(operation, UNLIMITED)
            meter = OperationMeter(limit, self._algorithm, retry_after=self._retry_after, scale=self.scale)
            self._meters[endpoint, operation] = meter
        if self._dynamic_limit is not None:
            meter.allow(self._dynamic_limit(endpoint))
        return meter

    def all_figures(self) -> Mapping[tuple[str, JobOperation], MeterFigures]:
        """The figures of every endpoint and operation that was called."""
        return {key: meter.figures() for key, meter in self._meters.items()}

    def figures(self, endpoint: str, operation: JobOperation) -> MeterFigures:
        """What the operation has seen so far; zeros where it was never called."""
        return self.all_figures().get((endpoint, operation), MeterFigures())
