"""When an endpoint's workers become more or fewer (autoscaling by need), and what people are told of it.

A change may restart the workers that are there, so there are minutes between two of them, more come only where they
are sooner done in spite of that, and fewer only where they do for long.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.gates.scaling_override import WorkerRange
from orchestrator.core.planning.worker_need import WorkerDemand, WorkerNeed, late_us, needed
from orchestrator.core.text.durations import rough_duration
from orchestrator.core.text.figures import minute
from orchestrator.core.text.wording import counted
from orchestrator.units import MINUTE_US

STEP_US: Final = 5 * MINUTE_US
"""There is so much time between two changes at least."""

FEWER_SHARE: Final = 0.5
"""Workers become fewer only where so many of them would do."""

FEWER_FOR_US: Final = 6 * STEP_US
"""And where there is so much to do for them."""

KNOWN_EACH: Final = 2
"""And where what a job takes is known by so many executions of each worker: the first that end are the shortest."""


class WorkersWhy(StrEnum):
    """Why there are to be so many workers."""

    DEADLINE = "deadline"
    """They make `finish-by`."""

    BUDGET = "budget"
    """As many as the hourly budget pays for."""

    MOST = "most"
    """More would be needed than there may be."""

    LEAST = "least"
    """Fewer would do."""

    UNKNOWN = "unknown"
    """Nobody knows yet how long a job takes."""

    THROTTLED = "throttled"
    """There are no machines for more."""

    REFUSED = "refused"
    """The account does not carry it out."""

    BY_HAND = "by hand"
    """Somebody else has changed them."""


_REASONS: Final = {
    WorkersWhy.DEADLINE: "finish-by needs {wanted}",
    WorkersWhy.BUDGET: "budget-per-hour pays for {wanted}",
    WorkersWhy.MOST: "even {most} are too few for finish-by",
    WorkersWhy.LEAST: "fewer than {least} would do",
    WorkersWhy.UNKNOWN: "how long a job takes is not known yet",
    WorkersWhy.THROTTLED: "there are no machines for {wanted}",
    WorkersWhy.REFUSED: "the account did not give it {wanted}: {said}",
    WorkersWhy.BY_HAND: "somebody else has changed it, and it is left so",
}


class WorkersNow(msgspec.Struct, frozen=True, kw_only=True):
    """How the workers of an endpoint stand that follow what its runs need, for those who look."""

    bound: int
    """So many it may have at most."""

    wanted: int
    """So many it should have."""

    why: WorkersWhy
    least: int
    most: int
    changed_at: int | None = None
    """When that was last changed (microseconds UTC); None where it is as it was found."""

    late_us: int = 0
    """By how much a `finish-by` is missed all the same."""

    refusal: str = ""
    """What the account said."""

    @property
    def sentence(self) -> str:
        """How many there are and why, for people."""
        since = "" if self.changed_at is None else f" since {minute(self.changed_at)} UTC"
        return f"up to {counted(self.bound, 'worker')}{since}, of {self.least:,} to {self.most:,}: {self.reason}"

    @property
    def reason(self) -> str:
        """Why there are to be so many, for people."""
        late = f", which is {rough_duration(self.late_us)} late all the same" if self.late_us > 0 else ""
        said = _REASONS[self.why].format(
            wanted=counted(self.wanted, "worker"), most=f"{self.most:,}", least=f"{self.least:,}", said=self.refusal
        )
        return f"{said}{late}"


class EndpointWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """How the workers of an endpoint stand."""

    bound: int
    """So many it may have at most."""

    changed_at: int | None
    """When that was changed last; None: not lately."""

    start_us: float
    """How long a worker takes to start."""

    up: int | None = None
    """How many are there, as the service says."""

    throttled: int = 0
    """For how many there is no machine, as it says."""


def first_bound(demands: Sequence[WorkerDemand], now: int, *, start_us: float) -> WorkersNow:
    """With how many workers the runs begin."""
    wanted, why, late = _wanted(demands, needed(demands, now, start_us=start_us), now, start_us)
    span = _range_of(demands)
    return WorkersNow(bound=wanted, wanted=wanted, why=why, least=span.least, most=span.most, late_us=late)


def next_bound(demands: Sequence[WorkerDemand], at: EndpointWorkers, now: int) -> WorkersNow:
    """How many there are to be from now on: `bound` is what it is now where nothing is to be changed."""
    span = _range_of(demands)
    need = needed(demands, now, start_us=at.start_us)
    wanted, why, late = _wanted(demands, need, now, at.start_us)
    stays = WorkersNow(
        bound=at.bound,
        wanted=wanted,
        why=why,
        least=span.least,
        most=span.most,
        changed_at=at.changed_at,
        late_us=late,
    )
    is_outside = not span.least <= at.bound <= span.most
    if at.changed_at is not None and now < at.changed_at + STEP_US:
        return stays
    if need is None and not is_outside:
        return msgspec.structs.replace(stays, wanted=at.bound)
    if at.throttled and wanted > at.bound:
        up = at.bound if at.up is None else min(at.up, at.bound)
        late = math.ceil(late_us(demands, now, up, start_us=0))
        return msgspec.structs.replace(stays, why=WorkersWhy.THROTTLED, late_us=late)
    if is_outside or _is_worth(demands, at, wanted, now):
        return msgspec.structs.replace(stays, bound=wanted)
    return msgspec.structs.replace(stays, wanted=at.bound)


def _is_worth(demands: Sequence[WorkerDemand], at: EndpointWorkers, wanted: int, now: int) -> bool:
    """Whether a change is worth what it costs."""
    left_us = sum(each.left * each.times.mean_us for each in demands if each.times is not None)
    if wanted > at.bound:
        keeping = needed(demands, now, start_us=0)
        assert keeping is not None
        is_sooner = at.start_us + left_us / wanted < left_us / max(1, at.bound)
        return keeping.workers > at.bound and (is_sooner or not left_us)
    is_known = all(each.times.executions >= KNOWN_EACH * at.bound for each in demands if each.times is not None)
    return is_known and wanted <= FEWER_SHARE * at.bound and left_us / max(1, wanted) >= FEWER_FOR_US


def _wanted(
    demands: Sequence[WorkerDemand], need: WorkerNeed | None, now: int, start_us: float
) -> tuple[int, WorkersWhy, int]:
    """How many there should be, why, and by how much a deadline is missed all the same."""
    span = _range_of(demands)
    if need is None:
        payable = [each.affordable for each in demands if each.affordable is not None]
        guess = round(math.sqrt(span.least * span.most))
        return max(span.least, min([guess, *payable])), WorkersWhy.UNKNOWN, 0
    wanted = max(span.least, min(need.sure, span.most))
    late = 0
    if need.by_deadline > wanted:
        late = math.ceil(late_us(demands, now, wanted, start_us=start_us))
    if need.is_of_budget and need.sure <= span.most:
        return wanted, WorkersWhy.BUDGET, late
    if need.workers > span.most:
        return wanted, WorkersWhy.MOST, late
    return wanted, WorkersWhy.LEAST if need.sure < span.least else WorkersWhy.DEADLINE, late


def _range_of(demands: Sequence[WorkerDemand]) -> WorkerRange:
    """Within which the endpoint is to stay: the widest of those who ask."""
    ranges = [each.range for each in demands if each.range is not None]
    return WorkerRange(max(each.least for each in ranges), max(each.most for each in ranges))
