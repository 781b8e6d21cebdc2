"""The plan of a batch as values: what is to be sent, on which terms, what is known, and how it will go (time, cost)."""

import msgspec

from orchestrator.core.gates.costs import Price
from orchestrator.core.planning.bottlenecks import Bottleneck
from orchestrator.core.planning.forecast import ExecutionSample, TimesSource, Workers


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What an input has."""

    rows: int
    repeats: int = 0
    """Rows whose input was there before; each is a job of its own all the same."""

    oversize: int = 0
    """Rows whose request would be larger than the service takes."""

    input_bytes: int = 0
    done: int = 0
    """Of these the run has an outcome already."""

    @property
    def jobs(self) -> int:
        """What is still to be executed."""
        return max(0, self.rows - self.done)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be kept. Times are microseconds."""

    ttl_us: int
    execution_timeout_us: int
    finish_within_us: int | None = None
    budget: float | None = None
    price: Price | None = None

    are_kept_warm: bool = False
    """Whether the warm workers are paid as long as it lasts, busy or not."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the endpoint; None: nobody knows."""

    times: ExecutionSample | None = None
    workers: Workers | None = None
    workers_from: str = ""
    """Where that was found, for people."""


class Money(msgspec.Struct, frozen=True, kw_only=True):
    """What it costs, in whatever the price is in."""

    likely: float
    best: float
    worst: float
    starting: float
    """The part of it for workers that start."""

    idle: float
    """The part of it for warm workers that have nothing to do."""

    not_included: tuple[str, ...]
    price_per_s: float
    """What a second of a worker costs."""

    price_from: str
    """Where that was found."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a batch will go. Seconds; None: nobody knows."""

    verdict: str
    is_feasible: bool
    endpoint: str
    rows: int
    done: int
    repeats: int
    oversize: int
    input_bytes: int
    known_from: TimesSource | None
    executions_known: int
    """On so many executions the times stand; of given ones 0."""

    execution_s: float | None
    executions_per_job: float | None
    workers: int | None
    workers_from: str
    binds: Bottleneck
    bound_by: str
    """The same in words."""

    jobs_per_s: float
    submit_s: float
    finish_s: float | None
    finish_best_s: float | None
    finish_worst_s: float | None
    executing_s: float | None
    at_service_s: float | None
    """The longest that a job is at the service."""

    cost: Money | None
    refused: tuple[str, ...]
    """What cannot be kept, with its numbers."""

    doubtful: tuple[str, ...]
    """What may not be kept."""

    would_help: tuple[str, ...]
    """What would make it faster, the most helpful first, or tell more."""
