"""Plain POSTs to anywhere: how the emulator's webhooks leave the process."""

from collections.abc import Mapping
from typing import Final

import httpx
from multidict import CIMultiDict

from orchestrator.client.backends import Request
from orchestrator.client.transport import Transport
from orchestrator.clock import Clock
from orchestrator.errors import NotSent

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
