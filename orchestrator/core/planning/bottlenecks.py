"""What holds a batch's speed down at an endpoint: its limits, its workers, or how much may wait there.

Each of them allows so many jobs a second; the slowest binds. Rates are per second, times are microseconds.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.jobs.deadlines import RETENTION_US_DEFAULT
from orchestrator.core.lanes.sync_requests import is_worth, longest_hold_us
from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import (
    CATCH_UP_SHARE,
    CONTRACT_LIMITS,
    EVEN_SHARE,
    TRIP_US_MAX,
    Limit,
    Operation,
    Pacing,
)
from orchestrator.core.limits.request_spacing import least_gap_us
from orchestrator.core.polling.admission import DEPTH_MIN, HORIZON_S, QueueDepth, outstanding_max
from orchestrator.units import SECOND_US

TRIP_US_USUAL: Final = 100_000
"""How long a request takes, there and back, where nobody has tried."""

QUESTIONS: Final = 1.1
"""So many status calls a job takes where they bind, by polling alone: most are asked for long after their end."""

QUESTIONS_BESIDE_WEBHOOKS: Final = 0.05


class Bottleneck(StrEnum):
    """What binds."""

    RATE = "rate"
    CONCURRENCY = "concurrency"
    STATUS = "status"
    WORKERS = "workers"
    QUEUE = "queue"


class SendingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The way to an endpoint and back, as a batch has it."""

    run: Limit = CONTRACT_LIMITS[Operation.RUN]
    """Of the operation by which all jobs leave, or most."""

    sync: Limit = CONTRACT_LIMITS[Operation.RUNSYNC]
    """Of `/runsync`, where jobs leave by that, too."""

    status: Limit = CONTRACT_LIMITS[Operation.STATUS]
    pacing: Pacing = "even"
    webhooks: bool = False
    trip_us: int = TRIP_US_USUAL
    queue_depth: QueueDepth = "auto"
    retention_us: int = RETENTION_US_DEFAULT
    via: Via = Via.QUEUE
    rows: int = 1
    """How many jobs travel in one request."""

    @property
    def brings_results(self) -> bool:
        """Whether results come by themselves, and nobody has to ask for them."""
        return self.webhooks or self.is_answered

    @property
    def is_answered(self) -> bool:
        """Whether the answer to the request is the result, as long as an execution lasts."""
        return self.via is Via.SYNC or not self.via.has_queue

    @property
    def questions(self) -> float:
        """How many status calls a job takes where they are scarce."""
        return QUESTIONS_BESIDE_WEBHOOKS if self.webhooks else QUESTIONS

    def at_service_max(self, *, workers: int, finished_per_s: float) -> int:
        """How many jobs may be at the service at once, those in execution included."""
        if self.is_answered and self.run.concurrent is not None:
            return self.run.concurrent
        most = self.rows * outstanding_max(self.status.requests / self.status.window_s, self.retention_us)
        match self.queue_depth:
            case "off":
                return most
            case "auto":
                return min(most, workers + max(DEPTH_MIN, int(finished_per_s * HORIZON_S)))
            case depth:
                return min(most, workers + depth)


def gap_us(limit: Limit, *, pacing: Pacing, trip_us: int) -> float:
    """The time between two requests that a limit of so many in a window leaves, whatever it allows at once."""
    window_us = limit.window_s * SECOND_US
    guarded = (window_us + trip_us) / limit.requests
    if pacing == "window":
        return guarded
    spread_us = round(min(trip_us, TRIP_US_MAX) + window_us * CATCH_UP_SHARE)
    even = max(window_us / (EVEN_SHARE * limit.requests), least_gap_us(limit.requests, round(window_us), spread_us))
    return max(guarded, even)


def gap_at_once_us(limit: Limit, trip_us: float) -> float:
    """The time between two requests of which so many may be under way (Little's law); 0 for any number."""
    return 0.0 if limit.concurrent is None else trip_us / limit.concurrent


def gaps_us(line: SendingLimits, *, workers: int | None, execution_us: float | None) -> Mapping[Bottleneck, float]:
    """The time between two jobs that each leaves, as far as it is known: None is what nobody knows.

    `execution_us`: what a job takes a worker, all its executions together.
    """
    if line.is_answered:  # a request lasts as long as its execution, and nothing is asked for afterwards
        lasts_us, asking_us = line.trip_us + (execution_us or 0), 0.0
    else:
        evenly_us = gap_us(line.status, pacing=line.pacing, trip_us=line.trip_us)
        lasts_us, asking_us = line.trip_us, max(evenly_us, gap_at_once_us(line.status, line.trip_us))
    found = {
        Bottleneck.RATE: gap_us(line.run, pacing=line.pacing, trip_us=round(lasts_us)) / line.rows,
        Bottleneck.CONCURRENCY: gap_at_once_us(line.run, lasts_us) / line.rows,
        Bottleneck.STATUS: asking_us * line.questions / line.rows,
    }
    if line.via is Via.BOTH and execution_us is not None:
        found |= _beside_sync(found, line, line.trip_us + execution_us)
    if workers is not None and execution_us is not None:
        found[Bottleneck.WORKERS] = execution_us / workers
        slowest_us = max(*found.values(), 1.0)
        at_once = line.at_service_max(workers=workers, finished_per_s=SECOND_US / slowest_us)
        found[Bottleneck.QUEUE] = (execution_us + line.trip_us) / at_once
    return found


def _beside_sync(
    by_run: Mapping[Bottleneck, float], line: SendingLimits, lasts_us: float
) -> Mapping[Bottleneck, float]:
    """What is otherwise than `by_run` where held requests, each of which lasts so long, take their share."""
    if not is_worth(round(lasts_us), longest_hold_us(line.run, line.sync), was=True):
        return {}
    rate_us = gap_us(line.sync, pacing=line.pacing, trip_us=round(lasts_us))
    sync_us = max(rate_us, gap_at_once_us(line.sync, lasts_us))
    run_us = max(by_run[Bottleneck.RATE], by_run[Bottleneck.CONCURRENCY])
    of_run = sync_us / (run_us + sync_us)
    return {
        Bottleneck.RATE: run_us * of_run,
        Bottleneck.CONCURRENCY: 0.0,
        Bottleneck.STATUS: by_run[Bottleneck.STATUS] * of_run,
    }


def binding(gaps: Mapping[Bottleneck, float]) -> Bottleneck:
    """The slowest; of several as slow, the first."""
    return max(gaps, key=lambda each: gaps[each])
