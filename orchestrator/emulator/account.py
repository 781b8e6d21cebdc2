"""What belongs to the account rather than to a queue: templates, secrets and endpoints, with their routes."""

import random
from collections.abc import Callable, Collection, Sequence

from orchestrator.clock import Clock
from orchestrator.emulator.account_routes import AccountApi
from orchestrator.emulator.endpoints import Endpoint, Endpoints
from orchestrator.emulator.fleet import PROPAGATION_S, WorkerView
from orchestrator.emulator.secrets import Secrets
from orchestrator.emulator.templates import Templates
from orchestrator.emulator.wire import Wire
from orchestrator.units import SECOND_US

TEMPLATE_RELEASE_S = 120.0
"""How long after its last use a template cannot be deleted (contract: up to 2 minutes)."""


class Account:
    """The emulated account; `deployed` and `removed` are as `Endpoints` says, `scale` is how fast `clock` runs."""

    def __init__(
        self,
        *,
        keys: Collection[str] | None,
        clock: Clock,
        rng: random.Random,
        wire: Wire,
        scale: float = 1.0,
        template_release_s: float = TEMPLATE_RELEASE_S,
        propagation_s: float = PROPAGATION_S,
        gpus: Collection[str] | None = None,
        deployed: Callable[[Endpoint], None] = lambda _: None,
        removed: Callable[[str], None] = lambda _: None,
        workers: Callable[[str], Sequence[WorkerView]] = lambda _: (),
    ) -> None:
        self.secrets = Secrets(rng)
        self.templates = Templates(self.secrets, rng, release_us=round(template_release_s * SECOND_US))
        self.endpoints = Endpoints(
            self.templates,
            rng,
            propagation_us=round(propagation_s * SECOND_US),
            gpus=gpus,
            deployed=deployed,
            removed=removed,
        )
        self.api = AccountApi(
            templates=self.templates,
            secrets=self.secrets,
            endpoints=self.endpoints,
            keys=keys,
            clock=clock,
            wire=wire,
            scale=scale,
            workers=workers,
        )
        self.routes = self.api.routes()
