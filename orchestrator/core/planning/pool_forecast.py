"""How a batch will go that several endpoints share, before it is sent: what each takes of it, and how that goes there.

Each goes at its own pace, so the shares follow from the paces and the rule of the pool (`core.pools.member_choice`).
The course of each share is that of `core.planning.forecast`; what it takes beyond the pace (workers that start, the
last execution) moves the shares once more. A single endpoint takes all. Microseconds.
"""

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits, binding, gaps_us
from orchestrator.core.planning.forecast import Course, ExecutionSample, Forecast, Workers, course
from orchestrator.core.pools.member import SPILL_AFTER_US_DEFAULT, Prefer
from orchestrator.core.pools.member_choice import AHEAD_US

ROUNDS: Final = 4
"""So often shares are moved by what was found of them."""

HALVINGS: Final = 40

STEPS: Final = 200
"""In so many equal parts a batch is handed out by prices."""


class EndpointWay(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint, as a batch has it."""

    line: SendingLimits
    workers: Workers
    times: ExecutionSample

    @property
    def binds(self) -> Bottleneck:
        """What holds it down."""
        return binding(self._gaps)

    @property
    def gap_us(self) -> float:
        """Between two jobs there, at full speed."""
        return max(self._gaps.values())

    @property
    def at_once(self) -> float:
        """How many are executed at once, at full speed."""
        return self.times.mean_us * self.times.per_job / self.gap_us

    @property
    def _gaps(self) -> dict[Bottleneck, float]:
        return dict(gaps_us(self.line, workers=self.workers.most, execution_us=self.times.mean_us * self.times.per_job))


class PoolRule(msgspec.Struct, frozen=True, kw_only=True):
    """Which member takes a job."""

    prefer: Prefer = Prefer.FAST
    spill_after_us: int = SPILL_AFTER_US_DEFAULT
    finish_within_us: int | None = None


Courses = Sequence[Course | None]
"""Of each member; None: it takes nothing."""


class PoolForecast(msgspec.Struct, frozen=True, kw_only=True):
    """How a batch will probably go at each member, and how at the best and the worst."""

    likely: Courses
    best: Courses
    worst: Courses
    whole: Forecast
    """The same of all of it."""


def pool_forecast(jobs: int, ways: Sequence[EndpointWay], rule: PoolRule) -> PoolForecast:
    """How `jobs`, at least one, go at `ways`, cheapest first."""
    likely = courses(jobs, ways, rule)
    best = courses(jobs, [_longer(way, 1 - way.times.doubt) for way in ways], rule)
    worst = courses(jobs, [_longer(way, 1 + way.times.doubt) for way in ways], rule)
    taking = [(each.jobs, way) for each, way in zip(likely, ways, strict=True) if each is not None]
    return PoolForecast(
        likely=likely,
        best=best,
        worst=worst,
        whole=Forecast(
            likely=joint_course(likely),
            best=joint_course(best),
            worst=joint_course(worst),
            binds=max(taking, key=lambda each: each[0])[1].binds,
            gap_us=1 / sum(1 / way.gap_us for _, way in taking),
        ),
    )


def courses(jobs: int, ways: Sequence[EndpointWay], rule: PoolRule) -> Courses:
    """How `jobs`, at least one, go if executions take what is known of them."""
    found: Courses = ()
    if len(ways) > 1 and rule.prefer is Prefer.FAST:
        ways = [_shallow(way) for way in ways]
    behind_us = [0.0] * len(ways)
    for _ in range(1 if len(ways) == 1 else ROUNDS):
        shares = _whole(jobs, _shares(jobs, ways, rule, behind_us))
        then = [
            course(share, way.line, way.workers, way.times) if share else None
            for share, way in zip(shares, ways, strict=True)
        ]
        if not found or rule.prefer is Prefer.CHEAP or joint_course(then).finished_us < joint_course(found).finished_us:
            found = then
        for n, each in enumerate(then):
            if each is None:
                continue
            if rule.prefer is Prefer.FAST:
                behind_us[n] = max(0.0, each.finished_us - each.jobs * ways[n].gap_us)
            elif rule.finish_within_us is not None and each.finished_us > rule.finish_within_us:
                behind_us[n] += each.finished_us - rule.finish_within_us + ways[n].times.mean_us
    return found


def joint_course(parts: Courses) -> Course:
    """The course of all of it."""
    taken = [each for each in parts if each is not None]
    return Course(
        jobs=sum(each.jobs for each in taken),
        submitted_us=max(each.submitted_us for each in taken),
        finished_us=max(each.finished_us for each in taken),
        executing_us=sum(each.executing_us for each in taken),
        waits_us=max(each.waits_us for each in taken),
        workers=sum(each.workers for each in taken),
    )


def _shallow(way: EndpointWay) -> EndpointWay:
    """`way` with no more in its queue than a pool leaves there."""
    depth = math.ceil(AHEAD_US / way.gap_us)
    if isinstance(way.line.queue_depth, int):
        depth = min(depth, way.line.queue_depth)
    return msgspec.structs.replace(way, line=msgspec.structs.replace(way.line, queue_depth=depth))


def _longer(way: EndpointWay, factor: float) -> EndpointWay:
    return msgspec.structs.replace(way, times=way.times.longer(factor))


# --- how much each takes


def _shares(jobs: int, ways: Sequence[EndpointWay], rule: PoolRule, behind_us: Sequence[float]) -> list[float]:
    if rule.prefer is Prefer.CHEAP:
        return _by_price(jobs, ways, rule, behind_us)
    return _ended_together(jobs, ways, behind_us)


def _ended_together(jobs: int, ways: Sequence[EndpointWay], behind_us: Sequence[float]) -> list[float]:
    """What each ends by the soonest moment at which all of it is."""
    times = zip(ways, behind_us, strict=True)
    least, most = 0.0, max(late_us + jobs * way.gap_us + way.times.mean_us for way, late_us in times)

    def ended(by_us: float) -> list[float]:
        return [
            max(0.0, by_us - late_us) / way.gap_us if by_us >= way.times.mean_us else 0.0
            for way, late_us in zip(ways, behind_us, strict=True)
        ]

    for _ in range(HALVINGS):
        middle = (least + most) / 2
        if sum(ended(middle)) >= jobs:
            most = middle
        else:
            least = middle
    return ended(most)


def _by_price(jobs: int, ways: Sequence[EndpointWay], rule: PoolRule, behind_us: Sequence[float]) -> list[float]:
    """What each takes where a dearer one works only while the cheaper ones have more than they end in time."""
    shares = [0.0] * len(ways)
    left, now_us, step = float(jobs), 0.0, jobs / STEPS
    for _ in range(STEPS):
        per_us = [0.0] * len(ways)
        in_time = 0.0
        for n, way in enumerate(ways):
            if n and left <= in_time:
                break
            per_us[n] = 1 / way.gap_us
            in_time += way.at_once + _patience_us(rule, way, now_us + behind_us[n]) / way.gap_us
        for n, each in enumerate(per_us):
            shares[n] += step * each / sum(per_us)
        now_us += step / sum(per_us)
        left -= step
    return shares


def _patience_us(rule: PoolRule, way: EndpointWay, now_us: float) -> float:
    """For how long a job may wait that is there at `now_us`."""
    if rule.finish_within_us is None:
        return rule.spill_after_us
    return max(0.0, min(rule.spill_after_us, rule.finish_within_us - way.times.mean_us - now_us))


def _whole(jobs: int, shares: Sequence[float]) -> list[int]:
    """So many jobs, in these shares, each whole."""
    in_all = sum(shares)
    exact = [jobs * share / in_all for share in shares]
    found = [math.floor(each) for each in exact]
    by_rest = sorted((n for n, each in enumerate(exact) if each), key=lambda n: found[n] - exact[n])
    for n in by_rest[: jobs - sum(found)]:
        found[n] += 1
    return found
