"""The pools of the runs that are served, and their members."""

from collections.abc import Sequence

from orchestrator.core.jobs.lifecycle import TERMINAL
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.pools.member_outcomes import execution_failed
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.endpoint.run_homes import RunHomes
from orchestrator.engine.pools.pool_member import PoolMember
from orchestrator.engine.pools.run_pool import RunPool
from orchestrator.engine.runtime.subscribers import Subscribers


class Pools:
    """Of one process."""

    def __init__(self, homes: RunHomes) -> None:
        self.of: dict[int, RunPool] = {}
        """By the numbers of their runs."""

        self.changes = Subscribers()
        """Who is woken when there is a further member, or something has changed about one."""

        self._homes = homes
        self._members: dict[int, PoolMember] = {}

    @property
    def members(self) -> dict[int, PoolMember]:
        """All that are in any pool, by the numbers of their endpoints."""
        return {number: member for pool in self.of.values() for number, member in pool.members.items()}

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """Takes in the steps of a transaction."""
        if not self.of:
            return
        for step in taken:
            run, number = step.after.run, step.before.endpoint
            if (pool := self.of.get(run)) is None:
                continue
            if step.after.state in TERMINAL and (ends := pool.ends.get(number)):
                ends.add(1)
            if (member := pool.members.get(number)) and (is_failed := execution_failed(step)) is not None:
                member.note_end(run, is_failed=is_failed)

    def open(self, pool: RunPool) -> RunPool:
        """`pool` is served from now on."""
        self.of[pool.run] = self._homes.pools[pool.run] = pool
        self._homes.of[pool.run] = pool.home
        return pool

    def forget(self, run: int) -> None:
        """The run has no pool any more."""
        self.of.pop(run, None)
        for member in self._members.values():
            member.outcomes.pop(run, None)
        self._homes.pools.pop(run, None)
        self._homes.of.pop(run, None)
        self._homes.members.pop(run, None)

    def member(self, endpoint: Endpoint) -> PoolMember:
        """`endpoint`, as a member of pools."""
        if endpoint.id not in self._members:
            self._members[endpoint.id] = PoolMember(endpoint)
            endpoint.changes.add(self.changes.wake)
            self.changes.wake()
        return self._members[endpoint.id]
