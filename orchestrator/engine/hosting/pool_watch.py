"""Looks at the members of pools every few seconds, and moves what waits at one that is not well, or has far too much.

What waits in a member's queue is cancelled there, and sent anew once the service has confirmed that it had not begun.
That is a debt in the ledger, as any `/cancel` (`engine.maintenance.canceller`), so that a crash at any point leaves it
to the next process. Where a member answers nothing for a while nothing can be confirmed: its jobs are uncertain there.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import anyio
import msgspec
from anyio.abc import TaskStatus

from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.job import Job, Outcome
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.pools.member_health import DOUBT_US
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.engine.collecting.result_steps import on_failed
from orchestrator.engine.pools.pool_member import LOOK_S_MAX, PoolMember
from orchestrator.engine.pools.pools import Pools
from orchestrator.engine.pools.run_pool import RunPool
from orchestrator.engine.runtime.poll_loop import POLL_S_MAX, Wakeup, keep_polling
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.ledger import Ledger
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnUncertain
from orchestrator.units import SECOND_US

LOOK_S: Final = LOOK_S_MAX
"""Between two looks."""

MOVED_MAX: Final = 1_000
"""The most jobs that one look hands to the canceller, or sends anew, of each run and member."""

UNHEARD: Final = "nothing is heard of its endpoint, a member of a pool, while others answer"


class PoolWatch:
    """Of one process. Without a pool it does nothing. `owed` is woken when something is to be cancelled; `sends` says
    whether jobs of a run leave here now.
    """

    def __init__(
        self,
        ledger: Ledger,
        pools: Pools,
        settings_of: Mapping[int, RunSettings],
        owed: Subscribers,
        sends: Callable[[int], bool],
    ) -> None:
        self.is_served = False
        self._sends = sends
        self._ledger = ledger
        self._pools = pools
        self._settings_of = settings_of
        self._owed = owed
        self._wakeup = Wakeup()
        self._moving: dict[int, set[int]] = defaultdict(set)
        """The submissions that were given to the canceller, by the member where they wait, while that is not well."""

        pools.changes.add(self._wakeup.wake)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Looks until cancelled."""
        self.is_served = True
        task_status.started()
        await keep_polling(self._poll, self._wakeup, at_least_every_s=POLL_S_MAX)

    async def _poll(self) -> float:
        members = self._pools.members
        async with anyio.create_task_group() as group:
            for member in members.values():
                if self._ledger.now() >= member.looked_at + LOOK_S * SECOND_US:
                    group.start_soon(member.look)
        failing = {number for pool in self._pools.of.values() for number in pool.failing}
        changed = {number for number, member in members.items() if member.judge(fails_alone=number in failing)}
        for number in changed:
            if members[number].is_well:
                self._moving.pop(number, None)
                await self._ledger.jobs.cancels.take_back(number)
        for pool in list(self._pools.of.values()):
            for number in [number for number, member in pool.members.items() if not member.is_well]:
                if pool.has_other(number):
                    await self._leave(pool, number, pool.members[number])
            for number, surplus in pool.surpluses.items() if self._sends(pool.run) else ():
                waiting = pool.members[number].endpoint.outstanding.plan.of_run(pool.run, are_begun=False)
                first = [job for job in waiting if job.attempt <= 1]  # others are here since they failed elsewhere
                await self._move(first[-surplus:])
        self._wake_pools_of(changed)
        return LOOK_S

    def _wake_pools_of(self, changed: AbstractSet[int]) -> None:
        """What any member may take of the pools of these members may be another by now."""
        for pool in self._pools.of.values():
            if not changed.isdisjoint(pool.members):
                pool.wake()

    async def _leave(self, pool: RunPool, number: int, member: PoolMember) -> None:
        """Moves what waits at `member` of `pool` to where it is well."""
        if await self._ledger.jobs.go_home(pool.run, endpoint=number, home=pool.home):
            pool.wake()
        plan = member.endpoint.outstanding.plan
        if member.unheard_us >= DOUBT_US:
            if self._settings_of[pool.run].on_uncertain is OnUncertain.RESUBMIT:
                await self._ledger.writer.apply([_in_doubt(member, job) for job in plan.of_run(pool.run)[:MOVED_MAX]])
            return
        moving = self._moving[number]
        waiting = [job for job in plan.of_run(pool.run, are_begun=False) if job.submission not in moving][:MOVED_MAX]
        moving |= {job.submission or 0 for job in waiting}
        await self._move(waiting)

    async def _move(self, waiting: Sequence[Job]) -> None:
        """The canceller is to have a look at these."""
        ids = [job.id for job in waiting]
        if ids and await self._ledger.jobs.cancels.owe(ids, CancelWhy.MOVED, now=self._ledger.now()):
            self._owed.wake()


def _in_doubt(member: PoolMember, job: Job) -> Transition:
    """The step for `job`, of which nobody can say whether `member` executes it: it is one of its uncertain tries."""
    outcome = Outcome(
        submission=job.submission, remote_id=job.remote_id, status=None, trouble=FailureClass.UNCERTAIN, message=UNHEARD
    )
    tried = msgspec.structs.replace(job, uncertain=job.uncertain + 1)
    return on_failed(member.endpoint, tried, outcome, reason=UNHEARD)
