"""What belongs to the account rather than to a queue: templates, secrets and endpoints, with their routes."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.clock import Clock
from orchestrator.emulator.account.endpoints import EndpointStore, ServiceEndpoint
from orchestrator.emulator.account.pods import PodSettings, PodWorld
from orchestrator.emulator.account.secrets import SecretStore
from orchestrator.emulator.account.templates import TemplateStore
from orchestrator.emulator.account_api.catalog_routes import CatalogApi
from orchestrator.emulator.account_api.log_streams import LogStreams
from orchestrator.emulator.account_api.rest_v1 import AccountApi
from orchestrator.emulator.account_api.rest_v2 import RestV2
from orchestrator.emulator.account_api.rest_v2_account import AccountV2Api
from orchestrator.emulator.account_api.retired_interfaces import retired_routes
from orchestrator.emulator.account_api.serverless_routes import ServerlessApi
from orchestrator.emulator.contract.callers import CallerAccess
from orchestrator.emulator.contract.paging import Pages
from orchestrator.emulator.http.not_found import UnservedCalls
from orchestrator.emulator.http.wire import Wire
from orchestrator.emulator.jobs.fleet import WorkerView
from orchestrator.emulator.jobs.scaling_rules import PROPAGATION_S
from orchestrator.units import SECOND_US

if TYPE_CHECKING:
    from orchestrator.emulator.account_api.graphql import GraphQLApi

TEMPLATE_RELEASE_S = 120.0
"""How long after its last use a template cannot be deleted (contract: up to 2 minutes)."""


class AccountInterfaces:
    """The emulated account; `deployed` and `removed` are as `EndpointStore` says, `scale` is how fast `clock` runs."""

    def __init__(
        self,
        *,
        access: CallerAccess,
        pages: Pages | None = None,
        clock: Clock,
        rng: random.Random,
        wire: Wire,
        scale: float = 1.0,
        template_release_s: float = TEMPLATE_RELEASE_S,
        propagation_s: float = PROPAGATION_S,
        gpus: Collection[str] | None = None,
        deployed: Callable[[ServiceEndpoint], None] = lambda _: None,
        removed: Callable[[str], None] = lambda _: None,
        workers: Callable[[str], Sequence[WorkerView]] = lambda _: (),
        without: Mapping[str, int] | None = None,
        pods: Callable[[], PodWorld] | None = None,
        notes: UnservedCalls | None = None,
        strict: bool = False,
    ) -> None:
        """`without` is as in `retired_routes`, `strict` as in `GraphQLApi`. `pods` are those of GraphQL, None for none;
        `notes` hears of what GraphQL is asked in vain.
        """
        pages = pages or Pages()
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
        self.api = AccountApi(
            templates=self.templates,
            endpoints=self.endpoints,
            documents=partial(self._documents, rng, gpus, pods, notes or UnservedCalls(), strict=strict),
            access=access,
            clock=clock,
            wire=wire,
            scale=scale,
            workers=workers,
        )
        self.rest_v2 = RestV2(access, clock=clock, rng=rng, wire=wire, scale=scale)
        serverless = ServerlessApi(
            self.rest_v2,
            endpoints=self.endpoints,
            templates=self.templates,
            clock=clock,
            pages=pages,
            workers=workers,
            logs=LogStreams(clock, scale),
        )
        more = AccountV2Api(self.rest_v2, templates=self.templates, secrets=self.secrets, clock=clock, pages=pages)
        self.routes = [*retired_routes(without or {}), *self.api.routes(), *serverless.routes(), *more.routes()]
        self.routes += CatalogApi(self.rest_v2).routes()
        """Of all interfaces, but for those that the service is without."""

    def _documents(
        self,
        rng: random.Random,
        gpus: Collection[str] | None,
        pods: Callable[[], PodWorld] | None,
        notes: UnservedCalls,
        *,
        strict: bool,
    ) -> "GraphQLApi":
        """Imported by the first request: the parser costs every run on the embedded emulator its time otherwise."""
        from orchestrator.emulator.account_api.graphql import GraphQLApi  # noqa: PLC0415
        from orchestrator.emulator.account_api.graphql_endpoints import EndpointDocuments  # noqa: PLC0415
        from orchestrator.emulator.account_api.graphql_pods import PodDocuments  # noqa: PLC0415
        from orchestrator.emulator.account_api.graphql_user import UserDocuments  # noqa: PLC0415

        world = PodWorld(PodSettings(), rng, self.templates) if pods is None else pods()
        return GraphQLApi(
            templates=self.templates,
            secrets=self.secrets,
            endpoints=EndpointDocuments(self.endpoints, self.templates),
            pods=PodDocuments(world),
            user=UserDocuments(rng, gpus),
            notes=notes,
            strict=strict,
        )
