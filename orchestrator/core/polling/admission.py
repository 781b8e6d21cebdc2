"""How many jobs may be at the service, and which are not worth sending.

Three rules, the smallest wins: no more than can be collected in time by asking; no longer a remote queue than the
endpoint works off within a horizon, so that pause, cancel and changed limits act within minutes and no job dies of its
TTL in the queue; and no job whose TTL ends before its turn and its execution would.
"""

from enum import Enum, auto
from typing import Final, Literal

from orchestrator.core.jobs.deadlines import margin_us
from orchestrator.core.polling.latency import Durations
from orchestrator.units import SECOND_US

OUTSTANDING_SHARE: Final = 0.8
"""The share of the status allowance of one retention that outstanding jobs may need to be collected in time."""

OUTSTANDING_MIN: Final = 16

HORIZON_S: Final = 600
"""The remote queue holds what the endpoint finishes within this time."""

DEPTH_MIN: Final = 1_000
"""So many jobs may wait whatever is known of the endpoint: a new one has finished none, and starts workers by what
waits.
"""

DEPTH_IN_TURNS_MIN: Final = 100
"""The same where runs with deadlines take turns: what waits at the service already goes before all of them."""

QueueDepth = int | Literal["auto", "off"]
"""How many jobs may wait at the service: a number, or as many as suits the endpoint, or no such rule."""


def outstanding_max(status_per_s: float, retention_us: int) -> int:
    """How many outstanding jobs can be collected in time by `/status` alone."""
    in_time_s = (retention_us - margin_us(retention_us)) / SECOND_US
    return max(OUTSTANDING_MIN, int(OUTSTANDING_SHARE * status_per_s * in_time_s))


def at_service_max(depth: QueueDepth, *, finished_per_s: float, running: int, least: int = DEPTH_MIN) -> int | None:
    """How many jobs may be at the service so that its queue stays shallow; None for any number.

    `running`: how many are known to be in execution there; they do not wait. `least`: so many may wait in any case.
    """
    match depth:
        case "off":
            return None
        case "auto":
            return running + max(least, int(finished_per_s * HORIZON_S))
        case _:
            return running + depth


class Throughput:
    """How many jobs an endpoint finishes, of late: counts two windows of a minute and forgets the older."""

    WINDOW_US: Final = 60 * SECOND_US

    def __init__(self) -> None:
        self._window_at: int | None = None
        self._finished = [0, 0]
        self._before_us = 0

    def observe(self, now: int) -> None:
        """A job has finished."""
        self._roll(now)
        self._finished[0] += 1

    def per_s(self, now: int) -> float:
        """Jobs a second over the last minute or two; 0 before the first."""
        if self._window_at is None:
            return 0.0
        self._roll(now)
        return sum(self._finished) * SECOND_US / max(now - self._window_at + self._before_us, SECOND_US)

    def left(self, now: int) -> tuple[int, int]:
        """How many have finished of late, and in how long a time, for whoever goes on in the place of this process."""
        if self._window_at is None:
            return 0, 0
        self._roll(now)
        return sum(self._finished), now - self._window_at + self._before_us

    def go_on(self, finished: int, in_us: int, now: int) -> None:
        """So many have finished until `now`, in so long a time."""
        if in_us:
            self._window_at, self._finished, self._before_us = now, [0, finished], in_us

    def _roll(self, now: int) -> None:
        if self._window_at is None:
            self._window_at = now
        elif now >= self._window_at + self.WINDOW_US:
            is_next = now < self._window_at + 2 * self.WINDOW_US
            self._finished = [0, self._finished[0] if is_next else 0]
            self._before_us = now - self._window_at if is_next else 0
            self._window_at = now


class TtlVerdict(Enum):
    """Whether a job's TTL leaves room for it."""

    GOOD = auto()
    LATE = auto()
    """It would probably wait and run for longer than its TTL; it may be sent once the queue is shorter."""

    HOPELESS = auto()
    """Nearly every execution here takes longer than its whole TTL."""


class TtlOutlook:
    """Which TTLs can be met, as far as the endpoint's times are known. `is_idle`: it has none of our jobs."""

    ENOUGH: Final = 20
    """Fewer finished jobs than this say nothing."""

    FASTEST_SHARE: Final = 0.05

    def __init__(self, durations: Durations, *, is_idle: bool) -> None:
        execution, queue = durations.execution, durations.queue
        known = execution.weight >= self.ENOUGH
        fastest_us = execution.quantile_us(self.FASTEST_SHARE) if known else None
        waits_us = queue.p50_us if known and not is_idle else None
        self.hopeless_us = _rounded_down(fastest_us or 0)
        """No TTL as short as this is worth anything: not even the fastest executions are within it."""

        self.needed_us = _rounded_down((waits_us or 0) + (execution.p50_us or 0)) if waits_us else 0
        """Not even every second job with a TTL as short as this would be finished within it."""

    def of(self, ttl_us: int) -> TtlVerdict:
        """What a job with this TTL has before it."""
        if ttl_us <= self.hopeless_us:
            return TtlVerdict.HOPELESS
        return TtlVerdict.LATE if ttl_us <= self.needed_us else TtlVerdict.GOOD

    def is_late(self, ttl_us: int) -> bool:
        """Whether a job with this TTL is better sent later."""
        return self.of(ttl_us) is TtlVerdict.LATE


def _rounded_down(quantile_us: int) -> int:
    """Quantiles are rounded up by as much as a step, a quarter: a job must not be held back for that."""
    return quantile_us * 4 // 5
