"""The jobs of a run that one member of its pool takes: those that are bound to it, and its share of the pool's line."""

from collections.abc import Mapping

from msgspec.structs import replace

from orchestrator.core.gates.gates import GateResult
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.pools.run_pool import RunPool
from orchestrator.ledger import Claim, Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine


class MemberLine:
    """Of one run at `endpoint`, a member of its `pool`.

    A job is bound to a member that is not its home after it failed at another one, or where people chose that member.
    """

    def __init__(self, pool: RunPool, endpoint: Endpoint, ledger: Ledger) -> None:
        self.home = pool.home
        """The number of the endpoint in whose line the jobs of the pool wait."""

        self.is_home = pool.home == endpoint.id
        self._news = 0
        self._bound_from: int | None = None
        """When a job may be due that waits for this member alone; None where none does, as far as is known."""

        self._pool = pool
        self._endpoint = endpoint
        self._ledger = ledger
        self.on_queued()

    def on_queued(self) -> None:
        """There may be something to claim."""
        self._news += 1
        self._bound_from = None if self.is_home else 0  # at home there is one line only

    @property
    def may_be_bound(self) -> bool:
        """Whether jobs may be due that wait for this member alone."""
        return self._bound_from is not None and self._bound_from <= self._endpoint.clock.now()

    @property
    def room(self) -> int:
        """How many more jobs the member may take now, those that are bound to it among them."""
        return max(self.share, int(self.may_be_bound))

    @property
    def share(self) -> int:
        """How many more of those that are bound to nobody."""
        return self._pool.room(self._endpoint.id)

    @property
    def parts(self) -> Mapping[int, float]:
        """Which part of the jobs each member ends, by its number; none while nobody knows."""
        return self._pool.parts()

    @property
    def next_room_s(self) -> float:
        """Where it may take none: seconds after which it is worth while to ask again, without news."""
        return self._pool.next_room_s(self._endpoint.id)

    @property
    def gate(self) -> GateResult | None:
        """Whether it gets anything; None where it is no member any more."""
        return self._pool.gate(self._endpoint.id)

    async def claim_bound(self, line: ClaimLine, most: int) -> list[Claim]:
        """Claims up to `most` of the jobs that are bound to it, which stand in its own `line`."""
        claimed_jobs, settings = self._endpoint.claimed, self._endpoint.settings_of[self._pool.run]
        taken = await self._ledger.jobs.claims.take(
            line, most=most, bytes_max=claimed_jobs.room_bytes, settings=settings
        )
        claimed_jobs.add(taken.claims)
        if len(taken.claims) < most:
            await self._look_for_bound()
        self._pool.claimed_bound(self._endpoint.id, len(taken.claims), is_all=self._bound_from is None)
        return taken.claims

    async def _look_for_bound(self) -> int | None:
        """Finds out when the next job is due that waits for this member alone."""
        news = self._news
        found = await self._ledger.jobs.next_queued_at(
            self._pool.run, endpoint=self._endpoint.id, by_retry=False, now=self._endpoint.clock.now()
        )
        if news == self._news:  # else what came meanwhile may not have been seen
            self._bound_from = found
        return found

    def along_home(self, line: ClaimLine) -> ClaimLine:
        """As its own `line`, but the one of the pool, along which it takes what is bound to nobody."""
        return replace(line, endpoint=self.home, taker=self._endpoint.id, not_failed_at=self._left_to_others)

    @property
    def _left_to_others(self) -> int | None:
        """Its number, where jobs that have failed here last are for another member, as one is well."""
        return self._endpoint.id if self._pool.has_other(self._endpoint.id) else None

    async def next_queued_at(self, now: int, after: int) -> int | None:
        """When the next job is due that it may take by `/run`: one that is bound to it, or, after `after`, one in the
        line of the pool; 0 for at once, None where there is none.
        """
        home_at = await self._ledger.jobs.next_queued_at(
            self._pool.run,
            endpoint=self.home,
            by_retry=False,
            now=now,
            after=after,
            not_failed_at=self._left_to_others,
        )
        if self.is_home:
            return home_at
        bound_at = await self._look_for_bound()
        return min((at for at in (bound_at, home_at) if at is not None), default=None)
