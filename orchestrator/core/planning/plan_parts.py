"""What each endpoint that is to take a part of a batch does of it, and what that costs."""

from collections.abc import Sequence
from typing import Final

import msgspec

from orchestrator.core.planning.bottlenecks import Bottleneck, binding, gaps_us
from orchestrator.core.planning.forecast import Course, Forecast, TimesSource
from orchestrator.core.planning.plan_types import Batch, Candidate, Money, Terms
from orchestrator.core.planning.pool_forecast import EndpointWay, PoolRule, pool_forecast
from orchestrator.units import SECOND_US

NOT_INCLUDED: Final = ("the idle time of workers after their last job", "storage, and what others charge")
STARTING_NOT_INCLUDED: Final = "workers that start"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Of one candidate. The courses are None where it takes nothing, or nobody knows what."""

    candidate: Candidate
    way: EndpointWay | None
    """None: it is not reckoned with."""

    likely: Course | None = None
    best: Course | None = None
    worst: Course | None = None

    @property
    def jobs(self) -> int:
        """How many it takes."""
        return 0 if self.likely is None else self.likely.jobs

    @property
    def workers(self) -> int:
        """How many it has at most; 0: nobody knows."""
        workers = self.candidate.known.workers
        return 0 if workers is None else workers.most

    @property
    def gaps(self) -> dict[Bottleneck, float]:
        """Between two jobs there, as far as it is known."""
        times = self.candidate.known.times
        mean_us = None if times is None else times.mean_us * times.per_job
        return dict(gaps_us(self.candidate.line, workers=self.workers or None, execution_us=mean_us))

    @property
    def binds(self) -> Bottleneck:
        """What holds it down, as far as it is known."""
        return binding(self.gaps)

    @property
    def per_s(self) -> float:
        """How many it ends in a second, as far as it is known."""
        return SECOND_US / max(self.gaps.values())

    @property
    def execution_s(self) -> float | None:
        """How long an execution takes."""
        times = self.candidate.known.times
        return None if times is None else times.mean_us / SECOND_US

    @property
    def per_job(self) -> float | None:
        """How many executions a job takes."""
        times = self.candidate.known.times
        return None if times is None else times.per_job

    @property
    def executions_known(self) -> int:
        """On so many executions its times stand; of given ones 0."""
        times = self.candidate.known.times
        return 0 if times is None or times.source is TimesSource.GIVEN else len(times.executions_us)

    def cost(self, terms: Terms, one: Course | None) -> float:
        """What it costs if it goes like `one`, and has a price."""
        return self.starting + self.idle(terms, one) + self.executing(one)

    def executing(self, one: Course | None) -> float:
        """What the executions cost."""
        return 0.0 if one is None else one.executing_us / SECOND_US * self._per_s

    @property
    def starting(self) -> float:
        """What workers cost while they start."""
        if self.likely is None or self.way is None:
            return 0.0
        cold = max(0, self.likely.workers - self.way.workers.warm)
        return cold * self.way.workers.start_us / SECOND_US * self._per_s

    def idle(self, terms: Terms, one: Course | None) -> float:
        """What warm workers cost while they have nothing to do."""
        if not terms.are_kept_warm or one is None or self.way is None:
            return 0.0
        warm = self.way.workers.warm
        busy_us = one.executing_us * min(1.0, warm / max(1, one.workers))
        return max(0.0, warm * one.finished_us - busy_us) / SECOND_US * self._per_s

    @property
    def _per_s(self) -> float:
        price = self.candidate.price
        return 0.0 if price is None else price.per_s


def plan_parts(batch: Batch, candidates: Sequence[Candidate], rule: PoolRule) -> tuple[Sequence[Part], Forecast | None]:
    """What each of them does, and how all of it goes, as far as that is known. Those that are unwell take nothing,
    where any is well.
    """
    is_any_well = any(each.unwell is None for each in candidates)
    parts = [
        Part(candidate=each, way=_way(each) if each.unwell is None or not is_any_well else None) for each in candidates
    ]
    ways = [each.way for each in parts if each.way is not None]
    if not ways or not batch.jobs:
        return parts, None
    found = pool_forecast(batch.jobs, ways, rule)
    courses = iter(zip(found.likely, found.best, found.worst, strict=True))
    for n, part in enumerate(parts):
        if part.way is not None:
            likely, best, worst = next(courses)
            parts[n] = msgspec.structs.replace(part, likely=likely, best=best, worst=worst)
    return parts, found.whole


def _way(candidate: Candidate) -> EndpointWay | None:
    times, workers = candidate.known.times, candidate.known.workers
    return None if times is None or workers is None else EndpointWay(line=candidate.line, workers=workers, times=times)


def money_of(parts: Sequence[Part], terms: Terms) -> Money | None:
    """What all of it costs; None where a price is not known of one that takes anything."""
    paid = [each for each in parts if each.likely is not None or each.best is not None or each.worst is not None]
    prices = [each.candidate.price for each in paid if each.candidate.price is not None]
    if not prices or len(prices) < len(paid):
        return None
    starting = sum(each.starting for each in paid)
    executing_us = sum(each.likely.executing_us for each in paid if each.likely is not None)
    is_mean = len(paid) > 1 and executing_us
    mean = sum(each.executing(each.likely) for each in paid) / executing_us * SECOND_US if is_mean else prices[0].per_s
    return Money(
        likely=sum(each.cost(terms, each.likely) for each in paid),
        best=sum(each.cost(terms, each.best) for each in paid),
        worst=sum(each.cost(terms, each.worst) for each in paid),
        starting=starting,
        idle=sum(each.idle(terms, each.likely) for each in paid),
        not_included=NOT_INCLUDED if starting else (STARTING_NOT_INCLUDED, *NOT_INCLUDED),
        price_per_s=mean,
        price_from="in the mean" if is_mean else prices[0].source,
    )
