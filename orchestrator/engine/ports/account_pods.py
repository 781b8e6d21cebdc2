"""What the program needs of an account's pods that work for runs.

Whoever puts the program together says where that is to be had (`Dependencies`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from orchestrator.core.gates.costs import Price
from orchestrator.core.pods.pod_lease import ListedPod
from orchestrator.core.pods.pod_template import PodTemplate

if TYPE_CHECKING:
    from orchestrator.client import Service


class AccountPods(Protocol):
    """The pods of an account. Calls raise `OrchestratorError`: `RefusedError` of a status below 500, `NotSent` and
    `UsageError` where nothing was done; with others, that is not known.
    """

    async def template_id(self, template: PodTemplate) -> str:
        """The id of the account's template that `template` names. Raises `UsageError` where no pod of it could work."""
        ...

    async def price(self, template: PodTemplate) -> Price | None:
        """What a pod of `template` costs in an hour, as the catalog says; None where that is not told."""
        ...

    async def all(self) -> list[ListedPod]:
        """All that there are."""
        ...

    async def show(self, pod: str) -> ListedPod | None:
        """The pod of that id; None where there is none."""
        ...

    async def create(self, name: str, template: PodTemplate, template_id: str) -> ListedPod:
        """Makes one that is called so."""
        ...

    async def start(self, pod: str) -> None:
        """Boots one that rests."""
        ...

    async def stop(self, pod: str) -> None:
        """Releases its compute; its disk is kept."""
        ...

    async def terminate(self, pod: str) -> None:
        """Deletes it for good."""
        ...


MakeAccountPods = Callable[["Service", str], AccountPods]
"""Those of the account whose key a service has, at a REST URL."""
