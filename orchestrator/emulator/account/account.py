"""The one account there is: its secrets, templates, endpoints and pods."""

import random
from collections.abc import Callable, Collection, Sequence

from orchestrator.emulator.account.endpoints import EndpointStore, ServiceEndpoint
from orchestrator.emulator.account.pods import PodSettings, PodWorld
from orchestrator.emulator.account.secrets import SecretStore
from orchestrator.emulator.account.templates import TEMPLATE_RELEASE_S, TemplateStore
from orchestrator.emulator.jobs.fleet import WorkerView
from orchestrator.emulator.jobs.scaling_rules import PROPAGATION_S
from orchestrator.units import SECOND_US


class Account:
    """`deployed`, `removed` and `gpus` are as `EndpointStore` has them; `workers` gives those of an endpoint."""

    def __init__(
        self,
        rng: random.Random,
        *,
        pods: PodSettings | None = None,
        template_release_s: float = TEMPLATE_RELEASE_S,
        propagation_s: float = PROPAGATION_S,
        gpus: Collection[str] | None = None,
        deployed: Callable[[ServiceEndpoint], None] = lambda _: None,
        removed: Callable[[str], None] = lambda _: None,
        workers: Callable[[str], Sequence[WorkerView]] = lambda _: (),
    ) -> None:
        self.rng = rng
        self.gpus = gpus
        self.workers = workers
        self.secrets = SecretStore(rng)
        self.templates = TemplateStore(self.secrets, rng, release_us=round(template_release_s * SECOND_US))
        self.endpoints = EndpointStore(
            self.templates,
            rng,
            propagation_us=round(propagation_s * SECOND_US),
            gpus=gpus,
            deployed=deployed,
            removed=removed,
        )
        self.pods = PodWorld(pods or PodSettings(), rng, self.templates)
