"""How a batch will go at an endpoint, before it is sent: played on paper with what is known of the endpoint's times.

The first jobs, a few for each worker, are played one by one: sent at the gaps that the limits leave, begun in the order
in which they were sent as workers come free, collected a while after their end. From then on all goes on at the gap of
what binds. `core.polling.poll_plan` plans the collecting of jobs that are out; this says how long a batch takes.
Microseconds.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits, binding, gaps_us
from orchestrator.core.polling.poll_budget import AMPLE_SHARE, GAP_SHARE
from orchestrator.core.polling.poll_budget import QUESTIONS as QUESTIONS_TO_SPARE
from orchestrator.units import SECOND_US

PLAYED_MIN: Final = 2_000
PLAYED_OF_WORKER: Final = 8
PLAYED_MAX: Final = 40_000
"""So many jobs are played one by one, by the number of workers; beyond them a batch goes on as it went."""

GOLDEN_SHARE: Final = 0.618_034
"""Its multiples take each duration of a sample equally often, in an order without a pattern."""

SCALE_AFTER_US: Final = 4 * SECOND_US
"""An endpoint that scales starts a further worker for a job that waited for so long (queue delay, as created)."""

DOUBT_GIVEN: Final = 0.1
"""What a person says of a job's time may be wrong by so much."""

GIVEN_SPREAD: Final = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2)
"""A time that a person gives is the middle of these multiples of it: no two executions take the same."""

DOUBT_LEAST: Final = 0.03
"""What nobody knows: round trips, other users, machines that differ."""

LATE_US: Final = SECOND_US // 2
LATE_SCARCE_US: Final = 3 * SECOND_US // 2
"""How long after its end a job is asked for, where questions are to spare and where they are not."""

SURE: Final = 2.0
"""A mean is believed to so many of its standard errors."""


class TimesSource(StrEnum):
    """Where times come from."""

    GIVEN = "given"
    PROBE = "probe"
    HISTORY = "history"


class ExecutionSample(msgspec.Struct, frozen=True, kw_only=True):
    """What executions take: a sample in microseconds, ascending, and how many of them a job takes."""

    executions_us: tuple[int, ...]
    per_job: float = 1.0
    source: TimesSource = TimesSource.GIVEN

    @classmethod
    def given(cls, execution_us: int) -> "ExecutionSample":
        """About so long."""
        return cls(executions_us=tuple(round(execution_us * share) for share in GIVEN_SPREAD))

    @property
    def mean_us(self) -> float:
        """Of one execution."""
        return sum(self.executions_us) / len(self.executions_us)

    def quantile_us(self, share: float) -> int:
        """What `share` of them took at most."""
        return self.executions_us[min(len(self.executions_us) - 1, int(share * len(self.executions_us)))]

    @property
    def doubt(self) -> float:
        """By which share of itself the mean may be wrong."""
        if self.source is TimesSource.GIVEN:
            return DOUBT_GIVEN
        number, mean_us = len(self.executions_us), self.mean_us
        if number == 1:
            return 0.5
        variance = sum((each - mean_us) ** 2 for each in self.executions_us) / (number - 1)
        return min(0.9, DOUBT_LEAST + SURE * math.sqrt(variance / number) / max(mean_us, 1.0))

    def longer(self, factor: float) -> "ExecutionSample":
        """The same, had all taken `factor` times as long."""
        return msgspec.structs.replace(self, executions_us=tuple(int(each * factor) for each in self.executions_us))


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint's workers: so many at most, of which `warm` are there already; the others take `start_us`."""

    most: int
    warm: int = 0
    start_us: int = 0

    def ready_us(self, number: int, sent_us: float) -> float:
        """When the worker of that number, from 0, is there, if the job that it is started for was sent at `sent_us`."""
        if number < self.warm:
            return 0.0
        return sent_us + self.start_us + (SCALE_AFTER_US if number else 0)


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """How a batch goes, from its beginning."""

    jobs: int
    """How many it has."""

    submitted_us: float
    """When the last job is sent."""

    finished_us: float
    """When the last result is here."""

    executing_us: float
    """How long workers are at work on it, all together."""

    waits_us: float
    """The longest that a job is at the service before its execution ends."""

    workers: int
    """How many workers it had at most."""


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """How a batch will probably go, and how at the best and the worst."""

    likely: Course
    best: Course
    worst: Course
    binds: Bottleneck
    gap_us: float
    """Between two jobs, while it goes at its full speed."""


def forecast(jobs: int, line: SendingLimits, workers: Workers, times: ExecutionSample) -> Forecast:
    """How `jobs`, at least one, go."""
    gaps = gaps_us(line, workers=workers.most, execution_us=times.mean_us * times.per_job)
    bound = binding(gaps)
    doubt = times.doubt
    return Forecast(
        likely=course(jobs, line, workers, times),
        best=course(jobs, line, workers, times.longer(1 - doubt)),
        worst=course(jobs, line, workers, times.longer(1 + doubt)),
        binds=bound,
        gap_us=gaps[bound],
    )


def course(jobs: int, line: SendingLimits, workers: Workers, times: ExecutionSample) -> Course:
    """How they go if executions take what `times` say."""
    gaps = gaps_us(line, workers=workers.most, execution_us=times.mean_us)
    executions = math.ceil(jobs * times.per_job)
    sending_us = max(gaps[Bottleneck.RATE], gaps[Bottleneck.CONCURRENCY])
    steady_us = max(gaps.values())
    at_once = line.at_service_max(workers=workers.most, finished_per_s=SECOND_US / max(steady_us, 1.0))
    late_us = _late_us(line, times, steady_us)
    most = min(max(PLAYED_MIN, PLAYED_OF_WORKER * workers.most), PLAYED_MAX)
    played = _play(min(executions, most), sending_us, at_once, workers, times, late_us)
    more = max(0, executions - most)
    finished_us = played.finished_us + more * steady_us
    asked_us = played.first_us + executions * gaps[Bottleneck.STATUS]
    finished_us = max(finished_us, asked_us) + line.trip_us
    submitted_us = max(played.submitted_us, executions * sending_us)
    if more:
        submitted_us = max(submitted_us, finished_us - at_once * steady_us)
        growth_us = max(0.0, steady_us - sending_us)  # by how much a job waits longer than the one before it
        waits_us = min(played.waits_us + more * growth_us, at_once * steady_us + times.executions_us[-1])
    else:
        waits_us = played.waits_us
    return Course(
        jobs=jobs,
        submitted_us=min(submitted_us, finished_us),
        finished_us=finished_us,
        executing_us=executions * times.mean_us,
        waits_us=max(waits_us, played.waits_us),
        workers=played.workers,
    )


def _late_us(line: SendingLimits, times: ExecutionSample, steady_us: float) -> float:
    """How long after its end a job is collected."""
    if line.brings_results:
        return line.trip_us
    per_s = line.status.requests / line.status.window_s
    if QUESTIONS_TO_SPARE * SECOND_US / max(steady_us, 1.0) <= AMPLE_SHARE * per_s:
        return max(LATE_US, GAP_SHARE * times.mean_us) + line.trip_us
    return LATE_SCARCE_US + line.trip_us


class _Played(msgspec.Struct, frozen=True, kw_only=True):
    submitted_us: float
    first_us: float
    finished_us: float
    waits_us: float
    workers: int


def _play(
    jobs: int, sending_us: float, at_once: int, workers: Workers, times: ExecutionSample, late_us: float
) -> _Played:
    """Job by job. Workers that are not there yet are started for the jobs that wait."""
    free: list[float] = []
    out: list[float] = []
    started = 0
    sent_us = waits_us = finished_us = 0.0
    first_us = math.inf
    for number, takes_us in zip(range(jobs), _drawn(times.executions_us), strict=False):
        if number:
            sent_us += sending_us
        if len(out) >= at_once:
            sent_us = max(sent_us, heapq.heappop(out) + late_us)
        ready_us = workers.ready_us(started, sent_us) if started < workers.most else math.inf
        if free and free[0] <= max(sent_us, ready_us):
            begun_us = max(sent_us, heapq.heappop(free))
        else:
            begun_us, started = max(sent_us, ready_us), started + 1
        ended_us = begun_us + takes_us
        heapq.heappush(free, ended_us)
        heapq.heappush(out, ended_us)
        waits_us = max(waits_us, ended_us - sent_us)
        first_us = min(first_us, ended_us + late_us)
        finished_us = max(finished_us, ended_us + late_us)
    return _Played(submitted_us=sent_us, first_us=first_us, finished_us=finished_us, waits_us=waits_us, workers=started)


def _drawn(executions_us: Sequence[int]) -> Iterator[int]:
    share = 0.5
    while True:
        yield executions_us[int(share * len(executions_us))]
        share = (share + GOLDEN_SHARE) % 1
