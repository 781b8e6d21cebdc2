"""What the engine needs of an account: how many workers an endpoint may have. Whoever puts the program together says
where that is to be had (`Dependencies.bounds`).
"""

from collections.abc import Callable
from typing import Protocol

from orchestrator.client import Service
from orchestrator.core.lending import Bounds


class WorkerBounds(Protocol):
    """How many workers the endpoints of an account may have. Calls raise `OrchestratorError`."""

    async def show(self, endpoint: str) -> Bounds:
        """How many at least and at most."""
        ...

    async def set(self, endpoint: str, bounds: Bounds) -> None:
        """Makes it so many."""
        ...


MakeBounds = Callable[[Service, str], WorkerBounds]
"""Those of the account whose key a service has, at a REST URL."""
