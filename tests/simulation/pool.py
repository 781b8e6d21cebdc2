"""The pool of a simulated world: what its first run is told of, and the workers of its members as time goes by."""

import math
from collections.abc import Sequence

import anyio
from msgspec.structs import replace

from orchestrator.core.lanes.via import Via
from orchestrator.core.pools.member import MemberSettings
from orchestrator.core.text.durations import Policy
from orchestrator.emulator.jobs.scaling_rules import Scaling, fixed
from orchestrator.settings.run_settings import RunSettings
from tests.simulation.plan import Plan
from tests.simulation.pool_plan import MemberTrouble, PoolPlan
from tests.simulation.world import HERE, POOL_ENDPOINTS, SERVER_PATH, SimulatedService


def named_members(plan: Plan, *, process: int) -> tuple[MemberSettings, ...]:
    """Those that the so manieth process of the first run is told of; none where that is one endpoint."""
    named = 1 if plan.pool is None else plan.pool.named_to(process)
    return tuple(_member(plan, each) for each in range(named)) if named > 1 else ()


def _member(plan: Plan, member: int) -> MemberSettings:
    name, via = POOL_ENDPOINTS[member], None if plan.pool is None else plan.pool.via(member)
    if via is None or via.has_queue:
        return MemberSettings(endpoint_named(plan, HERE, name), via=via)
    return MemberSettings(_server(HERE, name), via=via, path=SERVER_PATH if via is Via.HTTP else None)


def endpoint_named(plan: Plan, host: str, endpoint: str) -> str:
    """What a run is told of an endpoint at `host`: its id, or the URL of a server."""
    return _server(host, endpoint) if plan.at_url else endpoint


def _server(host: str, endpoint: str) -> str:
    return f"http://{host}/v2/{endpoint}/openai"


def policy_of(plan: Plan, members: Sequence[MemberSettings]) -> Policy:
    """What a run at these says of its jobs: a TTL only where they wait somewhere."""
    has_queue = any(each.has_queue for each in RunSettings(via=plan.via, members=tuple(members)).vias)
    return Policy(
        execution_timeout_ms=round(plan.execution_timeout_s * plan.time_scale * 1000),
        ttl_ms=round(plan.ttl_s * plan.time_scale * 1000) if has_queue else None,
    )


def lane_at(plan: Plan, run: str, endpoint: str) -> Via:
    """By which lane jobs of that run leave for an endpoint, as it was told of that."""
    if plan.pool is not None and run == plan.runs[0].name:
        for member in range(len(plan.pool.vias)):
            if (told := _member(plan, member)).endpoint == endpoint:
                return told.via or plan.via
    return plan.via


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
