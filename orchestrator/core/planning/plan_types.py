"""The plan of a batch as values: what is to be sent, on which terms, what is known, and how it will go (time, cost)."""

from collections.abc import Iterator
from typing import Final

import msgspec

from orchestrator.core.chunks.chunk_terms import ChunkTerms
from orchestrator.core.gates.costs import Price
from orchestrator.core.gates.scaling_override import WorkerRange
from orchestrator.core.lanes.via import Via
from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, TimesSource, Workers
from orchestrator.core.pools.member import Prefer
from orchestrator.core.text.figures import money
from orchestrator.core.text.wording import counted


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

    @property
    def row_bytes(self) -> int | None:
        """What the input of a row has, in the mean; None: nobody knows."""
        return None if not self.input_bytes else max(1, self.input_bytes // max(1, self.rows))


class KnownPods(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that are to execute a batch."""

    template: str
    count: int
    start_us: int
    """How long it takes until they are ready."""

    start_from: str
    """Where that was found, for people."""

    per_hour: float | None
    """What each costs; None: nobody knows."""

    price_from: str


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be kept. Times are microseconds."""

    ttl_us: int
    execution_timeout_us: int
    finish_within_us: int | None = None
    budget: float | None = None
    price: Price | None = None
    worker_range: WorkerRange | None = None
    """Within which the workers follow what is needed; None: they do not."""

    per_hour: float = 0.0
    """What they may cost in an hour then; 0: any amount."""

    are_kept_warm: bool = False
    """Whether the warm workers are paid as long as it lasts, busy or not."""

    chunk: ChunkTerms | None = None
    """How large the chunks are in which rows travel; None: each travels by itself."""

    batch_rows: int | None = None
    """How many rows a batch of the service's own has at most, where jobs leave in such; None: they do not."""

    batch_discount: int | None = None
    """By how much a second costs less in one, in millionths; None: nobody says."""

    pods: KnownPods | None = None
    """Those that execute it; None: an endpoint does."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the endpoint; None: nobody knows."""

    times: ExecutionSample | None = None
    workers: Workers | None = None
    workers_from: str = ""
    """Where that was found, for people."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint that is to take a batch, or a part of it."""

    endpoint: str
    line: SendingLimits
    known: Known
    price: Price | None = None
    unwell: str | None = None
    """What is wrong with it, by what it says of itself; None: nothing is known to be."""


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
    """What a second of a worker costs; in a pool, in the mean of those that are paid."""

    price_from: str
    """Where that was found."""


class MemberPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a member of a pool will do. Seconds; None: nobody knows."""

    endpoint: str
    via: Via
    """By which lane jobs leave for it."""

    unwell: str | None
    """What is wrong with it now, for people: then it is reckoned without it."""

    jobs: int
    """How many it is expected to take."""

    share: float
    """Which part of all that is."""

    jobs_per_s: float | None
    """How many it ends in a second."""

    bound_by: str
    """What holds it down, in words."""

    execution_s: float | None
    executions_known: int
    known_from: TimesSource | None
    workers: int | None
    workers_from: str
    finish_s: float | None
    """When the last of its jobs is done."""

    price_per_s: float | None
    price_from: str
    cost: float | None
    """What its jobs will probably cost."""


NO_START: Final = "the service promises no time at which it begins"
"""Said wherever the end of a batch would stand."""


class BatchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What batches make of it. Seconds; None: nobody knows."""

    batches: int
    """How many are made, at least."""

    discount: int | None
    """By how much a second of a worker costs less in them, in millionths; None: nobody says."""

    price_per_s: float | None
    cost: float | None
    """What it will probably cost in them."""

    finish_s: float | None = None
    """When the last row is done: the service promises nothing."""

    @property
    def lines(self) -> Iterator[str]:
        """It for people, a line for each thing."""
        yield f"in batches: {counted(self.batches, 'batch', 'batches')}; {NO_START}"
        if self.cost is not None and self.price_per_s is not None:
            yield f"cost in batches: about {money(self.cost)}, at {money(self.price_per_s)} for a second of a worker"
        elif self.discount is None:
            yield "cost in batches: not known; a fifth to a third less is announced, and no price is documented"


class PodsPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that are asked for, and paid by the hour until all is done."""

    template: str
    count: int
    start_s: float
    """How long it takes until they are ready, which is in all times of the plan."""

    start_from: str
    """Where that was found."""

    price_per_hour: float | None
    """What each costs; None: nobody knows."""

    price_from: str


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

    prefer: Prefer | None = None
    """Which member of its pool a job goes to; None where there is no pool."""

    members: tuple[MemberPlan, ...] = ()
    """Those of its pool, in the order in which they are preferred."""

    pods: PodsPlan | None = None
    """Those that execute it; None where an endpoint does."""

    chunk_rows: int | None = None
    """How many rows travel together; None: each by itself."""

    batch: BatchPlan | None = None
    """What batches of the service's own make of it, where jobs leave in such: all else is by `/run` then."""
