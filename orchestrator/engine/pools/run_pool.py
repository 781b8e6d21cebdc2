"""The pool of one run: how many jobs each of its members may take now, and whether any."""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from orchestrator.clock import Clock
from orchestrator.core.gates.gates import GateResult
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pools.member import Prefer
from orchestrator.core.pools.member_choice import MemberFacts, PoolFacts, rooms, soonest, surpluses
from orchestrator.core.pools.member_outcomes import fails_alone
from orchestrator.engine.pools.pool_member import PoolMember
from orchestrator.engine.runtime.progress import Progress, RecentEnds
from orchestrator.settings.run_settings import RunSettings

LOOK_AGAIN_S_MAX: Final = 1.0
"""After that a member looks whether it may take more in any case: others may have come to be slower, or unwell."""


class RunPool:
    """Of one run. `home` is the number of the endpoint in whose line its jobs wait."""

    def __init__(
        self, run: int, home: int, *, progress: Progress, settings: Callable[[], RunSettings], clock: Clock
    ) -> None:
        self.run = run
        self.home = home
        self.members: dict[int, PoolMember] = {}
        """By the numbers of their endpoints, in the order in which the settings name them."""

        self.ends: dict[int, RecentEnds] = {}
        """How many of its jobs have ended at each, of late."""

        self._bound: Counter[int] = Counter()
        """How many jobs wait for which member alone, as far as is known."""

        self._names: dict[int, str] = {}
        self._progress = progress
        self._settings = settings
        self._clock = clock
        self._began_at = clock.now()

    def add(self, number: int, name: str, member: PoolMember) -> None:
        """`member` is one of it, the endpoint of that number and name."""
        self.members[number], self._names[number] = member, name
        if number not in self.ends:
            self.ends[number] = RecentEnds(self._clock)

    def keep(self, numbers: Collection[int]) -> None:
        """Those that have no such number are members no more."""
        for number in self.members.keys() - numbers:
            del self.members[number], self._names[number]

    def wake(self) -> None:
        """Something has changed about what its members may take."""
        for member in self.members.values():
            member.endpoint.changes.wake()

    def gate(self, endpoint: int) -> GateResult | None:
        """Whether the member gets anything; None for one that is none by now."""
        member = self.members.get(endpoint)
        return None if member is None else member.gate

    def room(self, endpoint: int) -> int:
        """How many more jobs the member may take now."""
        return rooms(self._facts, self._facts_by_price()).get(endpoint, 0)

    @property
    def failing(self) -> set[int]:
        """The members at which its executions fail, and not so at the others."""
        well = {number: member.outcomes[self.run] for number, member in self.members.items() if member.is_well}
        return {
            number
            for number, own in well.items()
            if fails_alone(own, [each for other, each in well.items() if other != number])
        }

    @property
    def surpluses(self) -> dict[int, int]:
        """How many jobs wait at which member that others would have ended long before."""
        return surpluses(self._facts, self._facts_by_price())

    @property
    def _facts(self) -> PoolFacts:
        settings = self._settings()
        return PoolFacts(
            waiting=self._progress.count(State.QUEUED.value),
            prefer=settings.prefer,
            is_even=settings.is_probe,
            patience_us=self._patience_us(settings),
            elapsed_us=self._clock.now() - self._began_at,
        )

    def next_room_s(self, endpoint: int) -> float:
        """Where the member may take none: seconds after which it is worth while to ask again, without news."""
        member = self.members.get(endpoint)
        return LOOK_AGAIN_S_MAX if member is None else min(member.ends_every_s, LOOK_AGAIN_S_MAX)

    def parts(self) -> dict[int, float]:
        """Which part of its jobs each member ends that is well, by how fast they are; none while that is not known of
        each.
        """
        per_s = {number: member.pace.per_s or 0.0 for number, member in self.members.items() if member.is_well}
        return {number: each / sum(per_s.values()) for number, each in per_s.items()} if all(per_s.values()) else {}

    def has_other(self, endpoint: int) -> bool:
        """Whether a member beside `endpoint` is well."""
        return any(member.is_well for number, member in self.members.items() if number != endpoint)

    def other_than(self, endpoint: int) -> int | None:
        """Where a job is to wait that failed at `endpoint`: for the member beside it that is well, and would end it
        soonest, after what waits for that one already; for any, where `endpoint` takes nothing itself. None where no
        other is well.
        """
        if not self.has_other(endpoint):
            return None
        member = self.members.get(endpoint)
        if member is None or not member.is_well:
            return self.home
        others = {number: facts for number, facts in self._facts_by_price().items() if number != endpoint}
        if len(others) > 1:
            others.pop(self.home, None)  # in whose line it might be taken by `endpoint` again
        found = next(iter(others)) if self._settings().prefer is Prefer.CHEAP else soonest(others, self._bound)
        self._bound[found] += found != self.home
        return found

    def claimed_bound(self, endpoint: int, claimed: int, *, is_all: bool) -> None:
        """The member has claimed so many of the jobs that wait for it alone, and with `is_all` there are no more."""
        self._bound[endpoint] = 0 if is_all else max(0, self._bound[endpoint] - claimed)

    def _facts_by_price(self) -> dict[int, MemberFacts]:
        """Of those that may get anything, cheapest first; of as cheap ones as they are named."""
        order = {endpoint: place for place, endpoint in enumerate(self._settings().cheapest_first)}
        well = [number for number, member in self.members.items() if member.is_well]
        well.sort(key=lambda number: order.get(self._names[number], len(order)))
        return {number: self.members[number].facts(self.run) for number in well}

    def _patience_us(self, settings: RunSettings) -> int:
        """For how long a job may wait at a member before it is one for the next."""
        if not settings.finish_by:
            return settings.spill_after_us
        known = [member.facts(self.run).execution_us for member in self.members.values()]
        execution_us = max((each for each in known if each is not None), default=0.0)
        left_us = int(settings.finish_by - self._clock.now() - 2 * execution_us)  # who begins together ends together
        return max(0, min(settings.spill_after_us, left_us))
