"""The account of a simulated world: how many workers the first run's endpoint may have, and who changed that when.

It refuses, hangs, or carries out what it then does not answer, as the plan has it; and somebody else may change the
bounds meanwhile.
"""

import random
from typing import NamedTuple

import anyio

from orchestrator.client.jobs.refusals import Refusal, RefusedError
from orchestrator.core.gates.costs import Price
from orchestrator.core.gates.scaling_override import Bounds
from orchestrator.emulator.jobs.scaling_rules import fixed
from orchestrator.errors import Unanswered
from tests.simulation.clock import VirtualClock
from tests.simulation.plan import AccountTrouble, Plan
from tests.simulation.world import ENDPOINT, SimulatedService

HANGS_S = 120.0
BY_HAND = 9
"""As many as somebody else makes of them, and nothing of ours does."""


class BoundsChange(NamedTuple):
    """The endpoint may have so many workers from then on."""

    at: int
    """By the true clock."""

    bounds: Bounds
    by_hand: bool = False


class SimulatedAccount:
    """Of one world."""

    def __init__(self, plan: Plan, service: SimulatedService, clock: VirtualClock) -> None:
        self._plan = plan
        self._service = service
        self._clock = clock
        self._chance = random.Random(f"account {plan.seed}")
        self.before = Bounds(0, plan.workers)
        self.now = self.before
        self.changes: list[BoundsChange] = []
        """All of them, in their order."""

    async def meddle(self) -> None:
        """Somebody else changes the bounds, if anybody does."""
        scaling = self._plan.scaling
        if scaling is not None and scaling.by_hand_at_s is not None:
            await anyio.sleep_until(scaling.by_hand_at_s)
            self._become(Bounds(0, BY_HAND), by_hand=True)

    async def id_of(self, given: str) -> str:
        return given

    async def bounds(self, _endpoint: str) -> Bounds:
        await anyio.sleep(self._plan.travel_s)
        return self.now

    async def set_bounds(self, endpoint: str, bounds: Bounds) -> None:
        await anyio.sleep(self._plan.travel_s)
        trouble = self._trouble()
        if trouble is AccountTrouble.REFUSES:
            raise RefusedError(f"endpoints update {endpoint}", Refusal(status=403, title="Forbidden"))
        if trouble is AccountTrouble.FAILS:
            raise RefusedError(f"endpoints update {endpoint}", Refusal(status=500, title="Internal Server Error"))
        self._become(bounds, by_hand=False)
        await anyio.sleep(HANGS_S if trouble is AccountTrouble.HANGS else self._plan.travel_s)
        if trouble is AccountTrouble.LOSES:
            raise Unanswered(f"endpoints update {endpoint}: the answer was lost")

    async def price(self, _endpoint: str) -> Price | None:
        return None

    async def timeout_ms(self, _endpoint: str) -> int | None:
        return None

    def _trouble(self) -> AccountTrouble | None:
        scaling = self._plan.scaling
        if scaling is None or anyio.current_time() >= self._plan.calm_at_s or self._chance.random() > scaling.share:
            return None
        return self._chance.choice(scaling.troubles) if scaling.troubles else None

    def _become(self, bounds: Bounds, *, by_hand: bool) -> None:
        self.now = bounds
        self.changes.append(BoundsChange(self._clock.now(), bounds, by_hand))
        self._service.scale(ENDPOINT, fixed(bounds.most))
