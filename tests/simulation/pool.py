"""The pool of a simulated world: what its first run is told of, and the workers of its members as time goes by."""

import math

import anyio
from msgspec.structs import replace

from orchestrator.core.pools.member import MemberSettings
from orchestrator.emulator.jobs.scaling_rules import Scaling, fixed
from tests.simulation.plan import MemberTrouble, Plan, PoolPlan
from tests.simulation.world import HERE, POOL_ENDPOINTS, SimulatedService


def named_members(plan: Plan, *, process: int) -> tuple[MemberSettings, ...]:
    """Those that the so manieth process of the first run is told of; none where that is one endpoint."""
    named = 1 if plan.pool is None else plan.pool.named_to(process)
    names = [endpoint_named(plan, HERE, each) for each in POOL_ENDPOINTS[:named]]
    return tuple(map(MemberSettings, names)) if named > 1 else ()


def endpoint_named(plan: Plan, host: str, endpoint: str) -> str:
    """What a run is told of an endpoint at `host`: its id, or the URL of a server."""
    return f"http://{host}/v2/{endpoint}/openai" if plan.at_url else endpoint


class MemberFleets:
    """The workers of the members of `pool`."""

    def __init__(self, pool: PoolPlan) -> None:
        self._pool = pool
        self.speeds = dict(zip(POOL_ENDPOINTS, pool.speeds, strict=False))
        """How many times as long executions take at which endpoint."""

    def scaling(self, at_s: float) -> dict[str, Scaling]:
        """The workers of each endpoint at that time."""
        return {POOL_ENDPOINTS[member]: self._of(member, at_s) for member in range(len(self._pool.workers))}

    def _of(self, member: int, at_s: float) -> Scaling:
        troubles, workers = self._pool.troubles(member, at_s), fixed(self._pool.workers[member])
        if MemberTrouble.WITHOUT_WORKERS in troubles:
            return fixed(0)
        return replace(workers, machines=0) if MemberTrouble.THROTTLED in troubles else workers

    def broken(self, at_s: float) -> set[str]:
        """The endpoints where executions fail at that time."""
        members = range(len(self._pool.workers))
        return {POOL_ENDPOINTS[n] for n in members if MemberTrouble.BROKEN in self._pool.troubles(n, at_s)}

    async def keep(self, service: SimulatedService) -> None:
        """Gives the endpoints of `service` the workers that they should have, whenever these are others."""
        weather = self._pool.weather
        for at_s in sorted({at_s for each in weather for at_s in (each.at_s, each.until_s) if math.isfinite(at_s)}):
            await anyio.sleep_until(at_s)
            service.broken = self.broken(at_s)
            for endpoint, scaling in self.scaling(at_s).items():
                service.scale(endpoint, scaling)
