"""Moves time on in the emulated world: a step whenever something is due, or somebody has changed what is due."""

import math
from collections.abc import Callable

import anyio

from orchestrator.clock import Clock
from orchestrator.emulator.jobs.world import Due, World
from orchestrator.units import SECOND_US


class WorldClock:
    """Steps `world` by `clock`, which runs `scale` times as fast as the event loop's."""

    def __init__(self, world: World, clock: Clock, scale: float) -> None:
        self.world = world
        self.clock = clock
        self._scale = scale
        self._bell = anyio.Event()
        self._sleeps_until: float = math.inf

    async def run(self, carry_out: Callable[[Due], None]) -> None:
        """Steps until cancelled; `carry_out` gets what each step hands out."""
        while True:
            self._bell = anyio.Event()
            now = self.clock.now()
            carry_out(self.world.step(now))
            due = self.world.next_due()
            self._sleeps_until = math.inf if due is None else due
            with anyio.move_on_after((self._sleeps_until - now) / SECOND_US / self._scale):
                await self._bell.wait()

    def ring(self) -> None:
        """End the sleep early if something is due before its end."""
        due = self.world.next_due()
        if due is not None and due < self._sleeps_until:
            self._bell.set()
