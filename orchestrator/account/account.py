"""An account at the service: three addresses beside the one of its jobs, and the same key."""

from collections.abc import Callable

from orchestrator.account.endpoints import Endpoints
from orchestrator.account.graphql import GraphQL
from orchestrator.account.pods import Pods
from orchestrator.account.rest import Rest, team_header
from orchestrator.account.secrets import Secrets
from orchestrator.account.templates import Templates
from orchestrator.client import Service
from orchestrator.client.serverless import service_url
from orchestrator.settings import BASE_URL_DEFAULT, GRAPHQL_URL_DEFAULT, REST_URL_DEFAULT, KeyPlace


class Account:
    """The account whose key `service` has; its connections are the service's, which closes them.

    `base_url` is where pods are (`/v2/pods` is added); `team_id` is for a signed-in user's session token that is to act
    for a team. `rest_url` is where endpoints are created (`/v1/endpoints` is added), `graphql_url` the address for
    templates and secrets, which gets the key where `graphql_key` says. Raises `UsageError` for a URL or a team that
    cannot be used.
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
    ) -> None:
        self.service = service
        """For the jobs of the account's endpoints."""
        own, clock = service.headers, service.clock
        headers = {**own, **(team_header(team_id) if team_id else {})}
        url = service_url(base_url)
        pods = Rest(url, headers, service.transport_to(url), clock)
        self.pods = Pods(pods)
        """Those of the team, if there is one."""
        url = service_url(rest_url)
        endpoints = Rest(url, own, service.transport_to(url), clock)
        self.endpoints = Endpoints(endpoints)
        """To create, change and delete them."""
        url = service_url(graphql_url)
        graphql = GraphQL(url, own, service.transport_to(url), key_place=graphql_key)
        self.templates = Templates(graphql, clock)
        self.secrets = Secrets(graphql)
        self._rests = (pods, endpoints)

    def __repr__(self) -> str:
        return f"Account({self.service!r})"

    def on_wait(self, notify: Callable[[str, float], None] | None) -> None:
        """`notify` is told why a request to the REST interfaces waits, and for how many seconds."""
        for rest in self._rests:
            rest.notify = notify
