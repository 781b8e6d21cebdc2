"""One service and one key: what all its endpoints share."""

from collections.abc import Mapping
from typing import Self

import anyio
import httpx

from orchestrator.client.http.bodies import MayLeave
from orchestrator.client.http.transfer_slots import TransferSlots
from orchestrator.client.http.transport import Transport, environment_proxy
from orchestrator.client.jobs.jobs import EndpointJobs
from orchestrator.client.jobs.rate_limiter import RateLimiter
from orchestrator.client.jobs.retries import Sleep
from orchestrator.client.jobs.serverless import (
    PLAIN_HEADERS,
    ServerlessEndpoint,
    endpoint_url,
    request_headers,
    service_url,
)
from orchestrator.client.jobs.url_endpoint import PodsPlace, UrlEndpoint, own_headers
from orchestrator.clock import Clock, SystemClock
from orchestrator.core.limits.rate_pacer import Limit, Operation, Pacing
from orchestrator.core.service.endpoint_headers import NO_HEADERS, EndpointHeaders
from orchestrator.core.service.url_endpoints import belongs_to_service, is_pods, is_url, url_endpoint
from orchestrator.core.text.redaction import HIDDEN, Redactor
from orchestrator.errors import UsageError


class Service:
    """The service at `serverless_url`, spoken to with `api_key`; `async with` closes its connections at the end.

    An endpoint may also be a URL; the key goes along only where that belongs to the service.

    `clock` is the system's where none is brought. `limits` replaces rows of the contract's table for each endpoint.
    `transport` is what carries the requests, by default aiohttp; then the environment's proxy is used if `trust_env`,
    since behind a proxy nothing else works. `sleep` waits before a question is asked again. Raises `UsageError` for a
    URL or a key that cannot be used.
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
        sleep: Sleep = anyio.sleep,
    ) -> None:
        self.clock = clock or SystemClock()
        self.sleep = sleep
        url = service_url(serverless_url)
        self._url = str(url)
        self.api_key = api_key
        self.endpoint_headers: Mapping[str, EndpointHeaders] = {}
        """What requests to endpoints that are URLs carry besides, by URL: to be said before such a one is asked for."""

        self.further_keys: Mapping[str, str] = {}
        """The keys of further services, by their URLs, which endpoints that are URLs may belong to: to be said before
        such a one is asked for.
        """

        if api_key:
            request_headers(api_key)
        self._limits = dict(limits or {})
        self._pacing: Pacing = pacing
        self._carrier = transport
        self._trust_env = trust_env
        self._may_leave: MayLeave | None = None
        self._transports: dict[str | None, Transport] = {}
        self._transport = self.transport_to(url)
        self._endpoints: dict[str, EndpointJobs] = {}

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
            api = self._at_url(endpoint_id) if is_url(endpoint_id) else self._of_service(endpoint_id)
            endpoint = self._endpoints[endpoint_id] = EndpointJobs(api, self.sleep)
        return endpoint

    def forget(self, api: ServerlessEndpoint) -> None:
        """Whoever asks for that endpoint again has another object, with limits that nothing was counted in."""
        self._endpoints = {name: each for name, each in self._endpoints.items() if each.api is not api}

    def _of_service(self, endpoint_id: str) -> ServerlessEndpoint:
        base, headers = endpoint_url(self._url, endpoint_id), self.headers
        self._transport.check_proxy()
        secrets = Redactor({HIDDEN: self.api_key})
        return ServerlessEndpoint(base, headers, secrets, self._limiter(), self._transport, self.clock)

    def _at_url(self, text: str) -> UrlEndpoint:
        try:
            url = httpx.URL(text if is_pods(text) else url_endpoint(text))
        except ValueError as error:
            raise UsageError(str(error)) from None
        given = self.endpoint_headers.get(text, NO_HEADERS)
        given.check(text)
        key = self._key_of(text)
        headers = own_headers(request_headers(key) if key else PLAIN_HEADERS, given.values)
        transport = self.transport_to(url)
        transport.check_proxy()
        secrets = Redactor({HIDDEN: key or self.api_key}, sent=given.secrets)
        kind = PodsPlace if is_pods(text) else UrlEndpoint
        return kind(url, headers, secrets, self._limiter(), transport, self.clock)

    def _key_of(self, url: str) -> str:
        """The key of the service to which what is at `url` belongs, "" where it is of none: nobody else gets one."""
        keys = {self._url: self.api_key, **self.further_keys}
        return next((key for service, key in keys.items() if key and belongs_to_service(url, service)), "")

    def _limiter(self) -> RateLimiter:
        return RateLimiter(self.clock, self._limits, pacing=self._pacing)

    def ask_first(self, may_leave: MayLeave) -> None:
        """Nothing leaves where that says no, whatever it is; see `Transport.ask_first`."""
        self._may_leave = may_leave
        for transport in self._transports.values():
            transport.ask_first(may_leave)

    @property
    def headers(self) -> Mapping[str, str]:
        """What every request to the service carries, the key among it. Raises `UsageError` where there is none."""
        return request_headers(self.api_key)

    @property
    def down(self) -> TransferSlots:
        """The places of large answers on the line from the service."""
        return self._transport.down

    async def aclose(self) -> None:
        """Closes all connections."""
        for transport in self._transports.values():
            await transport.aclose()

    def transport_to(self, url: httpx.URL) -> Transport:
        """The connections that lead to `url`: one pool for each proxy that the environment names."""
        proxy = environment_proxy(url) if self._trust_env and self._carrier is None else None
        if proxy not in self._transports:
            self._transports[proxy] = Transport(self.clock, transport=self._carrier, proxy=proxy)
            if self._may_leave is not None:
                self._transports[proxy].ask_first(self._may_leave)
        return self._transports[proxy]
