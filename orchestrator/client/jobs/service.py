"""One service and one key: what all its endpoints share."""

from collections.abc import Mapping
from typing import Self

import anyio
import httpx

from orchestrator.client.http.transfer_slots import TransferSlots
from orchestrator.client.http.transport import Transport, environment_proxy
from orchestrator.client.jobs.jobs import EndpointJobs
from orchestrator.client.jobs.rate_limiter import RateLimiter
from orchestrator.client.jobs.retries import Sleep
from orchestrator.client.jobs.serverless import ServerlessEndpoint, endpoint_url, request_headers, service_url
from orchestrator.clock import Clock, SystemClock
from orchestrator.core.limits.rate_pacer import Limit, Operation, Pacing


class Service:
    """The service at `serverless_url`, spoken to with `api_key`; `async with` closes its connections at the end.

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
        self.headers = request_headers(api_key)
        """What every request carries, the key among it."""
        self.api_key = api_key
        self._limits = dict(limits or {})
        self._pacing: Pacing = pacing
        self._carrier = transport
        self._trust_env = trust_env
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
            self._transport.check_proxy()
            limiter = RateLimiter(self.clock, self._limits, pacing=self._pacing)
            base = endpoint_url(self._url, endpoint_id)
            endpoint = EndpointJobs(
                ServerlessEndpoint(base, self.api_key, limiter, self._transport, self.clock), self.sleep
            )
            self._endpoints[endpoint_id] = endpoint
        return endpoint

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
        return self._transports[proxy]
