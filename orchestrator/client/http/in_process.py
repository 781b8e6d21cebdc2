"""What an emulator in this process needs: a way to it without a port, and one for its webhooks to leave."""

from collections.abc import Mapping
from typing import Any, Final

import httpx
from multidict import CIMultiDict

from orchestrator.client.http.backends import Request
from orchestrator.client.http.transport import Transport
from orchestrator.clock import Clock
from orchestrator.errors import NotSent, Unanswered

DELIVERY_S_MAX: Final = 10.0
"""How long a receiver may take."""

ANSWER_BYTES_MAX: Final = 64 * 1024
"""What a receiver may answer; only its status counts."""


class Deliverer:
    """Sends each body once, over connections of its own.

    The environment's proxy is not used: receivers of webhooks stand near the emulator.
    """

    def __init__(
        self, clock: Clock, *, timeout_s: float = DELIVERY_S_MAX, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._transport = Transport(
            clock, transport=transport, connect_s=timeout_s, request_s=timeout_s, body_bytes_max=ANSWER_BYTES_MAX
        )

    async def deliver(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """POSTs `body`; the status of the answer, whatever it is.

        Raises `NotSent` (an unusable URL included) and `Unanswered`.
        """
        try:
            target = httpx.URL(url)
        except httpx.InvalidURL:
            raise NotSent("the URL cannot be read") from None
        request = Request("POST", str(target), CIMultiDict(headers), body)
        return (await self._transport.send(request)).status

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._transport.aclose()


class InProcess(httpx.AsyncBaseTransport):
    """Carries requests to an ASGI `app` in this process: no port, no socket, nobody else can reach it.

    `cut` is what the app raises where a server would drop the connection.
    """

    def __init__(self, app: Any, *, cut: type[Exception]) -> None:
        self._server = httpx.ASGITransport(app)
        self._cut = cut

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The app's answer; raises `Unanswered` where it cut the connection."""
        try:
            return await self._server.handle_async_request(request)
        except self._cut:
            raise Unanswered("the service cut the connection before the answer") from None
