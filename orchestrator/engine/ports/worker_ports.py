"""What the program needs of an account: how many workers an endpoint may have, what they cost, and which endpoint has a
name. Whoever puts the program together says where that is to be had (`Dependencies`).
"""

from collections.abc import Callable
from typing import Protocol

from orchestrator.client import Service
from orchestrator.core.gates.costs import Price
from orchestrator.core.gates.scaling_override import Bounds


class WorkerBounds(Protocol):
    """How many workers the endpoints of an account may have. Calls raise `OrchestratorError`."""

    async def show(self, endpoint: str) -> Bounds:
        """How many at least and at most."""
        ...

    async def set(self, endpoint: str, bounds: Bounds) -> None:
        """Makes it so many."""
        ...


class WorkerPrices(Protocol):
    """What a second of a worker costs. Calls raise `OrchestratorError`."""

    async def per_second(self, endpoint: str) -> Price | None:
        """At that endpoint; None where nobody says."""
        ...


class AccountEndpointIds(Protocol):
    """The ids of the endpoints of an account. Calls raise `OrchestratorError`."""

    async def of(self, given: str) -> str:
        """That of the endpoint that is called so, or has this id."""
        ...


MakeEndpointIds = Callable[[Service, str], AccountEndpointIds]
"""Those of the account whose key a service has, at a REST URL."""

MakePrices = Callable[[Service, str], WorkerPrices]
"""Those of the account whose key a service has, at a REST URL."""

MakeBounds = Callable[[Service, str], WorkerBounds]
"""Those of the account whose key a service has, at a REST URL."""
