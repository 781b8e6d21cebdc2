"""How many jobs each member of a pool may take now, of those that wait here.

Nothing is assigned: members take from one line, each as much as it may. A further job at a member ends after an
execution, and a wait for as many of those before it as are more than are executed at once.

*fast*: the soonest moment by which all members together can end what waits; each takes what it can end by then.
*cheap*: in the order of prices; each takes what waits no longer there than it may, and a dearer one only what is over.
*even*: where something is to be known of each, as many go to each as to the others.

How fast a member is may be found to be wrong. So none has more waiting than what it ends within `AHEAD_US`, and one of
which nothing is known takes more only as jobs end there. What a server without a queue was given stays there: while
nothing is known of it, it has few, or a small part of what waits.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from orchestrator.core.pools.member import Prefer
from orchestrator.units import SECOND_US

AHEAD_US: Final = 20 * SECOND_US
"""A member has no more waiting than what it ends within this time."""

GAIN_US: Final = 30 * SECOND_US
"""So much sooner a job has to end elsewhere that is to leave a member that is well: its cancelling costs requests, and
how fast members are is not known well."""

FIRST: Final = 4
"""So many jobs a member gets of which nothing is known, or twice its workers if that is more, and twice as many as have
succeeded. It gets no more where so many have failed one after another, and not so at another member."""

UNKNOWN_SHARE: Final = 4
"""A server without a queue, of which nothing is known, may have this part of its even share of what waits."""

NEAR_US: Final = 1_000.0
"""To within this time it is found out when all will have ended."""


class MemberFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of a member that may take jobs."""

    at_service: int
    """Jobs that are there or on their way, those of others included, and not those that have ended unheard."""

    own: int = 0
    """Those of them that are ours."""

    execution_us: float | None = None
    per_s: float | None = None
    """How many end in a second while jobs wait there."""

    succeeded: int = 0
    """Executions that have ended there, and have not failed."""

    failed_last: int = 0
    """Executions of the run that have failed there since the last that has not."""

    workers: int = 0
    """How many work, or could, as the service says; 0 where it does not."""

    has_queue: bool = True
    """Whether jobs can wait there, and are told of; else it is a server that executes whatever it is given at once."""

    is_tried: bool = False
    """Whether it was not well until now: then it has one job of ours at a time."""


class PoolFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is asked of a pool."""

    waiting: int
    """Jobs that wait here, for any member."""

    prefer: Prefer = Prefer.FAST
    patience_us: int = AHEAD_US
    """For *cheap*: for so long a job may wait at a member before it is one for the next."""

    elapsed_us: int = 0
    """For how long jobs have been sent."""

    is_even: bool = False
    """Whether each member is to have as many jobs as the others, whatever is preferred."""


def rooms(pool: PoolFacts, members: Mapping[int, MemberFacts]) -> dict[int, int]:
    """How many more jobs each of `members` may take now, which are in the order of their prices, cheapest first."""
    speeds = {number: _Speed(facts, members.values(), pool.waiting) for number, facts in members.items()}
    if pool.is_even:
        return dict.fromkeys(members, 0) | _even(pool, {n: speed for n, speed in speeds.items() if not speed.is_out})
    if pool.prefer is Prefer.CHEAP:
        return _cheap(pool, speeds)
    by_us = _ended_by_us(pool.waiting, [speed for speed in speeds.values() if not speed.is_out])
    return {number: min(speed.ends_by(by_us), speed.room(AHEAD_US)) for number, speed in speeds.items()}


def soonest(members: Mapping[int, MemberFacts], bound: Mapping[int, int]) -> int:
    """The one of `members`, of which there are some, at which a further job is expected to end first, where so many are
    `bound` for each.
    """
    with_bound = {
        number: replace(facts, at_service=facts.at_service + bound.get(number, 0)) for number, facts in members.items()
    }
    speeds = {number: _Speed(facts, members.values()) for number, facts in with_bound.items()}
    return min(speeds, key=lambda number: speeds[number].next_ends_us)


def surpluses(pool: PoolFacts, members: Mapping[int, MemberFacts]) -> dict[int, int]:
    """How many of the jobs that wait at each of `members` others would end long before it: as where the first one had
    all of them before there were others, or has fewer workers by now.
    """
    speeds = {number: _Speed(facts, members.values(), pool.waiting) for number, facts in members.items()}
    found: dict[int, int] = {}
    gain_us = GAIN_US + (pool.patience_us if pool.prefer is Prefer.CHEAP else 0)
    for number, speed in speeds.items():
        others = [each for other, each in speeds.items() if other != number]
        room = sum(each.room(AHEAD_US) for each in others) - pool.waiting
        if speed.is_known and room > 0:
            elsewhere_us = min(each.next_ends_us for each in others)
            found[number] = min(room, speed.late_for(elsewhere_us + gain_us))
    return {number: surplus for number, surplus in found.items() if surplus}


class _Speed:
    """How fast a member is thought to be, beside the `others`, while so many jobs are `waiting` for any of them."""

    def __init__(self, facts: MemberFacts, others: Collection[MemberFacts], waiting: int = 0) -> None:
        self._facts = facts
        self._first = max(FIRST, 2 * facts.workers)
        if not facts.has_queue:
            self._first = max(self._first, waiting // (UNKNOWN_SHARE * len(others)))
        execution_us = facts.execution_us
        if execution_us is None:  # of whom nothing is known is taken to be like the others
            known = [each.execution_us for each in others if each.execution_us is not None]
            execution_us = sum(known) / len(known) if known else float(SECOND_US)
        self.execution_us = max(1.0, execution_us)
        self.is_known = facts.per_s is not None
        failed_least = min((each.failed_last for each in others), default=0)
        self.is_out = not self.is_known and facts.failed_last - failed_least >= FIRST
        """Whether it gets nothing, as all that it got has failed, and that only there."""

        workers = max(1, facts.workers)
        self.per_us = (facts.per_s or workers * SECOND_US / self.execution_us) / SECOND_US
        self.at_once = max(1.0, self.per_us * self.execution_us)

        self.surplus = self.at_once - self.execution_us * self.per_us - facts.at_service
        """With what it ends in a time, parts of jobs counted: how many further ones these are."""

        self.from_us = max(self.execution_us, -self.surplus / self.per_us)
        """None of them ends before."""

    @property
    def had(self) -> int:
        """How many jobs it has, or has had with success."""
        return self._facts.at_service + self._facts.succeeded

    @property
    def next_ends_us(self) -> float:
        """When a further job ends there, from now."""
        return self.execution_us + max(0.0, self._facts.at_service + 1 - self.at_once) / self.per_us

    def ends_by(self, by_us: float) -> int:
        """How many further jobs it ends within that time."""
        if by_us < self.execution_us:
            return 0
        return max(0, math.floor(self.at_once + (by_us - self.execution_us) * self.per_us) - self._facts.at_service)

    def room(self, wait_us: float) -> int:
        """How many further jobs wait no longer there, as far as it may have any."""
        facts = self._facts
        if facts.is_tried:
            return max(0, 1 - facts.own)
        most = math.ceil(self.at_once + wait_us * self.per_us)
        if self.is_out:
            most = 0
        elif not self.is_known:
            first = self._first + 2 * facts.succeeded
            most = min(most, first) if facts.has_queue else first
        return max(0, most - facts.at_service)

    def late_for(self, by_us: float) -> int:
        """How many of the jobs there end later than that."""
        ended = max(self.at_once, self.at_once + (by_us - self.execution_us) * self.per_us)
        return max(0, self._facts.at_service - math.ceil(ended))


def _ended_by_us(waiting: int, speeds: Sequence[_Speed]) -> float:
    """The soonest time within which all together end so many further jobs.

    Parts of jobs counted, it is reckoned; only whole ones end, so it is somewhat later: each may lack one.
    """
    if waiting <= 0 or not speeds:
        return 0.0
    begun, surplus, per_us = 0, 0.0, 0.0
    least = math.inf
    for speed in sorted(speeds, key=lambda each: each.from_us):
        if least <= speed.from_us:
            break
        begun, surplus, per_us = begun + 1, surplus + speed.surplus, per_us + speed.per_us
        least = max(speed.from_us, (waiting - surplus) / per_us)
    most = least + begun / per_us
    while most - least > NEAR_US:
        middle = (least + most) / 2
        if sum(each.ends_by(middle) for each in speeds) >= waiting:
            most = middle
        else:
            least = middle
    return most


def _even(pool: PoolFacts, speeds: Mapping[int, _Speed]) -> dict[int, int]:
    share = math.ceil((pool.waiting + sum(each.had for each in speeds.values())) / max(1, len(speeds)))
    return {number: min(max(0, share - each.had), each.room(AHEAD_US)) for number, each in speeds.items()}


def _cheap(pool: PoolFacts, speeds: Mapping[int, _Speed]) -> dict[int, int]:
    found: dict[int, int] = {}
    left = pool.waiting
    for number, speed in speeds.items():
        in_time = min(speed.room(pool.patience_us), max(0, left))
        most = in_time if not found else speed.room(AHEAD_US)  # more may still be for a cheaper one
        found[number] = min(in_time, most)
        left -= in_time
        if not speed.is_known and not speed.is_out and pool.elapsed_us < pool.patience_us:
            left = 0  # how long jobs wait there is still to be found out
    return found
