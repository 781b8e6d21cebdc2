"""Whoever is told of the runs of a world, by a webhook: hangs, sends away, wants a rest, breaks, or hangs up."""

import random
from collections.abc import Callable
from itertools import accumulate
from typing import Final, NamedTuple

import anyio
import httpx

from tests.simulation.clock import VirtualClock
from tests.simulation.loop import PART
from tests.simulation.plan import Lie, Plan

OPS: Final = "ops"
"""The target by which one of them is known; the other one's address is written out with the runs."""

ADDRESS: Final = "http://written-out/hook"
HOOK_VARIABLE: Final = "OPS_HOOK"
HOOK: Final = "http://ops/hook-9f8e7d6c5b4a3928"
"""A secret, which stands in that variable."""

NOTIFY: Final = f"{OPS}\n{ADDRESS}"

PAGE: Final = b"<html>thanks</html>" * 10_000
"""What some answer who have taken it: more than anybody reads."""

ANSWERED_S: Final = 1.0
NEVER_S: Final = 1e6


class Heard(NamedTuple):
    """A message that has reached somebody."""

    at: int
    number: str
    body: bytes
    lie: Lie | None
    """What it was answered instead of being taken; None: it was taken, and that was said."""

    wait_s: float
    """For so long nothing was wanted, as the answer said."""

    sender: str
    """Which part of the world had sent it."""


class Receivers(httpx.AsyncBaseTransport):
    """All of them. They have heard what is in `heard`, in that order."""

    def __init__(self, plan: Plan, clock: VirtualClock, say: Callable[[str, str, str], None]) -> None:
        self._plan, self._clock, self._say = plan, clock, say
        self._chance = random.Random(f"receivers {plan.seed}")
        self.is_calm = False
        self.heard: list[Heard] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Takes a message, or does something else with it. Raises as a network does."""
        body, number = await request.aread(), request.headers["webhook-id"]
        lie, wait_s = self._lie(), 0.0
        await anyio.sleep(self._chance.uniform(0, ANSWERED_S))
        if lie is Lie.BUSY:
            wait_s = self._chance.choice((1.0, 30.0, 600.0))
        self.heard.append(Heard(self._clock.now(), number, body, lie, wait_s, str(PART.get())))
        self._say("receiver", "takes it" if lie is None else lie.value, number)
        match lie:
            case Lie.HANGS:
                await anyio.sleep(NEVER_S)
                raise httpx.ReadError("hung")
            case Lie.CLOSES:
                raise httpx.ReadError("closed")
            case Lie.REDIRECTS:
                return httpx.Response(307, headers={"Location": "http://elsewhere/hook"})
            case Lie.BUSY:
                return httpx.Response(429, headers={"Retry-After": f"{wait_s:g}"})
            case Lie.BREAKS:
                return httpx.Response(500, content=b"<h1>broken</h1>")
            case None:
                return self._chance.choice((httpx.Response(204), httpx.Response(200, content=PAGE)))

    def _lie(self) -> Lie | None:
        if self.is_calm:
            return None
        rates = dict(self._plan.receivers or ())
        drawn = self._chance.random()
        return next((lie for lie, upto in zip(rates, accumulate(rates.values()), strict=True) if drawn < upto), None)
