"""What the program needs of an account: which endpoint has a name, how many workers it may have, and what they cost.

Whoever puts the program together says where that is to be had (`Dependencies`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from orchestrator.core.gates.costs import Price
from orchestrator.core.gates.scaling_override import Bounds

if TYPE_CHECKING:
    from orchestrator.client import Service


class AccountEndpoints(Protocol):
    """The endpoints of an account. Calls raise `OrchestratorError`."""

    async def id_of(self, given: str) -> str:
        """The id of the one that is called so, or has this id."""
        ...

    async def bounds(self, endpoint: str) -> Bounds:
        """How many workers it may have, at least and at most."""
        ...

    async def set_bounds(self, endpoint: str, bounds: Bounds) -> None:
        """Makes it so many."""
        ...

    async def timeout_ms(self, endpoint: str) -> int | None:
        """How long an execution may take whose job does not say; 0: as long as the service allows. None where nobody
        says.
        """
        ...

    async def price(self, endpoint: str) -> Price | None:
        """What a second of a worker costs there; None where nobody says."""
        ...


MakeAccountEndpoints = Callable[["Service", str], AccountEndpoints]
"""Those of the account whose key a service has, at a REST URL."""
