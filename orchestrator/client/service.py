"""One service and one key: what all its endpoints share, and the check before a run."""

from collections.abc import Callable, Mapping
from typing import Final, Self

import anyio
import httpx
import tenacity

from orchestrator.client.endpoints import Endpoints
from orchestrator.client.graphql import GraphQL
from orchestrator.client.jobs import EndpointJobs
from orchestrator.client.places import Places
from orchestrator.client.pods import Pods
from orchestrator.client.rate_limiter import RateLimiter
from orchestrator.client.rest import Rest, team_header
from orchestrator.client.secrets import Secrets
from orchestrator.client.serverless import ServerlessEndpoint, endpoint_url, request_headers, service_url
from orchestrator.client.templates import Templates
from orchestrator.client.transport import Transport, environment_proxy
from orchestrator.clock import Clock, SystemClock
from orchestrator.core.pacing import Limit, Operation, Pacing
from orchestrator.core.responses import Answer
from orchestrator.errors import NotSent, Unanswered
from orchestrator.settings import BASE_URL_DEFAULT, GRAPHQL_URL_DEFAULT, REST_URL_DEFAULT, KeyPlace

CHECK_TRIES: Final = 3
CHECK_PAUSE_S: Final = 1.0
_SERVER_ERROR_MIN: Final = 500


class Service:
    """The service at `serverless_url`, spoken to with `api_key`; `async with` closes its connections at the end.

    `clock` is the system's where none is brought. `limits` replaces rows of the contract's table for each endpoint.
    `transport` is what carries the requests, by default aiohttp; then the environment's proxy is used if `trust_env`,
    since behind a proxy nothing else works. `base_url` is where the REST interface is (`/v2/...` is added); `team_id`
    is for a signed-in user's session token that is to act for a team. `rest_url` is where endpoints are created
    (`/v1/endpoints` is added), `graphql_url` the address for templates and secrets, which gets the key where
    `graphql_key` says. Raises `UsageError` for a URL or a key that cannot be used.
    """

    def __init__(
        self,
        serverless_url: str,
        api_key: str,
        clock: Clock | None = None,
        *,
        limits: Mapping[Operation, Limit] | None = None,
        pacing: Pacing = "even",
        transport: httpx.AsyncBaseTransport | None = None,
        trust_env: bool = True,
        base_url: str = BASE_URL_DEFAULT,
        team_id: str | None = None,
        rest_url: str = REST_URL_DEFAULT,
        graphql_url: str = GRAPHQL_URL_DEFAULT,
        graphql_key: KeyPlace = "query",
    ) -> None:
        clock = clock or SystemClock()
        url = service_url(serverless_url)
        self._url = str(url)
        self._headers = request_headers(api_key)
        self._clock = clock
        self._limits = dict(limits or {})
        self._pacing: Pacing = pacing
        self._carrier = transport
        self._trust_env = trust_env
        self._transports: dict[str | None, Transport] = {}
        self._transport = self._transport_to(url)
        self._endpoints: dict[str, EndpointJobs] = {}
        rest_headers = {**self._headers, **(team_header(team_id) if team_id else {})}
        pods_url = service_url(base_url)
        self.pods = Pods(Rest(pods_url, rest_headers, self._transport_to(pods_url), clock))
        """The account's pods, or those of the team `team_id`, at `base_url`."""
        endpoints_url = service_url(rest_url)
        self.endpoints = Endpoints(Rest(endpoints_url, self._headers, self._transport_to(endpoints_url), clock))
        """The account's endpoints, to create, change and delete them; `endpoint` is for their jobs."""
        address = service_url(graphql_url)
        graphql = GraphQL(address, api_key, self._transport_to(address), key_place=graphql_key)
        self.templates = Templates(graphql, clock)
        """The account's templates."""
        self.secrets = Secrets(graphql)
        """The account's secrets."""

    def __repr__(self) -> str:
        return f"Service({self._url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def endpoint(self, endpoint_id: str) -> EndpointJobs:
        """The endpoint of that id, always the same object: its limits hold for everybody who uses it.

        Raises `UsageError` for what is no endpoint id, and where the environment names a proxy that cannot be used.
        """
        endpoint = self._endpoints.get(endpoint_id)
        if endpoint is None:
            self._transport.check_proxy()
            throttle = RateLimiter(self._clock, self._limits, pacing=self._pacing)
            base = endpoint_url(self._url, endpoint_id)
            endpoint = EndpointJobs(ServerlessEndpoint(base, self._headers, throttle, self._transport, self._clock))
            self._endpoints[endpoint_id] = endpoint
        return endpoint

    @property
    def down(self) -> Places:
        """The places of large answers on the line from the service."""
        return self._transport.down

    def on_wait(self, notify: Callable[[str, float], None] | None) -> None:
        """`notify` is told why a request to the REST interfaces waits, and for how many seconds."""
        self.pods.on_wait(notify)
        self.endpoints.on_wait(notify)

    async def check(self, endpoint_id: str, *, pause_s: float = CHECK_PAUSE_S) -> Answer:
        """`GET /health` before a run: are the URL, the key and the endpoint right?

        Asks up to `CHECK_TRIES` times while the request fails or the service does (5xx), with `pause_s` in between;
        returns the last answer, whatever its status, or raises the last `NotSent` or `Unanswered`.
        """
        endpoint = self.endpoint(endpoint_id).api

        async def ask() -> Answer:
            return await endpoint.health(await endpoint.permit(Operation.HEALTH))

        asking = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(CHECK_TRIES),
            wait=tenacity.wait_fixed(pause_s),
            retry=tenacity.retry_if_exception_type((NotSent, Unanswered)) | tenacity.retry_if_result(_is_server_error),
            retry_error_callback=_last_result,
            sleep=anyio.sleep,
        )
        return await asking(ask)

    async def aclose(self) -> None:
        """Closes all connections."""
        for transport in self._transports.values():
            await transport.aclose()

    def _transport_to(self, url: httpx.URL) -> Transport:
        """The connections that lead to `url`: one pool for each proxy that the environment names."""
        proxy = environment_proxy(url) if self._trust_env and self._carrier is None else None
        if proxy not in self._transports:
            self._transports[proxy] = Transport(self._clock, transport=self._carrier, proxy=proxy)
        return self._transports[proxy]


def _is_server_error(answer: Answer) -> bool:
    return answer.status >= _SERVER_ERROR_MIN


def _last_result(state: tenacity.RetryCallState) -> Answer:
    assert state.outcome is not None, "tenacity calls this after an attempt"
    answer: Answer = state.outcome.result()
    return answer
