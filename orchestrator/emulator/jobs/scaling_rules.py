"""How an endpoint scales: the service's rules of how many workers there are to be (autoscaling, its endpoint settings).

With QUEUE_DELAY the first waiting job starts a worker and each further one only after it has waited `scaler_value`
seconds; with REQUEST_COUNT there is a worker for every `scaler_value` jobs that are queued or running. Jobs of low
priority start none.
"""

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Annotated, Final

import msgspec

from orchestrator.emulator.jobs.jobs import ServiceJob
from orchestrator.errors import UsageError
from orchestrator.settings.setting import Panel, Setting
from orchestrator.settings.value_types import SWITCH, number, one_of, whole
from orchestrator.units import SECOND_US

PROPAGATION_S = 5.0
"""How long a new endpoint answers 404 on the job API. That it does is known, for how long is not."""


_scaling: Final = partial(Setting, panel=Panel.WORKERS)


class Scaler(StrEnum):
    """What makes an endpoint start workers."""

    QUEUE_DELAY = "QUEUE_DELAY"
    REQUEST_COUNT = "REQUEST_COUNT"


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """How an endpoint scales; the defaults are those of a created endpoint (as observed).

    Raises UsageError for numbers that make no sense.
    """

    workers_min: Annotated[int, _scaling("workers-min", whole(0), "Never fewer workers.", default="4")] = 0
    workers_max: Annotated[int, _scaling("workers-max", whole(0), "Never more workers.", default="4")] = 3
    idle_timeout_s: Annotated[
        float, _scaling("idle-timeout", number("SECONDS"), "Stops a worker that was idle for so long.")
    ] = 5.0
    scaler: Annotated[Scaler, _scaling("scaler", one_of(Scaler), "What starts workers.")] = Scaler.QUEUE_DELAY
    scaler_value: Annotated[
        float,
        _scaling(
            "scaler-value",
            number("N"),
            "The seconds that a job waits, or the jobs for each worker, before one more is started.",
        ),
    ] = 4
    cold_start_s: Annotated[
        float,
        _scaling(
            "cold-start",
            number("SECONDS"),
            "From a worker's start to its first job.",
            brief="From a worker's start to its first job",
        ),
    ] = 0.0
    machines: Annotated[
        int | None,
        _scaling(
            "machines",
            whole(0),
            "There is a machine for so many workers; further ones are throttled.",
            default="any number",
        ),
    ] = None
    restarts: Annotated[
        bool,
        _scaling(
            "restart-on-change",
            SWITCH,
            "Workers that are there start anew once the endpoint may have more or fewer of them, after the job that"
            " they have.",
        ),
    ] = False
    is_broken: Annotated[
        bool,
        _scaling("broken-workers", SWITCH, "Workers end by themselves when they should be ready, and are unhealthy."),
    ] = False

    def __post_init__(self) -> None:
        if not 0 <= self.workers_min <= self.workers_max:
            raise UsageError(f"workers must be 0 <= minimum <= maximum, not {self.workers_min} to {self.workers_max}")
        if self.idle_timeout_s < 0 or self.cold_start_s < 0 or self.scaler_value <= 0:
            raise UsageError("the idle time-out and the cold start must not be negative, and the scaler value positive")

    @property
    def is_fixed(self) -> bool:
        return self.workers_min == self.workers_max

    @property
    def idle_us(self) -> int:
        return round(self.idle_timeout_s * SECOND_US)

    @property
    def delay_us(self) -> int:
        """How long a job waits until it starts a worker beside others, for QUEUE_DELAY."""
        return round(self.scaler_value * SECOND_US)

    @property
    def most(self) -> int:
        """How many workers there can be."""
        return self.with_machine(self.workers_max)

    def with_machine(self, workers: int) -> int:
        """How many of so many workers there is a machine for."""
        return workers if self.machines is None else min(workers, self.machines)

    def needed(self, requests: int) -> int:
        """The workers that REQUEST_COUNT asks for."""
        if self.scaler is not Scaler.REQUEST_COUNT:
            return 0
        return min(self.workers_max, int(-(-requests // self.scaler_value)))

    def wanted(self, live: int, uncovered: Iterable[ServiceJob], *, waiting: int, requests: int, now: int) -> int:
        """How many workers there are to be, of which `live` are there. For `uncovered` jobs none is being started."""
        if self.scaler is Scaler.REQUEST_COUNT:
            more = self.needed(requests) - live
        elif live == 0:
            more = min(1, waiting)
        else:
            more = sum(1 for job in uncovered if job.queued_at + self.delay_us <= now)
        return min(self.workers_max, max(self.workers_min, live + more))


def fixed(workers: int) -> Scaling:
    """Always this many workers."""
    return Scaling(workers_min=workers, workers_max=workers)
