"""An account at the service: three addresses beside the one of its jobs, and the same key."""

from collections.abc import Callable

from orchestrator.account.endpoints.endpoints import EndpointClient, Endpoints
from orchestrator.account.endpoints.endpoints_graphql import EndpointsGraphQL
from orchestrator.account.endpoints.endpoints_rest import EndpointsV1, EndpointsV2
from orchestrator.account.pods.pods import Pods
from orchestrator.account.templates.secrets import SecretClient, Secrets, SecretsGraphQL, SecretsV2
from orchestrator.account.templates.templates import TemplateClient, Templates
from orchestrator.account.templates.templates_graphql import TemplatesGraphQL
from orchestrator.account.templates.templates_rest import TemplatesV1, TemplatesV2
from orchestrator.account.transport.fallback import F, InterfaceFallback, interfaces_elsewhere
from orchestrator.account.transport.graphql_client import GraphQL
from orchestrator.account.transport.rest_client import Rest
from orchestrator.client import Service
from orchestrator.core.service.account_interfaces import Interface, Noun, tried
from orchestrator.settings.words_and_defaults import BASE_URL_DEFAULT, GRAPHQL_URL_DEFAULT, REST_URL_DEFAULT, KeyPlace


class Account:
    """The account whose key `service` has; its connections are the service's, which closes them.

    `base_url` is where REST v2 is (`/v2/pods` is added, and so on), `rest_url` where v1 is (`/v1/endpoints`),
    `graphql_url` the address of GraphQL, which gets the key where `graphql_key` says. `interface` says which of them is
    spoken for endpoints, templates and secrets: `auto` is the newest that the service has, among those whose address
    was set if one was. `team_id` is for a signed-in user's session token that is to act for a team, which REST v2 alone
    can say. Raises `UsageError` for a URL or a team that cannot be used.
    """

    def __init__(
        self,
        service: Service,
        *,
        base_url: str = BASE_URL_DEFAULT,
        team_id: str | None = None,
        rest_url: str = REST_URL_DEFAULT,
        graphql_url: str = GRAPHQL_URL_DEFAULT,
        graphql_key: KeyPlace = "query",
        interface: Interface = Interface.AUTO,
    ) -> None:
        self.service = service
        """For the jobs of the account's endpoints."""
        newer, older = Rest(service, base_url, team_id), Rest(service, rest_url)
        graphql = GraphQL(service, graphql_url, key_place=graphql_key)
        self.pods = Pods(newer)
        """Those of the team, if there is one."""
        there = interfaces_elsewhere({Interface.V2: base_url, Interface.V1: rest_url, Interface.GRAPHQL: graphql_url})

        def forms(noun: Noun, *each: F) -> InterfaceFallback[F]:
            order = tried(noun, interface, there)
            if team_id is not None and Interface.V2 in order:
                order = (Interface.V2,)
            return InterfaceFallback(noun, interface, [form for of in order for form in each if form.interface is of])

        endpoints: InterfaceFallback[EndpointClient] = forms(
            Noun.ENDPOINTS, EndpointsV2(newer), EndpointsV1(older), EndpointsGraphQL(graphql)
        )
        self.endpoints = Endpoints(endpoints)
        """To create, change and delete them."""
        templates: InterfaceFallback[TemplateClient] = forms(
            Noun.TEMPLATES, TemplatesV2(newer), TemplatesV1(older), TemplatesGraphQL(graphql)
        )
        self.templates = Templates(templates, service.clock)
        secrets: InterfaceFallback[SecretClient] = forms(Noun.SECRETS, SecretsV2(newer), SecretsGraphQL(graphql))
        self.secrets = Secrets(secrets)
        self._rests = (newer, older)

    def __repr__(self) -> str:
        return f"Account({self.service!r})"

    def on_wait(self, notify: Callable[[str, float], None] | None) -> None:
        """`notify` is told why a request to the REST interfaces waits, and for how many seconds."""
        for rest in self._rests:
            rest.notify = notify
