"""The pool of one run: how many jobs each of its members may take now, and whether any."""

from collections.abc import Callable, Collection

from orchestrator.clock import Clock
from orchestrator.core.gates.gates import GateResult
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pools.member import Prefer
from orchestrator.core.pools.member_choice import MemberFacts, PoolFacts, rooms, soonest
from orchestrator.engine.pools.pool_member import PoolMember
from orchestrator.engine.runtime.progress import Progress, RecentEnds
from orchestrator.settings.run_settings import RunSettings


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

    def gate(self, endpoint: int) -> GateResult | None:
        """Whether the member gets anything; None for one that is none by now."""
        member = self.members.get(endpoint)
        return None if member is None else member.gate

    def room(self, endpoint: int) -> int:
        """How many more jobs the member may take now."""
        settings = self._settings()
        facts = PoolFacts(
            waiting=self._progress.count(State.QUEUED.value),
            prefer=settings.prefer,
            patience_us=self._patience_us(settings),
            elapsed_us=self._clock.now() - self._began_at,
        )
        return rooms(facts, self._facts_by_price()).get(endpoint, 0)

    def other_than(self, endpoint: int) -> int | None:
        """The member beside `endpoint` that is well, and where a further job is to be; None: there is no other."""
        others = {number: facts for number, facts in self._facts_by_price().items() if number != endpoint}
        if self._settings().prefer is Prefer.CHEAP:
            return next(iter(others), None)
        return soonest(others)

    def _facts_by_price(self) -> dict[int, MemberFacts]:
        """Of those that may get anything, cheapest first; of as cheap ones as they are named."""
        order = {endpoint: place for place, endpoint in enumerate(self._settings().cheapest_first)}
        well = [number for number, member in self.members.items() if member.is_well]
        well.sort(key=lambda number: order.get(self._names[number], len(order)))
        return {number: self.members[number].facts for number in well}

    def _patience_us(self, settings: RunSettings) -> int:
        """For how long a job may wait at a member before it is one for the next."""
        if not settings.finish_by:
            return settings.spill_after_us
        known = [member.facts.execution_us for member in self.members.values()]
        execution_us = max((each for each in known if each is not None), default=0.0)
        return max(0, min(settings.spill_after_us, int(settings.finish_by - self._clock.now() - execution_us)))
